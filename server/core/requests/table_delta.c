/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is held for who follows a table: the version that an answer leads to is the one that the
 * table had when the first of its answers was asked for, and each row that is newer comes again
 * with the next delta. So a table is followed while it is pushed to, without a page being copied.
 */
#include "server/core/requests/table_delta.h"

#include "base/assert.h"
#include "proto/digest.h"
#include "server/core/requests/service_state.h"
#include "server/core/requests/table_change.h"
#include "server/core/tables/row_since.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/values/delta_pull.h"

#include <inttypes.h>

/* The answer while it is made. */
struct answer {
    struct ps_parameter *parameter;
    struct ps_row_since since;
    enum ps_whole whole;
    uint64_t room; /* bytes that one more piece can use */
    struct ps_encoded_values *content;
    struct ps_row_piece piece;
};

static enum ps_status look(struct answer *answer, bool begins, struct ps_error *error);
static enum ps_status make_piece(struct answer *answer, struct ps_error *error);
static void count(struct ps_service *service, const struct answer *answer, bool begins);

/* A reader may ask for less than one message takes, and never for more. */
uint64_t ps_delta_bytes_max(const struct ps_pull_request *request)
{
    uint64_t bytes_max = request->bytes_max > 0 ? request->bytes_max : PS_DELTA_BYTES_DEFAULT;
    PS_ASSERT(bytes_max > 0);
    return bytes_max < PS_DELTA_BYTES_MAX ? bytes_max : PS_DELTA_BYTES_MAX;
}

/* Of one row in an answer, which is what a copy of it takes on the way and what leaving it out
 * saves. */
static size_t bytes_of_row(const struct ps_parameter *parameter)
{
    PS_ASSERT(parameter->rows != NULL);
    return PS_ROW_KEY_BYTES + ps_parameter_rows_row_bytes(parameter->spec);
}

/* The version is read before anything else, as every reader of rows does it: what is pushed
 * meanwhile is of a later one. */
enum ps_status ps_table_delta_make(struct ps_service *service,
                                   const struct ps_pull_request *request,
                                   struct ps_parameter *parameter,
                                   struct ps_encoded_values **content, uint64_t *version,
                                   struct ps_delta *delta, struct ps_error *error)
{
    const struct ps_held *held = &request->held;
    const char *name = (const char *)parameter->spec->name.data;
    const struct ps_chain chain = ps_service_chain_of(service, parameter->spec);
    uint64_t now = atomic_load(&parameter->row_version);
    uint64_t target = held->target > 0 ? held->target - 1 : now;
    uint64_t bytes_max = ps_delta_bytes_max(request);
    /* Of another kind of pull the checks before have not let through. */
    PS_ASSERT(held->present && request->keys.size == 0);
    /* A version of another process's memory of this shard, or of nobody's. */
    if (target > now)
        return ps_fail(error, PS_ERR_CONFLICT, "table: %s has not come to version %" PRIu64, name,
                       target);
    struct answer answer = {.parameter = parameter, .whole = ps_delta_whole(held, &chain, target)};
    answer.since =
        (struct ps_row_since){.version = answer.whole == PS_WHOLE_NOT ? held->version - 1 : 0,
                              .everything = answer.whole != PS_WHOLE_NOT,
                              .now = target,
                              .mark = held->mark,
                              .place = held->block};
    PS_TRY(look(&answer, held->target == 0, error));
    /* In a message with other parameters: asked for again, it has an answer of its own. */
    if (answer.room > 0 && bytes_max < bytes_of_row(parameter))
        return ps_fail(error, PS_ERR_BUSY, "no room in this answer for table: %s", name);
    answer.room = answer.room < bytes_max ? answer.room : bytes_max;
    PS_TRY(make_piece(&answer, error));
    count(service, &answer, held->target == 0);
    /* Written at the end: on a failure the caller has what it had. */
    *content = answer.content;
    *version = target;
    *delta = (struct ps_delta){.present = true,
                               .chain = chain,
                               .whole = answer.whole,
                               .next = answer.piece.next,
                               .digest = ps_digest_block(answer.content->piece),
                               .rows = answer.piece.rows,
                               .gone = answer.piece.gone,
                               .mark = answer.piece.mark};
    return PS_OK;
}

/* A first answer tells of everything where it cannot tell what went: without a mark, or with one
 * that is too old. One that goes on has told a part of another story, and begins again. */
static enum ps_status look(struct answer *answer, bool begins, struct ps_error *error)
{
    struct ps_row_since *since = &answer->since;
    enum ps_status status = PS_ERR_CONFLICT;
    PS_ASSERT(since->everything == (answer->whole != PS_WHOLE_NOT));
    PS_ASSERT(!begins || since->place == 0);
    /* Whatever the caller was told of another life says nothing about this one. */
    if (begins && since->everything)
        since->mark = 0;
    /* What goes on has a mark of the answer before. */
    if (since->mark != 0 || (begins && since->everything))
        status = ps_row_since_room(answer->parameter->rows, since, &answer->room, error);
    /* Without one nobody could say which of the keys that went it has been told. */
    if (!begins && since->mark == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a delta pull of a table goes on with its mark");
    /* In the middle a full copy would be put on a part of a delta. */
    if (status != PS_ERR_CONFLICT || !begins)
        return status;
    /* Everything, and from here on with a mark that is remembered. */
    answer->whole = PS_WHOLE_FORGOTTEN;
    since->everything = true;
    since->mark = 0;
    return ps_row_since_room(answer->parameter->rows, since, &answer->room, error);
}

/* The memory is had for the room, and the copy made in it, while the cut is held: a table that is
 * dropped or saved waits for one piece. The room is what there may be at most: the reply keeps it
 * until it is sent, and a table that has grown meanwhile goes on with the next answer. */
static enum ps_status make_piece(struct answer *answer, struct ps_error *error)
{
    struct ps_parameter_spec *spec = answer->parameter->spec;
    size_t room = (size_t)answer->room;
    PS_ASSERT(answer->content == NULL && room <= PS_DELTA_BYTES_MAX);
    struct ps_encoded_values *content = ps_encoded_values_blank(spec, room);
    if (content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a delta of %zu bytes", room);
    enum ps_status status = ps_row_table_since(answer->parameter->rows, &answer->since,
                                               content->content, room, &answer->piece, error);
    if (status != PS_OK) {
        ps_encoded_values_release(content);
        return status;
    }
    PS_ASSERT(answer->piece.size <= room && answer->piece.mark > 0);
    content->piece.size = answer->piece.size;
    answer->content = content;
    return PS_OK;
}

/* Only the first answer of several counts as a delta; what was left out is counted with each. */
static void count(struct ps_service *service, const struct answer *answer, bool begins)
{
    PS_ASSERT(answer->content != NULL);
    ps_counter_add(service->metrics.deltas, begins);
    ps_counter_add(service->metrics.deltas_whole, begins && answer->whole != PS_WHOLE_NOT);
    ps_counter_add(service->metrics.delta_saved_bytes,
                   answer->piece.passed * bytes_of_row(answer->parameter));
}
