/* SPDX-License-Identifier: Apache-2.0 */
/* PaddlePaddle's client interface on top of ours: programs of 2017 are linked against this library
 * and go on working. Each function looks its handle up, puts the arguments into our structs and
 * calls the public function; no rule of the client lives here.
 *
 * The old interface has two codes and no text. So each failure is said on standard error, in one
 * line with the call, our status and the reason, where an operator of such a program looks. */
#include "client/paddle_compat.h"

#include "base/attributes.h"
#include "base/log.h"
#include "client/client_state.h"

#include <stdatomic.h>

/* The old interface has nothing but a number to carry a client in, so this table has to live
 * somewhere: it is the library's only mutable global. It has a fixed size, because a table that
 * grows would have to be locked for every call. */
struct paddle_client {
    _Atomic(struct psclient *) client;
    bool may_initialise;
};
static struct paddle_client clients[PADDLE_CLIENTS_MAX];
static atomic_int client_count;

/* The log is made for the occasion: the library has none, since it belongs to its caller's
 * process. */
static int report(const char *what, const struct psclient_error *error)
{
    const struct ps_log log = {.clock = ps_clock_real(), .descriptor = 2, .level = PS_LOG_WARN};
    PS_LOG(&log, PS_LOG_WARN, "paddle_compat", "call failed", PS_FIELD_TEXT("call", what),
           PS_FIELD_TEXT("status", psclient_status_name(error->status)),
           PS_FIELD_TEXT("error", error->text));
    return PSERVER_ERROR;
}

/* For failures of the arguments, which never reach our functions. */
static int report_text(const char *what, const char *text)
{
    struct psclient_error error = {.status = PSCLIENT_INVALID};
    for (size_t i = 0; text[i] != '\0' && i < sizeof error.text - 1; i++)
        error.text[i] = text[i];
    return report(what, &error);
}

/* A handle may be any number: an old program passes -1 on when opening has failed, and must get an
 * error, not a crash. */
static struct psclient *find(paddle_pserver_client handle, const char *what)
{
    struct psclient *client = NULL;
    /* A release may come at the same moment: the header leaves it to the caller that no call is
     * using the handle then. */
    if (handle >= 0 && handle < PADDLE_CLIENTS_MAX)
        client = atomic_load(&clients[handle].client);
    if (client == NULL)
        report_text(what, "there is no such client");
    return client;
}

/* A handle is a place in the table, taken for good: a handle that was released and used again by
 * mistake meets nobody, instead of another client. */
static paddle_pserver_client open_client(const struct psclient_options *options,
                                         bool may_initialise, const char *what)
{
    struct psclient_error error;
    struct psclient *client;
    if (psclient_open(options, &client, &error) != PSCLIENT_OK)
        return report(what, &error);
    int handle = atomic_fetch_add(&client_count, 1);
    /* The count is set back, so that it cannot run on to where it becomes negative. */
    if (handle >= PADDLE_CLIENTS_MAX) {
        atomic_store(&client_count, PADDLE_CLIENTS_MAX);
        psclient_close(client);
        return report_text(what, "no handle is left");
    }
    /* Written before the client is published by the atomic store: whoever finds the client finds
     * this. */
    clients[handle].may_initialise = may_initialise;
    atomic_store(&clients[handle].client, client);
    return handle;
}

/* Parameters are never cut: the old servers kept each on one, and programs may rely on asking one
 * server for a name. */
PS_EXPORT paddle_pserver_client paddle_new_pserver_client(char *addrs, long long selected)
{
    const struct psclient_options options = {.servers = addrs, .split_bytes = UINT64_MAX};
    return open_client(&options, selected != 0, "paddle_new_pserver_client");
}

/* The lock in the store decides which trainer initialises, not the caller: hence `true`. */
PS_EXPORT paddle_pserver_client paddle_new_etcd_pserver_client(char *etcd_endpoints)
{
    const struct psclient_options options = {
        .etcd = etcd_endpoints, .split_bytes = UINT64_MAX, .open_timeout_ms = PADDLE_TIMEOUT_MS};
    return open_client(&options, true, "paddle_new_etcd_pserver_client");
}

/* The exchange makes a second release harmless, also at the same moment. */
PS_EXPORT void paddle_pserver_client_release(paddle_pserver_client client)
{
    if (client >= 0 && client < PADDLE_CLIENTS_MAX)
        psclient_close(atomic_exchange(&clients[client].client, NULL));
}

/* Without limit, as there: the others wait until the selected trainer is done, for however long its
 * model takes to initialise. */
PS_EXPORT int paddle_begin_init_params(paddle_pserver_client handle)
{
    struct psclient *client = find(handle, "paddle_begin_init_params");
    if (client == NULL)
        return PSERVER_ERROR;
    if (!clients[handle].may_initialise)
        return 0;
    struct psclient_error error;
    int selected = 0;
    if (psclient_begin_init(client, PSCLIENT_FOREVER, &selected, &error) != PSCLIENT_OK)
        return report("paddle_begin_init_params", &error);
    return selected;
}

/* Lengths are ints in this interface, and a negative one would become an immense size.
 *
 * A server that is initialised already does not make psclient_init fail, and so is not an error
 * here. */
PS_EXPORT int paddle_init_param(paddle_pserver_client handle, paddle_parameter param,
                                void *param_config, int config_len)
{
    struct psclient *client = find(handle, "paddle_init_param");
    if (client == NULL)
        return PSERVER_ERROR;
    if (param.content_len < 0 || config_len < 0)
        return report_text("paddle_init_param", "a length is negative");
    const struct psclient_parameter parameter = {.name = param.name,
                                                 .type = (enum psclient_type)param.element_type,
                                                 .content = param.content,
                                                 .content_size = (size_t)param.content_len,
                                                 .config = param_config,
                                                 .config_size = (size_t)config_len};
    struct psclient_error error;
    if (psclient_init(client, &parameter, 1, PADDLE_TIMEOUT_MS, NULL, &error) != PSCLIENT_OK)
        return report("paddle_init_param", &error);
    return PSERVER_OK;
}

/* The interface has no way to say "begin again" but its one error: so the line on standard error
 * says it. */
PS_EXPORT int paddle_finish_init_params(paddle_pserver_client handle)
{
    struct psclient *client = find(handle, "paddle_finish_init_params");
    if (client == NULL)
        return PSERVER_ERROR;
    struct psclient_error error;
    int status = psclient_finish_init(client, PADDLE_TIMEOUT_MS, &error);
    if (status == PSCLIENT_NOT_INITIALIZED)
        error = (struct psclient_error){
            PSCLIENT_NOT_INITIALIZED,
            "the initialisation was lost: go on from paddle_begin_init_params"};
    return status == PSCLIENT_OK ? PSERVER_OK : report("paddle_finish_init_params", &error);
}

/* True when every entry can be looked at. Judged for all before the first is used: a batch is sent
 * as a whole or not at all. */
static bool entries_are_there(paddle_parameter **entries, int total, const char *what)
{
    bool there = total == 0 || (total > 0 && entries != NULL);
    for (int i = 0; there && i < total; i++)
        there = entries[i] != NULL && entries[i]->content_len >= 0;
    if (!there)
        report_text(what, "an entry is missing or its length is negative");
    return there;
}

/* "no gradient received" is what the old client said of an empty batch. */
PS_EXPORT int paddle_send_grads_ex(paddle_pserver_client handle, paddle_gradient **grads, int total,
                                   unsigned long long timeout_ms)
{
    static const char what[] = "paddle_send_grads";
    struct psclient *client = find(handle, what);
    if (client == NULL || !entries_are_there(grads, total, what))
        return PSERVER_ERROR;
    if (total == 0)
        return report_text(what, "no gradient received");
    struct psclient_gradient *batch = ps_zeroed_array(client->memory, (size_t)total, sizeof *batch);
    if (batch == NULL)
        return report_text(what, "no memory");
    for (int i = 0; i < total; i++)
        batch[i] = (struct psclient_gradient){.name = grads[i]->name,
                                              .type = (enum psclient_type)grads[i]->element_type,
                                              .content = grads[i]->content,
                                              .content_size = (size_t)grads[i]->content_len};
    struct psclient_error error;
    int status = psclient_push(client, batch, (size_t)total, timeout_ms, NULL, &error);
    ps_release(client->memory, batch);
    return status == PSCLIENT_OK ? PSERVER_OK : report(what, &error);
}

/* The old calls had no deadline. Ten minutes are longer than any takeover, and end the wait of a
 * program whose servers are gone for good. */
PS_EXPORT int paddle_send_grads(paddle_pserver_client client, paddle_gradient **grads, int total)
{
    return paddle_send_grads_ex(client, grads, total, PADDLE_TIMEOUT_MS);
}

/* The type comes from the server: the old interface fills it in, where ours wants to be told. An
 * empty batch is fine here. */
PS_EXPORT int paddle_get_params_ex(paddle_pserver_client handle, paddle_parameter **params,
                                   int total, unsigned long long timeout_ms)
{
    static const char what[] = "paddle_get_params";
    struct psclient *client = find(handle, what);
    if (client == NULL || !entries_are_there(params, total, what))
        return PSERVER_ERROR;
    struct psclient_parameter *batch =
        ps_zeroed_array(client->memory, (size_t)total, sizeof *batch);
    if (batch == NULL)
        return report_text(what, "no memory");
    for (int i = 0; i < total; i++)
        batch[i] = (struct psclient_parameter){.name = params[i]->name,
                                               .content = params[i]->content,
                                               .content_size = (size_t)params[i]->content_len};
    struct psclient_error error;
    /* A parameter whose length is not exactly the caller's is refused before a byte of it is
     * written. */
    int status = ps_client_pull_any(client, batch, (size_t)total, timeout_ms, &error);
    /* After a failure the caller's types stay as they were, whatever single items brought. */
    for (int i = 0; status == PSCLIENT_OK && i < total; i++)
        params[i]->element_type = (paddle_element_type)batch[i].type;
    ps_release(client->memory, batch);
    return status == PSCLIENT_OK ? PSERVER_OK : report(what, &error);
}

PS_EXPORT int paddle_get_params(paddle_pserver_client client, paddle_parameter **params, int total)
{
    return paddle_get_params_ex(client, params, total, PADDLE_TIMEOUT_MS);
}
