/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which server is asked for which parts, and puts each answer to its parts.
 *
 * A round goes over all parts that are stale. Each message asks one shard for as many of them as
 * its answer may be expected to hold; whatever finds no room, or has only begun to come, stays
 * stale and is asked for in the next round. So the parts of a parameter that is cut over all shards
 * come at the same time, and a round costs as many messages as there is content, not as there are
 * names.
 *
 * Nothing here waits or repeats by itself. The caller's loop ends when no part is stale: each of
 * them is then fresh, or has failed with a reason of its own. */
#include "client/replica/replica.h"

#include "base/assert.h"
#include "client/replica/replica_rows.h"

#include <stdio.h>
#include <string.h>

static void take_part(struct ps_replica *replica, struct ps_replica_part *part,
                      const struct ps_pull_result *result);
static void fail_part(struct ps_replica_part *part, enum ps_status status, const char *text);

/* Room for all parts at once: messages and answers know parts by their index, and pointers to them
 * stay good. */
enum ps_status ps_replica_create(const struct ps_allocator *memory, size_t parts_max,
                                 struct ps_replica **out, struct ps_error *error)
{
    struct ps_replica *replica = ps_zeroed(memory, sizeof *replica);
    if (replica == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a replica");
    replica->memory = memory;
    replica->part_count_max = parts_max;
    replica->parts = ps_zeroed_array(memory, parts_max, sizeof *replica->parts);
    if (replica->parts == NULL) {
        ps_replica_destroy(replica);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a replica of %zu parts", parts_max);
    }
    *out = replica;
    return PS_OK;
}

/* Also of a replica whose creation failed half-way: it has no parts then. */
void ps_replica_destroy(struct ps_replica *replica)
{
    if (replica == NULL)
        return;
    for (size_t i = 0; i < replica->part_count; i++) {
        struct ps_replica_part *part = &replica->parts[i];
        ps_replica_part_release(part);
        ps_replica_rows_destroy(part->rows);
        ps_release(replica->memory, (void *)(uintptr_t)part->name.data);
    }
    ps_release(replica->memory, replica->parts);
    ps_release(replica->memory, replica);
}

/* A part that holds nothing is expected to come whole; later it is expected to bring as much as its
 * last version did. */
enum ps_status ps_replica_add(struct ps_replica *replica, const struct ps_replica_part *wish,
                              struct ps_error *error)
{
    PS_ASSERT(replica->part_count < replica->part_count_max);
    char *name = ps_copy_text(replica->memory, (const char *)wish->name.data, wish->name.size);
    if (name == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a part of a replica");
    replica->parts[replica->part_count++] = (struct ps_replica_part){
        .memory = replica->memory,
        .counters = &replica->counters,
        .name = {(const uint8_t *)name, wish->name.size},
        .shard = wish->shard,
        .parameter = wish->parameter,
        .dtype = wish->dtype,
        .content = wish->content,
        .size = wish->size,
        .rows = wish->rows,
        .expected = wish->rows != NULL ? PS_REPLICA_ANSWER_BYTES : wish->size,
        .state = PS_PART_FRESH};
    return PS_OK;
}

/* A version that had begun to come in a former call is forgotten: its memory may be needed for
 * other parts, and the server keeps a version readable for a limited time only. The version that is
 * held stays the base. */
void ps_replica_begin(struct ps_replica *replica)
{
    for (size_t i = 0; i < replica->part_count; i++) {
        struct ps_replica_part *part = &replica->parts[i];
        ps_replica_part_forget(part);
        part->state = PS_PART_STALE;
        part->status = PS_OK;
        part->mismatches = 0;
        part->text[0] = '\0';
    }
}

/* ---- What to ask ---- */

/* The next stale part of the shard, from `first` on. Parts of other shards are passed over: the
 * list is short, and kept in the order in which results are told. */
static size_t next_stale(const struct ps_replica *replica, uint32_t shard, size_t first)
{
    while (first < replica->part_count &&
           (replica->parts[first].state != PS_PART_STALE || replica->parts[first].shard != shard))
        first++;
    return first;
}

/* How many parts from `first` on go in one message. The sizes are guesses, so that a wrong one
 * costs a further round at most; the first part goes in any case, or a part larger than an answer
 * would never be asked for. */
static size_t count_together(const struct ps_replica *replica, uint32_t shard, size_t first)
{
    uint64_t bytes = 0;
    size_t count = 0;
    for (size_t i = first; i < replica->part_count; i = next_stale(replica, shard, i + 1)) {
        bytes += replica->parts[i].expected;
        if (count > 0 && (bytes > PS_REPLICA_ANSWER_BYTES || count == PS_REPLICA_ASKED_MAX))
            break;
        count++;
    }
    return count;
}

/* The pulls borrow the parts' names; the message is ended before any part can go. */
static enum ps_status make_message(struct ps_replica *replica, uint32_t shard, size_t *first,
                                   struct ps_since_message *message, struct ps_error *error)
{
    size_t count = count_together(replica, shard, *first);
    *message = (struct ps_since_message){.replica = replica, .shard = shard};
    message->pulls = ps_zeroed_array(replica->memory, count, sizeof *message->pulls);
    message->asked = ps_zeroed_array(replica->memory, count, sizeof *message->asked);
    if (message->pulls == NULL || message->asked == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to ask for %zu parts", count);
    for (size_t k = 0; k < count; k++) {
        const struct ps_replica_part *part = &replica->parts[*first];
        message->asked[k] = (uint32_t)*first;
        message->pulls[k] =
            (struct ps_pull_request){.name = part->name, .held = ps_replica_part_held(part)};
        *first = next_stale(replica, shard, *first + 1);
    }
    message->request = (struct ps_since_request){
        .pulls = message->pulls, .pull_count = count, .bytes_max = PS_REPLICA_ANSWER_BYTES};
    return PS_OK;
}

static uint32_t shards_end(const struct ps_replica *replica)
{
    uint32_t end = 0;
    for (size_t i = 0; i < replica->part_count; i++)
        end = replica->parts[i].shard >= end ? replica->parts[i].shard + 1 : end;
    return end;
}

/* An upper bound for the messages: each asks for one part at least. */
static size_t count_stale(const struct ps_replica *replica)
{
    size_t count = 0;
    for (size_t i = 0; i < replica->part_count; i++)
        count += replica->parts[i].state == PS_PART_STALE ? 1 : 0;
    return count;
}

/* Shard by shard, because a message goes to one server. `advanced` begins at false: a round in
 * which no part got anything is followed by a pause, so that servers that are away are not asked in
 * a tight loop. */
enum ps_status ps_replica_ask(struct ps_replica *replica, struct ps_since_message **out,
                              size_t *out_count, struct ps_error *error)
{
    size_t stale = count_stale(replica);
    struct ps_since_message *messages =
        ps_zeroed_array(replica->memory, stale, sizeof *messages); /* at most one for each */
    size_t count = 0;
    enum ps_status status = PS_OK;
    if (messages == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to ask for %zu parts", stale);
    replica->advanced = false;
    for (uint32_t shard = 0; shard < shards_end(replica) && status == PS_OK; shard++) {
        size_t first = next_stale(replica, shard, 0);
        while (first < replica->part_count && status == PS_OK)
            /* Counted even when it fails, so that what it did allocate is released with the
             * others. */
            status = make_message(replica, shard, &first, &messages[count++], error);
    }
    if (status != PS_OK) {
        ps_replica_release(replica, messages, count);
        return status;
    }
    *out = messages;
    *out_count = count;
    return PS_OK;
}

void ps_replica_release(struct ps_replica *replica, struct ps_since_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ps_release(replica->memory, messages[i].pulls);
        ps_release(replica->memory, messages[i].asked);
    }
    ps_release(replica->memory, messages);
}

/* ---- What came ---- */

/* Called by the engine on whichever thread waits for the batch. An answer that is refused here
 * fails the item, and with it the message. */
static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    return ps_replica_take(self, &reply->since, error);
}

struct ps_item ps_replica_item(struct ps_since_message *message)
{
    return (struct ps_item){
        .shard = message->shard, .since = &message->request, .answer = {take_answer, message}};
}

/* An answer belongs to its parts by place. An answer of another length could be of any of them:
 * nothing of it is taken. */
enum ps_status ps_replica_take(const struct ps_since_message *message,
                               const struct ps_bundle_reply *reply, struct ps_error *error)
{
    struct ps_replica *replica = message->replica;
    if (reply->pull_count != message->request.pull_count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "an answer of %zu parts to %zu", reply->pull_count,
                       message->request.pull_count);
    for (size_t i = 0; i < reply->pull_count; i++)
        take_part(replica, &replica->parts[message->asked[i]], &reply->pulls[i]);
    return PS_OK;
}

/* A failure of one part does not fail the message. The remedy of the item's status decides: some
 * parts are asked again in the next round, others have failed for good. */
static void take_part(struct ps_replica *replica, struct ps_replica_part *part,
                      const struct ps_pull_result *result)
{
    struct ps_error error = {.status = PS_OK};
    PS_ASSERT(part->state == PS_PART_STALE);
    if (result->status.status == PS_OK) {
        enum ps_status status = ps_replica_part_take(part, &result->reply, &error);
        replica->advanced = true;
        if (status != PS_OK)
            fail_part(part, status, error.text);
        return;
    }
    size_t size = result->status.text.size < sizeof error.text - 1 ? result->status.text.size
                                                                   : sizeof error.text - 1;
    if (size > 0)
        memcpy(error.text, result->status.text.data, size);
    part->status = result->status.status;
    snprintf(part->text, sizeof part->text, "%.120s", error.text);
    switch (part->status) {
    case PS_ERR_BUSY: /* no room in this answer */
        return;
    case PS_ERR_CONFLICT: /* what was coming is gone */
        ps_replica_part_forget(part);
        return;
    default:
        /* A server that does not own the shard at the moment, and so on: asked again. */
        if (ps_status_remedy(part->status) != PS_REMEDY_RETRY &&
            ps_status_remedy(part->status) != PS_REMEDY_REROUTE)
            fail_part(part, part->status, error.text);
    }
}

/* The part still holds one whole version, or nothing as before; only this round has failed for
 * it. */
static void fail_part(struct ps_replica_part *part, enum ps_status status, const char *text)
{
    part->state = PS_PART_FAILED;
    part->status = status;
    snprintf(part->text, sizeof part->text, "%.120s",
             text[0] != '\0' ? text : ps_status_sentence(status));
}

/* Only parts that are still stale: a message whose answer was refused may have brought some of them
 * up to date before. */
void ps_replica_fail(const struct ps_since_message *message, enum ps_status status,
                     const char *text)
{
    for (size_t i = 0; i < message->request.pull_count; i++) {
        struct ps_replica_part *part = &message->replica->parts[message->asked[i]];
        if (part->state == PS_PART_STALE)
            fail_part(part, status, text);
    }
}

/* All parts are read, also after the first that is wrong: each of the wrong ones comes whole with
 * the next pull. */
bool ps_replica_verify(struct ps_replica *replica)
{
    bool all = true;
    for (size_t i = 0; i < replica->part_count; i++)
        all = ps_replica_part_verify(&replica->parts[i]) && all;
    return all;
}

void ps_replica_check(const struct ps_replica *replica)
{
    PS_ASSERT(replica->part_count <= replica->part_count_max);
    for (size_t i = 0; i < replica->part_count; i++)
        ps_replica_part_check(&replica->parts[i]);
}
