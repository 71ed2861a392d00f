/* SPDX-License-Identifier: Apache-2.0 */
/* Checking addresses, and choosing the advertised one. Each mistake has its own sentence, since an
 * address is what people get wrong most often, and a server that advertises a wrong one starts well
 * and is reached by nobody. */
#include "server/address.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_every_interface(const char *host, size_t size);
static int try_to_bind(const struct addrinfo *address);

/* Stricter than the resolver, which takes port 70000 for 4464, and an IPv6 address without brackets
 * for a host with a strange port. */
enum ps_status ps_address_check(const char *option, const char *text, struct ps_error *error)
{
    PS_ASSERT(option != NULL && text != NULL);
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: \"%.100s\" is not HOST:PORT", option, text);
    /* What parses ports cuts larger numbers down to another port. */
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits < 1 || digits > 5 || colon[1 + digits] != '\0' ||
        strtoul(colon + 1, NULL, 10) > 65535)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: the port of \"%.100s\" is not 0 to 65535",
                       option, text);
    /* The colons of an IPv6 address would be taken for the one before the port. */
    bool bracketed = text[0] == '[' && colon[-1] == ']';
    if (!bracketed && memchr(text, ':', (size_t)(colon - text)) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: \"%.100s\": IPv6 addresses stand in brackets",
                       option, text);
    if (strlen(text) >= PS_ADDRESS_BYTES_MAX - 8)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: \"%.100s...\" is too long", option, text);
    return PS_OK;
}

/* By the spelling, without the resolver: a name that means loopback and is not spelt so costs a
 * warning too many. */
bool ps_address_is_loopback(const char *listen)
{
    static const char *const spellings[] = {"127.", "[::1]:", "localhost:"};
    for (size_t i = 0; i < PS_ARRAY_COUNT(spellings); i++)
        if (strncmp(listen, spellings[i], strlen(spellings[i])) == 0)
            return true;
    return false;
}

/* The host of an address without its brackets; "" for every interface. A text without a port, or
 * one that is too long, is no address: false. */
static bool split_host(const char *listen, char host[PS_ADDRESS_BYTES_MAX], const char **port)
{
    const char *colon = strrchr(listen, ':');
    size_t size = colon != NULL ? (size_t)(colon - listen) : 0;
    if (colon == NULL || size >= PS_ADDRESS_BYTES_MAX)
        return false;
    bool bracketed = size > 1 && listen[0] == '[' && listen[size - 1] == ']';
    size_t taken = bracketed ? size - 2 : size;
    memcpy(host, bracketed ? listen + 1 : listen, taken);
    host[taken] = '\0';
    *port = colon + 1;
    return true;
}

/* What the listening library would ask the resolver: 0, or the reason of getaddrinfo. Ports are
 * numbers here, so a mistyped one is never looked up among the names of services. */
static int look_up(const char *host, const char *port, struct addrinfo **found)
{
    PS_ASSERT(host != NULL && port != NULL);
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    return getaddrinfo(host[0] != '\0' ? host : NULL, port, &wanted, found);
}

/* Only the first address of a host is looked at: a name with several of them has its own refusal
 * when it is bound. */
bool ps_address_is_taken(const char *listen)
{
    PS_ASSERT(listen != NULL);
    char host[PS_ADDRESS_BYTES_MAX];
    const char *port;
    struct addrinfo *found = NULL;
    if (!split_host(listen, host, &port) || look_up(host, port, &found) != 0)
        return false;
    int reason = try_to_bind(found);
    freeaddrinfo(found);
    /* Any other reason will not pass by waiting. */
    return reason == EADDRINUSE;
}

/* Tried once more by ourselves, only to learn errno: gRPC says that it could not listen, and not
 * why. When it works this time the error keeps its first text. */
void ps_address_explain(const char *listen, struct ps_error *error)
{
    PS_ASSERT(error != NULL && error->status != PS_OK);
    char host[PS_ADDRESS_BYTES_MAX];
    const char *port;
    if (!split_host(listen, host, &port) || host[0] == '\0')
        return;
    struct addrinfo *found = NULL;
    int failed = look_up(host, port, &found);
    if (failed != 0) {
        (void)ps_fail(error, error->status, "cannot listen on %s: %s", listen,
                      gai_strerror(failed));
        return;
    }
    int reason = try_to_bind(found);
    freeaddrinfo(found);
    if (reason != 0)
        (void)ps_fail(error, error->status, "cannot listen on %s: %s", listen, strerror(reason));
}

/* 0, or errno. Closed at once: this is a question, and the port stays free. */
static int try_to_bind(const struct addrinfo *address)
{
    PS_ASSERT(address != NULL);
    int probe = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    /* Addresses may be used again, as the listening library has it: connections that just ended
     * would refuse the probe a port that the library could bind. */
    bool failed = probe < 0 || setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                  bind(probe, address->ai_addr, address->ai_addrlen) != 0;
    /* Taken before close, which may change it. */
    int reason = failed ? errno : 0;
    if (probe >= 0)
        (void)close(probe);
    return reason;
}

/* Guessing among network cards would be right on one machine and wrong on the next; the host's name
 * is what the cluster's resolver knows. Where it is not, --advertise says it. */
enum ps_status ps_address_to_advertise(const char *advertise, const char *listen, uint16_t port,
                                       char address[PS_ADDRESS_BYTES_MAX], struct ps_error *error)
{
    const char *source = advertise != NULL ? advertise : listen;
    const char *colon = strrchr(source, ':');
    if (colon == NULL || colon == source || colon[1] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: expected HOST:PORT", source);
    PS_ASSERT(colon > source);
    size_t host_size = (size_t)(colon - source);
    char host[PS_ADDRESS_BYTES_MAX] = {0};
    if (host_size >= sizeof host)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: address too long", source);
    memcpy(host, source, host_size);
    if (advertise == NULL && is_every_interface(host, host_size) &&
        gethostname(host, sizeof host - 1) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no host name: give --advertise HOST:PORT");
    /* Port 0 is "whichever was bound". */
    bool bound_port = advertise == NULL || strcmp(colon, ":0") == 0;
    int length = bound_port ? snprintf(address, PS_ADDRESS_BYTES_MAX, "%s:%u", host, port)
                            : snprintf(address, PS_ADDRESS_BYTES_MAX, "%s%s", host, colon);
    if (length < 0 || length >= PS_ADDRESS_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: address too long", source);
    return PS_OK;
}

/* In the spellings that --listen is given in. No client can connect to such an address, so the
 * host's name takes its place. */
static bool is_every_interface(const char *host, size_t size)
{
    return (size == 7 && memcmp(host, "0.0.0.0", 7) == 0) ||
           (size == 4 && memcmp(host, "[::]", 4) == 0) || (size == 1 && host[0] == '*');
}
