/* libpsclient: memory that servers on this host see. */
#include "client/psclient.h"

#include "client/client_state.h"
#include "client/status_map.h"

PS_EXPORT int psclient_memory_new(struct psclient *client, size_t bytes, void **memory,
                                  struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint8_t *made;
    if (bytes == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "memory of no bytes");
    enum ps_status status = ps_caller_memory_acquire(client->memories, bytes, &made, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *memory = made;
    return ps_client_succeed(error);
}

PS_EXPORT int psclient_memory_free(struct psclient *client, void *memory)
{
    if (memory == NULL || ps_caller_memory_release(client->memories, memory))
        return PSCLIENT_OK;
    return PSCLIENT_INVALID;
}
