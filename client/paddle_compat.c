/* PaddlePaddle's client interface on top of ours. */
#include "client/paddle_compat.h"

#include "base/attributes.h"
#include "base/log.h"
#include "client/client_state.h"

#include <stdatomic.h>

/* The old interface has nothing but a number to carry a client in, so this table has to live
 * somewhere: it is the library's only mutable global. */
struct paddle_client {
    _Atomic(struct psclient *) client;
    bool may_initialise;
};
static struct paddle_client clients[PADDLE_CLIENTS_MAX];
static atomic_int client_count;

static int report(const char *what, const struct psclient_error *error)
{
    const struct ps_log log = {.clock = ps_clock_real(), .descriptor = 2, .level = PS_LOG_WARN};
    PS_LOG(&log, PS_LOG_WARN, "paddle_compat", "call failed", PS_FIELD_TEXT("call", what),
           PS_FIELD_TEXT("status", psclient_status_name(error->status)),
           PS_FIELD_TEXT("error", error->text));
    return PSERVER_ERROR;
}

static int report_text(const char *what, const char *text)
{
    struct psclient_error error = {.status = PSCLIENT_INVALID};
    for (size_t i = 0; text[i] != '\0' && i < sizeof error.text - 1; i++)
        error.text[i] = text[i];
    return report(what, &error);
}

static struct psclient *find(paddle_pserver_client handle, const char *what)
{
    struct psclient *client = NULL;
    if (handle >= 0 && handle < PADDLE_CLIENTS_MAX)
        client = atomic_load(&clients[handle].client);
    if (client == NULL)
        report_text(what, "there is no such client");
    return client;
}

static paddle_pserver_client open_client(const struct psclient_options *options,
                                         bool may_initialise, const char *what)
{
    struct psclient_error error;
    struct psclient *client;
    if (psclient_open(options, &client, &error) != PSCLIENT_OK)
        return report(what, &error);
    int handle = atomic_fetch_add(&client_count, 1);
    if (handle >= PADDLE_CLIENTS_MAX) {
        atomic_store(&client_count, PADDLE_CLIENTS_MAX);
        psclient_close(client);
        return report_text(what, "no handle is left");
    }
    clients[handle].may_initialise = may_initialise;
    atomic_store(&clients[handle].client, client);
    return handle;
}

PS_EXPORT paddle_pserver_client paddle_new_pserver_client(char *addrs, long long selected)
{
    const struct psclient_options options = {.servers = addrs, .split_bytes = UINT64_MAX};
    return open_client(&options, selected != 0, "paddle_new_pserver_client");
}

PS_EXPORT paddle_pserver_client paddle_new_etcd_pserver_client(char *etcd_endpoints)
{
    const struct psclient_options options = {
        .etcd = etcd_endpoints, .split_bytes = UINT64_MAX, .open_timeout_ms = PADDLE_TIMEOUT_MS};
    return open_client(&options, true, "paddle_new_etcd_pserver_client");
}

PS_EXPORT void paddle_pserver_client_release(paddle_pserver_client client)
{
    if (client >= 0 && client < PADDLE_CLIENTS_MAX)
        psclient_close(atomic_exchange(&clients[client].client, NULL));
}

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

/* True when every entry can be looked at. */
static bool entries_are_there(paddle_parameter **entries, int total, const char *what)
{
    bool there = total == 0 || (total > 0 && entries != NULL);
    for (int i = 0; there && i < total; i++)
        there = entries[i] != NULL && entries[i]->content_len >= 0;
    if (!there)
        report_text(what, "an entry is missing or its length is negative");
    return there;
}

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

PS_EXPORT int paddle_send_grads(paddle_pserver_client client, paddle_gradient **grads, int total)
{
    return paddle_send_grads_ex(client, grads, total, PADDLE_TIMEOUT_MS);
}

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
    int status = ps_client_pull_any(client, batch, (size_t)total, timeout_ms, &error);
    for (int i = 0; status == PSCLIENT_OK && i < total; i++)
        params[i]->element_type = (paddle_element_type)batch[i].type;
    ps_release(client->memory, batch);
    return status == PSCLIENT_OK ? PSERVER_OK : report(what, &error);
}

PS_EXPORT int paddle_get_params(paddle_pserver_client client, paddle_parameter **params, int total)
{
    return paddle_get_params_ex(client, params, total, PADDLE_TIMEOUT_MS);
}
