/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: parameters that are given to the servers, before a job trains (psclient_init) and
 * while it does (psclient_define). Both are one batch of the same items, and differ in what is said
 * of a parameter that was there. */
#include "client/psclient.h"

#include "client/caller_structs.h"
#include "client/client_state.h"
#include "client/half_types.h"
#include "client/job_placement.h"
#include "client/status_map.h"

/* An item for each of the caller's parameters; NULL when memory was refused. */
static struct ps_item *make_items(struct psclient *client,
                                  const struct psclient_parameter *parameters, size_t count)
{
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++) {
        const struct psclient_parameter parameter =
            ps_caller_parameter(&client->sizes, parameters, i);
        items[i] = ps_client_item(parameter.name, parameter.type);
        items[i].content = parameter.content;
        items[i].size = parameter.content_size;
        ps_half_fit(&items[i], parameter.type);
        /* The shape is judged with the item, where its text can name the parameter. */
        items[i].shape = parameter.shape;
        items[i].rank = parameter.rank;
        /* Without one the server takes SGD with a rate of 1. */
        if (parameter.config != NULL)
            items[i].config = (struct ps_bytes){parameter.config, parameter.config_size};
    }
    return items;
}

/* What is given is placed for good, so that the number is known before. All that the first call of
 * psclient_init gives decides how the job is spread. */
static int run_placed(struct psclient *client, enum ps_method method, struct ps_item *items,
                      size_t count, uint64_t timeout_ms, struct psclient_result *results,
                      struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    enum ps_status placed =
        method == PS_METHOD_INIT
            ? ps_client_decide_placement(client, items, count, deadline_ms, &why)
            : ps_client_await_placement(client, deadline_ms, &why);
    if (placed != PS_OK)
        return ps_client_refuse_items(client, items, count, &why, results, error);
    return ps_client_run_items(client, method, items, count,
                               ps_time_left_ms(client->clock, deadline_ms), results, error);
}

static int give(struct psclient *client, enum ps_method method,
                const struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                struct psclient_result *results, struct psclient_error *error)
{
    struct ps_item *items = make_items(client, parameters, count);
    /* Halves become float32, which is what their parameters are: in memory that outlives the
     * batch. */
    uint8_t *widened = NULL;
    if (items == NULL || !ps_half_widen(items, count, client->memory, &widened)) {
        ps_release(client->memory, items);
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    }
    int status = run_placed(client, method, items, count, timeout_ms, results, error);
    /* The engine calls such an item done; only its result says how. */
    /* Never so of a definition: there a parameter that exists is told by a field of its own. */
    for (size_t i = 0; results != NULL && i < count; i++) {
        struct psclient_result *result = ps_caller_at(results, client->sizes.result, i);
        if (items[i].status == PS_OK && items[i].before)
            result->status = PSCLIENT_ALREADY;
    }
    /* Nothing is sent any more: both may go. */
    ps_release(client->memory, widened);
    ps_release(client->memory, items);
    return status;
}

/* Several trainers may give the same parameters, or one again after a crash: a server that was
 * initialised before keeps what it has, which is a result of the item and no failure of the
 * call. */
PS_EXPORT int psclient_init(struct psclient *client, const struct psclient_parameter *parameters,
                            size_t count, uint64_t timeout_ms, struct psclient_result *results,
                            struct psclient_error *error)
{
    return give(client, PS_METHOD_INIT, parameters, count, timeout_ms, results, error);
}

/* A parameter that was there is a success here, since an equal one is what the caller wants;
 * another one of its name is a failure. */
PS_EXPORT int psclient_define(struct psclient *client, const struct psclient_parameter *parameters,
                              size_t count, uint64_t timeout_ms, struct psclient_result *results,
                              struct psclient_error *error)
{
    return give(client, PS_METHOD_DEFINE, parameters, count, timeout_ms, results, error);
}
