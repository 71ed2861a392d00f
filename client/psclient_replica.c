/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: parameters that are kept up to date by delta pulls. The public side of
 * client/replica: it turns parameters into parts (a parameter that is cut lives on several servers,
 * each of which knows its own part of it), runs rounds until no part is stale, and turns what
 * became of parts into results of parameters.
 *
 * Each round is one batch of the engine, with its own repeating of calls that broke. The engine
 * does not see a server that answers and says of single parts "not mine" or "not yet": such parts
 * are asked for again in the next round, until the caller's deadline. */
#include "client/replica_handle.h"

#include "base/hash.h"
#include "client/caller_structs.h"
#include "client/engine/placement.h"
#include "client/job_placement.h"
#include "client/status_map.h"

#include <stdio.h>
#include <string.h>

/* Before servers that could not answer are asked again: about as long as the engine pauses before
 * its first repetition. */
#define PAUSE_MS 20

static struct psclient_parameter *
parameter_at(const struct psclient *client, const struct psclient_parameter *parameters, size_t i);
static enum ps_status check_parameter(const struct psclient_parameter *parameter,
                                      struct ps_error *error);
static struct ps_placement placement_of(const struct psclient *client,
                                        const struct psclient_parameter *parameter);
static enum ps_status add_parts(struct psclient_replica *handle, uint32_t i,
                                struct ps_error *error);
static enum ps_status make_parts(struct psclient_replica *handle, struct ps_error *error);
static enum ps_status pull_round(struct psclient_replica *handle, uint64_t deadline_ms, bool *more,
                                 struct ps_error *error);
static bool look_elsewhere(struct psclient_replica *handle, uint64_t deadline_ms);
static int tell_results(struct psclient_replica *handle, uint64_t deadline_ms,
                        struct psclient_result *results, struct psclient_error *error);

/* Parts that the parameters make together. A parameter that is wrong counts for nothing here, and
 * fails add_parts with its reason. */
static size_t count_parts(const struct psclient *client,
                          const struct psclient_parameter *parameters, size_t count)
{
    size_t parts = 0;
    for (size_t i = 0; i < count; i++) {
        struct ps_error ignored;
        const struct psclient_parameter *parameter = parameter_at(client, parameters, i);
        if (check_parameter(parameter, &ignored) == PS_OK)
            parts += placement_of(client, parameter).range_count;
    }
    return parts;
}

/* In the caller's own array. All that is used of it here the first header had. */
static struct psclient_parameter *
parameter_at(const struct psclient *client, const struct psclient_parameter *parameters, size_t i)
{
    return ps_caller_at(parameters, client->sizes.parameter, i);
}

/* Nothing is sent yet, so that only what the caller gave can be wrong. All parameters are checked
 * before any is pulled: a replica is opened as a whole or not at all. */
PS_EXPORT int psclient_replica_open(struct psclient *client, struct psclient_parameter *parameters,
                                    size_t count, struct psclient_replica **out,
                                    struct psclient_error *error)
{
    struct ps_error why = {.status = PS_ERR_NO_MEMORY, .text = "no memory for a replica"};
    enum ps_status status = PS_ERR_NO_MEMORY;
    struct psclient_replica *handle = ps_zeroed(client->memory, sizeof *handle);
    /* Both failures of memory have this text; a failure with a reason writes its own over it. */
    if (handle != NULL) {
        handle->client = client;
        handle->parameters = parameters;
        handle->count = count;
        status = make_parts(handle, &why);
    }
    if (status != PS_OK) {
        psclient_replica_close(handle);
        return ps_client_fail(error, status, why.text);
    }
    *out = handle;
    return ps_client_succeed(error);
}

/* By the placement that the client knows now. On a failure the handle has what it had before. */
static enum ps_status make_parts(struct psclient_replica *handle, struct ps_error *error)
{
    struct psclient *client = handle->client;
    struct ps_replica *before = handle->replica;
    uint64_t placed_by = ps_client_layout(client).placement;
    PS_TRY(ps_replica_create(client->memory, count_parts(client, handle->parameters, handle->count),
                             &handle->replica, error));
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < handle->count && status == PS_OK; i++)
        status = add_parts(handle, (uint32_t)i, error);
    if (status != PS_OK) {
        ps_replica_destroy(handle->replica);
        handle->replica = before;
        return status;
    }
    /* Read before the parts were made: one that was told meanwhile is seen as another. */
    handle->placed_by = placed_by;
    if (before != NULL)
        handle->replica->counters = before->counters;
    ps_replica_destroy(before);
    return PS_OK;
}

/* The contents stay as they are: they are the caller's, each one whole version. */
PS_EXPORT void psclient_replica_close(struct psclient_replica *handle)
{
    if (handle == NULL)
        return;
    ps_replica_destroy(handle->replica);
    psclient_table_close(handle->table);
    ps_release(handle->client->memory, handle);
}

/* In the words of the other calls. A size of 0 has no element to ask for, and no blocks to
 * check. */
static enum ps_status check_parameter(const struct psclient_parameter *parameter,
                                      struct ps_error *error)
{
    const char *name = parameter->name != NULL ? parameter->name : "";
    if ((unsigned)parameter->type >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.100s: %u is not an element type", name,
                       (unsigned)parameter->type);
    if (parameter->content == NULL || parameter->content_size == 0 ||
        parameter->content_size % ps_dtype_size((enum ps_dtype)parameter->type) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.100s: %zu bytes are not elements",
                       name, parameter->content_size);
    return PS_OK;
}

/* The same rule as for a push of the parameter: both must meet the same ranges. */
static struct ps_placement placement_of(const struct psclient *client,
                                        const struct psclient_parameter *parameter)
{
    const struct ps_layout layout = ps_client_layout(client);
    return ps_placement_of(parameter->content_size, ps_dtype_size((enum ps_dtype)parameter->type),
                           &layout);
}

/* A part's name is that of the range on its server; ps_replica_add copies it, so that it may lie on
 * the stack. Its content is a piece of the caller's memory: nothing is put together at the end. */
static enum ps_status add_parts(struct psclient_replica *handle, uint32_t i, struct ps_error *error)
{
    struct psclient_parameter *parameter = parameter_at(handle->client, handle->parameters, i);
    PS_TRY(check_parameter(parameter, error));
    const struct ps_bytes name = ps_bytes_of_text(parameter->name);
    struct ps_placement placement = placement_of(handle->client, parameter);
    PS_TRY(ps_placement_check_name(name, placement.range_count > 1, error));
    /* Until the first pull nothing is held, whatever the caller's struct said. */
    parameter->version = 0;
    for (uint32_t k = 0; k < placement.range_count; k++) {
        char text[PS_NAME_BYTES_MAX];
        struct ps_range range = ps_placement_range(&placement, name, k);
        const struct ps_replica_part part = {
            .name = {(const uint8_t *)text, ps_placement_name(&placement, name, k, text)},
            .shard = range.shard,
            .parameter = i,
            .dtype = (enum ps_dtype)parameter->type,
            .content = (uint8_t *)parameter->content + range.offset,
            .size = range.size};
        PS_TRY(ps_replica_add(handle->replica, &part, error));
    }
    return PS_OK;
}

/* ---- Pulling ---- */

/* The wake-ups are counted before the round: a server that moves during it ends the pause at
 * once. */
PS_EXPORT int psclient_pull_since(struct psclient_replica *handle, uint64_t timeout_ms,
                                  struct psclient_result *results, struct psclient_error *error)
{
    struct psclient *client = handle->client;
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    struct ps_error why = {.status = PS_OK};
    if (ps_client_check_process(client, &why) != PS_OK)
        return ps_client_fail(error, why.status, why.text);
    bool more = true;
    ps_replica_begin(handle->replica);
    while (more) {
        uint64_t seen = ps_wake_count(&client->wake);
        enum ps_status status = pull_round(handle, deadline_ms, &more, &why);
        /* The round could not be made at all. The results are written all the same, since some
         * parts may be up to date. */
        if (status != PS_OK) {
            (void)tell_results(handle, deadline_ms, results, NULL);
            return ps_client_fail(error, status, why.text);
        }
        /* While parts are coming there is no pause: the next answer is ready as soon as it is asked
         * for. After the deadline the engine fails the messages, and their parts with them: so the
         * loop ends. */
        if (more && !handle->replica->advanced)
            ps_wake_wait(&client->wake, seen, PAUSE_MS);
        /* Behind the last round and not before the first: a replica of a job whose placement was
         * decided long ago asks nobody for it. */
        if (!more && look_elsewhere(handle, deadline_ms)) {
            ps_replica_begin(handle->replica);
            more = true;
        }
    }
    return tell_results(handle, deadline_ms, results, error);
}

/* A replica that was opened before the job's placement was decided has looked by the classic rule.
 * A server that does not find a part is initialised, so the number is known by then; the parts are
 * made anew, and pulled whole, when it is another rule. Happens once in the life of a replica. */
static bool look_elsewhere(struct psclient_replica *handle, uint64_t deadline_ms)
{
    struct psclient *client = handle->client;
    const struct ps_replica *replica = handle->replica;
    bool is_missing = false;
    for (size_t i = 0; i < replica->part_count; i++)
        is_missing = is_missing || replica->parts[i].status == PS_ERR_NOT_FOUND;
    /* The rows of a table have their servers by their keys. */
    if (!is_missing || handle->table != NULL || handle->placed_by != 0 ||
        ps_client_await_placement(client, deadline_ms, NULL) != PS_OK)
        return false;
    /* 0 and 1 look in the same places. */
    if (ps_client_layout(client).placement <= PS_PLACEMENT_CLASSIC) {
        handle->placed_by = PS_PLACEMENT_CLASSIC;
        return false;
    }
    return make_parts(handle, NULL) == PS_OK;
}

/* A message that failed has told none of its parts: each of them gets its status here. An answer
 * that was taken has done so itself. */
static enum ps_status run_messages(struct psclient *client, struct ps_since_message *messages,
                                   struct ps_item *items, size_t count, uint64_t deadline_ms,
                                   struct ps_error *error)
{
    for (size_t i = 0; i < count; i++)
        items[i] = ps_replica_item(&messages[i]);
    const struct ps_batch_request request = {
        .method = PS_METHOD_SINCE, .items = items, .item_count = count, .deadline_ms = deadline_ms};
    /* The takers of the items have put answers into their parts when this returns. */
    PS_TRY(ps_client_run(client, &request, error));
    for (size_t i = 0; i < count; i++)
        if (items[i].status != PS_OK)
            ps_replica_fail(&messages[i], items[i].status, items[i].text);
    return PS_OK;
}

/* A server that says so of a part knows better than we who owns the shard. The engine does not see
 * it, because the message itself was answered: so the follower is asked from here, as
 * client_state.c does it for whole calls. */
static void look_again(struct psclient *client, const struct ps_replica *replica)
{
    bool moved = false;
    for (size_t i = 0; i < replica->part_count; i++)
        moved = moved || (replica->parts[i].state == PS_PART_STALE &&
                          replica->parts[i].status == PS_ERR_NOT_OWNER);
    if (moved && client->follower != NULL)
        ps_follower_look_again(client->follower);
}

/* Asks for all that is stale, once. `more` says whether anything was asked for: a round without
 * messages is the last one. */
static enum ps_status pull_round(struct psclient_replica *handle, uint64_t deadline_ms, bool *more,
                                 struct ps_error *error)
{
    struct psclient *client = handle->client;
    struct ps_since_message *messages;
    size_t count;
    PS_TRY(ps_replica_ask(handle->replica, &messages, &count, error));
    *more = count > 0;
    enum ps_status status = PS_OK;
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    if (items == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    else if (count > 0)
        status = run_messages(client, messages, items, count, deadline_ms, error);
    ps_release(client->memory, items);
    /* After the batch has ended: until then the engine borrows the messages. */
    ps_replica_release(handle->replica, messages, count);
    look_again(client, handle->replica);
    return status;
}

/* ---- What became of it ---- */

/* Of a parameter that is cut the lowest version counts, as in a pull: each range has had at least
 * that many pushes. The first range that failed says why. */
static void add_result(const struct ps_replica_part *part, struct psclient_parameter *parameter,
                       struct psclient_result *result)
{
    uint64_t version = part->version > 0 ? part->version - 1 : 0;
    if (version < parameter->version)
        parameter->version = version;
    result->version = parameter->version;
    if (part->state == PS_PART_FRESH || result->status != PSCLIENT_OK)
        return;
    /* A part that is still stale at the end was refused until the deadline; its last reason is
     * kept. */
    result->status =
        part->status != PS_OK ? ps_client_status_of(part->status) : PSCLIENT_UNAVAILABLE;
    _Static_assert(sizeof result->text == sizeof part->text, "a text fits");
    memcpy(result->text, part->text, sizeof result->text);
}

/* Parts lie in the order of their parameters, so that one walk over both is enough. The first
 * failure in that order counts. */
static int tell_results(struct psclient_replica *handle, uint64_t deadline_ms,
                        struct psclient_result *results, struct psclient_error *error)
{
    if (handle->table != NULL)
        return ps_replica_rows_tell(handle, deadline_ms, results, error);
    const struct psclient *client = handle->client;
    const struct ps_replica *replica = handle->replica;
    const struct ps_replica_part *failed = NULL;
    size_t part = 0;
    for (size_t i = 0; i < handle->count; i++) {
        struct psclient_result result = {.status = PSCLIENT_OK};
        /* Above every version, for add_result to find the lowest. A parameter has one part at
         * least. */
        struct psclient_parameter *parameter = parameter_at(client, handle->parameters, i);
        parameter->version = UINT64_MAX;
        for (; part < replica->part_count && replica->parts[part].parameter == i; part++) {
            add_result(&replica->parts[part], parameter, &result);
            /* Parts of the other parameters go on being counted: the results are of all. */
            if (failed == NULL && replica->parts[part].state != PS_PART_FRESH)
                failed = &replica->parts[part];
        }
        if (results != NULL)
            ps_caller_copy(ps_caller_at(results, client->sizes.result, i), client->sizes.result,
                           &result, sizeof result);
    }
    if (failed == NULL)
        return ps_client_succeed(error);
    char text[256];
    snprintf(text, sizeof text, "parameter %.100s: %s",
             parameter_at(client, handle->parameters, failed->parameter)->name, failed->text);
    return ps_client_fail(error, failed->status != PS_OK ? failed->status : PS_ERR_UNAVAILABLE,
                          text);
}

/* Reads every byte that is held; nothing is repaired here, since that needs a server. */
PS_EXPORT int psclient_replica_verify(struct psclient_replica *handle, struct psclient_error *error)
{
    if (ps_replica_verify(handle->replica))
        return ps_client_succeed(error);
    return ps_client_fail(error, PS_ERR_CORRUPT,
                          "a parameter is not what it was: the next pull brings it whole");
}

/* Without a lock: a replica is used by one thread at a time. */
PS_EXPORT void psclient_replica_get_counters(const struct psclient_replica *handle,
                                             struct psclient_replica_counters *counters)
{
    const struct ps_replica_counters *inside = &handle->replica->counters;
    const struct psclient_replica_counters now = {.received_bytes = inside->received,
                                                  .saved_bytes = inside->saved,
                                                  .copies = inside->copies,
                                                  .anchors = inside->anchors,
                                                  .mismatches = inside->mismatches};
    ps_caller_copy(counters, handle->client->sizes.replica_counters, &now, sizeof now);
}
