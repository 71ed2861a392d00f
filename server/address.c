/* Choosing the advertised address. */
#include "server/address.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_every_interface(const char *host, size_t size);

enum ps_status ps_address_to_advertise(const char *advertise, const char *listen, uint16_t port,
                                       char address[PS_ADDRESS_BYTES_MAX], struct ps_error *error)
{
    const char *source = advertise != NULL ? advertise : listen;
    const char *colon = strrchr(source, ':');
    if (colon == NULL || colon == source || colon[1] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: expected HOST:PORT", source);
    size_t host_size = (size_t)(colon - source);
    char host[PS_ADDRESS_BYTES_MAX] = {0};
    if (host_size >= sizeof host)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: address too long", source);
    memcpy(host, source, host_size);
    if (advertise == NULL && is_every_interface(host, host_size) &&
        gethostname(host, sizeof host - 1) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no host name: give --advertise HOST:PORT");
    bool bound_port = advertise == NULL || strcmp(colon, ":0") == 0;
    int length = bound_port ? snprintf(address, PS_ADDRESS_BYTES_MAX, "%s:%u", host, port)
                            : snprintf(address, PS_ADDRESS_BYTES_MAX, "%s%s", host, colon);
    if (length < 0 || length >= PS_ADDRESS_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: address too long", source);
    return PS_OK;
}

static bool is_every_interface(const char *host, size_t size)
{
    return (size == 7 && memcmp(host, "0.0.0.0", 7) == 0) ||
           (size == 4 && memcmp(host, "[::]", 4) == 0) || (size == 1 && host[0] == '*');
}
