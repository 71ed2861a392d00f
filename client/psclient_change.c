/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: parameters that are dropped and configured while a job trains. Their names are
 * looked up first, then every range of them is a call of its own; what becomes of a parameter is
 * put together of its ranges. A call that a client did not live to finish is finished by the same
 * call: what was done then is done again without harm, or is not there any more to be done. */
#include "client/psclient.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "client/answers.h"
#include "client/caller_structs.h"
#include "client/find_params.h"
#include "client/status_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is to be done, and to whom. */
struct wish {
    enum ps_method method;
    const char *const *names;
    size_t count;
    const char *prefix; /* instead of names: all that begin so; NULL: the names */
    struct ps_bytes change;
    uint64_t deadline_ms;
    struct psclient_config *configs; /* one for each name; or NULL */
};

/* What became of one parameter. */
struct outcome {
    enum ps_status status; /* of the first range that failed; NOT_FOUND while none was there */
    uint32_t ranges;       /* that it should have */
    uint32_t done;         /* of those that are there */
    uint64_t version;
    uint64_t position;
    uint64_t step;
    uint32_t retries;
    bool duplicate;
    char text[PS_ITEM_TEXT_MAX];
};

static int run_wish(struct psclient *client, const struct wish *wish,
                    struct psclient_result *results, size_t *found, struct psclient_error *error);
static enum ps_status check(const struct wish *wish, struct ps_error *error);
static enum ps_status find(struct psclient *client, const struct wish *wish,
                           struct ps_found_params *found, struct ps_error *error);
static enum ps_status change_found(struct psclient *client, const struct wish *wish,
                                   const struct ps_found_params *found, struct outcome *outcomes,
                                   struct ps_error *error);
static void take_item(const struct wish *wish, const struct ps_found_param *row,
                      const struct ps_item *item, const struct ps_changed *changed,
                      struct outcome *outcome);
static void judge(const struct wish *wish, struct outcome *outcome);
static void fail(struct outcome *outcome, enum ps_status status, const char *text);
static int tell(const struct psclient *client, const struct wish *wish,
                const struct outcome *outcomes, struct psclient_result *results,
                struct psclient_error *error);

/* Asks nothing before it drops: whoever wants to be asked is asked by a tool. */
PS_EXPORT int psclient_drop(struct psclient *client, const char *const *names, size_t count,
                            uint64_t timeout_ms, struct psclient_result *results,
                            struct psclient_error *error)
{
    const struct wish wish = {.method = PS_METHOD_DROP,
                              .names = names,
                              .count = count,
                              .deadline_ms = ps_deadline_after(client->clock, timeout_ms)};
    return run_wish(client, &wish, results, NULL, error);
}

/* The bytes of the change go out as they are: what they mean is between the caller and the server,
 * so that a field of a newer .proto needs no newer client. */
PS_EXPORT int psclient_configure(struct psclient *client, const char *const *names, size_t count,
                                 const void *change, size_t change_size, uint64_t timeout_ms,
                                 struct psclient_result *results, struct psclient_config *configs,
                                 struct psclient_error *error)
{
    const struct wish wish = {.method = PS_METHOD_CONFIGURE,
                              .names = names,
                              .count = count,
                              .change = {change, change_size},
                              .deadline_ms = ps_deadline_after(client->clock, timeout_ms),
                              .configs = configs};
    return run_wish(client, &wish, results, NULL, error);
}

/* One outcome stands for all: the first failure is the reason, and which name it is of stands in
 * its text. */
PS_EXPORT int psclient_configure_prefix(struct psclient *client, const char *prefix,
                                        const void *change, size_t change_size, uint64_t timeout_ms,
                                        size_t *found, struct psclient_error *error)
{
    const struct wish wish = {.method = PS_METHOD_CONFIGURE,
                              .prefix = prefix != NULL ? prefix : "",
                              .change = {change, change_size},
                              .deadline_ms = ps_deadline_after(client->clock, timeout_ms)};
    return run_wish(client, &wish, NULL, found, error);
}

/* Parameters, of which each has one first range. */
static size_t count_first(const struct ps_found_params *found)
{
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++)
        count += found->rows[i].range == 0 ? 1 : 0;
    return count;
}

/* Three steps: look the names up, change every row that was found, put the rows together. A call
 * that fails before the second one has changed nothing. */
static int run_wish(struct psclient *client, const struct wish *wish,
                    struct psclient_result *results, size_t *found_count,
                    struct psclient_error *error)
{
    PS_ASSERT(wish->method == PS_METHOD_DROP || wish->method == PS_METHOD_CONFIGURE);
    PS_ASSERT(wish->prefix == NULL || wish->configs == NULL);
    struct ps_error why = {.status = PS_OK};
    struct ps_found_params found = {0};
    /* A prefix has one outcome for all that it stands for. */
    size_t count = wish->prefix == NULL ? wish->count : 1;
    struct outcome *outcomes = ps_zeroed_array(client->memory, count, sizeof *outcomes);
    enum ps_status status = PS_ERR_NO_MEMORY;
    /* The one failure without results: there is no memory to put them together. */
    if (outcomes == NULL)
        return ps_client_fail(error, status, "no memory for a batch");
    status = check(wish, &why);
    if (status == PS_OK)
        status = find(client, wish, &found, &why);
    if (status == PS_OK)
        status = change_found(client, wish, &found, outcomes, &why);
    if (status == PS_OK && found_count != NULL)
        *found_count = count_first(&found);
    /* Every name has its result, also of a call that changed nothing. */
    for (size_t i = 0; i < count; i++) {
        if (status == PS_OK)
            judge(wish, &outcomes[i]);
        else
            fail(&outcomes[i], status, why.text);
        /* What encodings have left out of its gradients belongs to nothing any more. */
        if (wish->method == PS_METHOD_DROP && outcomes[i].status == PS_OK)
            ps_push_encoder_forget(&client->encoder, ps_bytes_of_text(wish->names[i]));
    }
    int result = tell(client, wish, outcomes, results, error);
    /* Items pointed to the names in it; their batch is over. */
    ps_found_params_fini(client, &found);
    ps_release(client->memory, outcomes);
    return result;
}

/* What a server would say to every name is said here, before any is changed. */
static enum ps_status check(const struct wish *wish, struct ps_error *error)
{
    /* A drop says nothing but names. */
    if (wish->method != PS_METHOD_CONFIGURE)
        return PS_OK;
    if (wish->change.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a change of nothing");
    if (wish->change.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a configuration of %zu bytes", wish->change.size);
    return PS_OK;
}

/* As find_params compares them with the servers' rows. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct ps_sought_param *)a)->name,
                  ((const struct ps_sought_param *)b)->name);
}

/* Sorted, so that each row of the servers is looked for among them quickly. The same name twice
 * would be changed twice, or be missing the second time. */
static enum ps_status sort_names(const struct wish *wish, struct ps_sought_param *sorted,
                                 struct ps_error *error)
{
    /* A name that is empty or too long is simply not found; one that is NULL would be read. */
    for (size_t i = 0; i < wish->count; i++) {
        if (wish->names[i] == NULL)
            return ps_fail(error, PS_ERR_BAD_INPUT, "a parameter's name is empty");
        sorted[i] = (struct ps_sought_param){wish->names[i], i};
    }
    qsort(sorted, wish->count, sizeof *sorted, compare_names);
    /* Equal names are neighbours now. */
    for (size_t i = 1; i < wish->count; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.100s is named twice",
                           sorted[i].name);
    return PS_OK;
}

/* An empty batch asks nobody, as every empty batch. */
static enum ps_status find(struct psclient *client, const struct wish *wish,
                           struct ps_found_params *found, struct ps_error *error)
{
    if (wish->prefix != NULL)
        return ps_find_params(client, NULL, 0, wish->prefix, wish->deadline_ms, found, error);
    if (wish->count == 0)
        return PS_OK;
    struct ps_sought_param *sorted = ps_zeroed_array(client->memory, wish->count, sizeof *sorted);
    if (sorted == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    enum ps_status status = sort_names(wish, sorted, error);
    if (status == PS_OK)
        status = ps_find_params(client, sorted, wish->count, NULL, wish->deadline_ms, found, error);
    ps_release(client->memory, sorted);
    return status;
}

/* One batch, each row to the server that has listed it. */
static enum ps_status change_found(struct psclient *client, const struct wish *wish,
                                   const struct ps_found_params *found, struct outcome *outcomes,
                                   struct ps_error *error)
{
    struct ps_item *items = ps_zeroed_array(client->memory, found->count, sizeof *items);
    struct ps_changed *changed = ps_zeroed_array(client->memory, found->count, sizeof *changed);
    /* Both or neither: an answer without a place to go would have to be asked for again. */
    enum ps_status status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    if (items != NULL && changed != NULL) {
        for (size_t i = 0; i < found->count; i++) {
            const struct ps_found_param *row = &found->rows[i];
            /* Ranges have the same configuration: the one that answers last is told. */
            if (wish->configs != NULL)
                changed[i].config = &wish->configs[row->which];
            items[i] = (struct ps_item){.shard = row->shard,
                                        .name = {(const uint8_t *)row->name, row->size},
                                        .config = wish->change,
                                        .answer = ps_answer_changed(&changed[i])};
        }
        const struct ps_batch_request request = {.method = wish->method,
                                                 .items = items,
                                                 .item_count = found->count,
                                                 .deadline_ms = wish->deadline_ms};
        status = ps_client_run(client, &request, error);
    }
    /* In the order of the servers and, on each, of the names: the first failure is the same each
     * time. */
    for (size_t i = 0; status == PS_OK && i < found->count; i++)
        take_item(wish, &found->rows[i], &items[i], &changed[i], &outcomes[found->rows[i].which]);
    ps_release(client->memory, changed);
    ps_release(client->memory, items);
    return status;
}

/* The first failure is the reason; the later ones are mostly its consequences. */
static void fail(struct outcome *outcome, enum ps_status status, const char *text)
{
    if (outcome->status != PS_OK)
        return;
    outcome->status = status;
    snprintf(outcome->text, sizeof outcome->text, "%s", text);
}

/* A range that went between the question and the change was dropped by another client: for a drop
 * that is as good as done, and whether anything was there to be dropped the others say. */
static void take_item(const struct wish *wish, const struct ps_found_param *row,
                      const struct ps_item *item, const struct ps_changed *changed,
                      struct outcome *outcome)
{
    PS_ASSERT(row->ranges > 0 && row->range < row->ranges);
    outcome->retries += item->retries;
    /* Clients that cut otherwise have ranges of another number; the larger one is wanted. */
    outcome->ranges = row->ranges > outcome->ranges ? row->ranges : outcome->ranges;
    if (item->status == PS_ERR_NOT_FOUND)
        return;
    if (item->status != PS_OK) {
        fail(outcome, item->status, item->text);
        return;
    }
    /* Of a cut parameter the lowest is told, which is true of every range. */
    bool is_first = outcome->done++ == 0;
    /* The versions of ranges differ when a push was to only some of them. */
    if (is_first || changed->version < outcome->version)
        outcome->version = changed->version;
    if (is_first || changed->step < outcome->step)
        outcome->step = changed->step;
    outcome->duplicate = outcome->duplicate || changed->duplicate;
    outcome->position = row->ranges == 1 ? changed->position : 0;
    if (wish->configs != NULL)
        wish->configs[row->which].step = outcome->step;
}

/* Of a prefix nothing is missing that was not found. A drop needs no more ranges than there are; a
 * parameter that trains on with another configuration in some of its ranges is told. */
static void judge(const struct wish *wish, struct outcome *outcome)
{
    if (outcome->status != PS_OK || wish->prefix != NULL)
        return;
    /* Nothing was found, or all of it went before the change came. */
    if (outcome->done == 0)
        fail(outcome, PS_ERR_NOT_FOUND, "no such parameter");
    else if (wish->method == PS_METHOD_CONFIGURE && outcome->done < outcome->ranges)
        fail(outcome, PS_ERR_NOT_FOUND,
             "not all of its ranges are there: a client died while it defined or dropped it; do "
             "that again");
}

/* As of any batch: every name has its own result, and the call says the first failure. */
static int tell(const struct psclient *client, const struct wish *wish,
                const struct outcome *outcomes, struct psclient_result *results,
                struct psclient_error *error)
{
    size_t count = wish->prefix == NULL ? wish->count : 1;
    /* Of a prefix nobody asks for results: there would be no telling how many. */
    for (size_t i = 0; results != NULL && i < count; i++) {
        const struct outcome *outcome = &outcomes[i];
        struct psclient_result result = {.status = ps_client_status_of(outcome->status),
                                         .version = outcome->version,
                                         .retries = outcome->retries,
                                         .duplicate = outcome->duplicate ? 1 : 0,
                                         .position = outcome->position};
        /* As of a batch of pushes. */
        ps_utf8_shorten(result.text, sizeof result.text, outcome->text);
        ps_caller_copy(ps_caller_at(results, client->sizes.result, i), client->sizes.result,
                       &result, sizeof result);
    }
    /* The first one in the caller's order, whichever server was slower. */
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].status == PS_OK)
            continue;
        /* A server's text names the parameter already, ours does not. */
        char text[sizeof error->text];
        char reason[151]; /* beside a name, or a part of one */
        ps_utf8_shorten(reason, sizeof reason, outcomes[i].text);
        bool is_named = wish->prefix != NULL || wish->names[i] == NULL ||
                        strncmp(outcomes[i].text, "parameter", 9) == 0;
        snprintf(text, sizeof text, "%.100s%s%s", is_named ? "" : wish->names[i],
                 is_named ? "" : ": ", reason);
        return ps_client_fail(error, outcomes[i].status, text);
    }
    return ps_client_succeed(error);
}
