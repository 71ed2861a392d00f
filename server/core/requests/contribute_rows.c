/* SPDX-License-Identifier: Apache-2.0 */
/* Limits are asked twice: first as if every key were new and no two workers had the same, which
 * costs an addition; and where that says no, by joining what is held with what has come, and asking
 * the table whether it would take that. Tables below their limits never come to the second
 * question. Between a yes and the end of the round only rows that expire change the table, and each
 * of them makes room for the row that it may have to become again. */
#include "server/core/requests/contribute_rows.h"

#include "base/assert.h"
#include "server/core/rounds/contributions.h"
#include "server/core/tables/row_join.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/update/update.h"

#include <inttypes.h>

static enum ps_status check_gradients(const struct ps_parameter_spec *spec,
                                      const struct ps_row_push *push, struct ps_error *error);
static enum ps_status check_limit(struct ps_parameter *parameter, const struct ps_held_rows *rows,
                                  struct ps_error *error);
static enum ps_status count_made(struct ps_parameter *parameter, struct ps_held_rows *rows,
                                 struct ps_error *error);
static enum ps_status join(const struct ps_parameter *parameter, const struct ps_held_rows *more,
                           struct ps_row_push **push, struct ps_error *error);

/* Read as a push is, and kept as what it says: so gradients of one key are summed once, by whoever
 * came with them, and the round has one of each worker. Without a lock: whatever is wrong with the
 * bytes costs other workers nothing. */
enum ps_status ps_contribute_rows_read(const struct ps_parameter *parameter, struct ps_view content,
                                       struct ps_held_rows **rows, struct ps_error *error)
{
    struct ps_row_push *push = NULL;
    struct ps_held_rows *held = NULL;
    PS_ASSERT(parameter->rows != NULL && parameter->rounds != NULL);
    PS_TRY(ps_row_push_read(parameter->rows, content, &push, error));
    enum ps_status status = check_gradients(parameter->spec, push, error);
    if (status == PS_OK) {
        held = ps_held_rows_create(parameter->spec, ps_row_push_rows(push));
        if (held == NULL)
            status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a contribution to a round");
    }
    if (held != NULL) {
        ps_row_push_keep(push, held->bytes);
        *rows = held;
    }
    ps_row_push_release(push);
    return status;
}

/* The step that is prepared is thrown away: which one it will be is known when the round ends, and
 * nothing that may refuse a gradient depends on it. */
static enum ps_status check_gradients(const struct ps_parameter_spec *spec,
                                      const struct ps_row_push *push, struct ps_error *error)
{
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    PS_ASSERT(ps_parameter_spec_is_table(spec));
    ps_row_push_scan(push, &spec->settings, &scan);
    enum ps_status status =
        ps_optimizer_prepare(&spec->settings, spec->dtype, 1, spec->id, &scan, &step, error);
    return status != PS_OK && scan.nonfinite ? ps_row_push_fail_nonfinite(push, &scan, error)
                                             : status;
}

/* Under the parameter's lock, as a push asks: a sweep may be at work on the rows. It is not held
 * until the contribution has its place in the journal; only contributions make rows of this table,
 * and the lock of those is held for as long. */
enum ps_status ps_contribute_rows_admit(struct ps_parameter *parameter, struct ps_held_rows *rows,
                                        struct ps_error *error)
{
    const struct ps_contributions *rounds = parameter->rounds;
    struct ps_error reason = {0};
    uint64_t keys = rows->rows;
    PS_ASSERT(parameter->rows != NULL && rows->spec->count == parameter->spec->count);
    /* A worker without rows adds nothing to what was taken, however little room that leaves. */
    if (rows->rows == 0)
        return PS_OK;
    /* As if no two workers had the same key. */
    for (uint32_t i = 0; i < rounds->round.workers; i++)
        keys += rounds->held[i].rows != NULL ? rounds->held[i].rows->rows : 0;
    ps_let_by_lock(&parameter->pushes, &parameter->lock);
    enum ps_status status = PS_OK;
    if (!ps_row_table_has_room(parameter->rows, keys))
        status = check_limit(parameter, rows, &reason);
    /* Behind the limit of rows, which is the one that somebody has set for this table. */
    if (status == PS_OK)
        status = count_made(parameter, rows, &reason);
    ps_mutex_unlock(&parameter->lock);
    if (status == PS_OK)
        return PS_OK;
    return ps_fail(error, status, "table: %.64s, %.160s", (const char *)parameter->spec->name.data,
                   reason.text);
}

/* What the table has got ready for a push that is not made is room, and says nothing of any key. */
static enum ps_status check_limit(struct ps_parameter *parameter, const struct ps_held_rows *rows,
                                  struct ps_error *error)
{
    struct ps_row_push *push = NULL;
    PS_ASSERT(rows->rows > 0);
    /* The values of this push are of no use: whose gradient comes first makes no difference to
     * which rows there will be. */
    PS_TRY(join(parameter, rows, &push, error));
    enum ps_status status =
        ps_row_push_prepare(push, ps_row_room_left(parameter->spec->row_room), error);
    ps_row_push_release(push);
    ps_parameter_rows_count(parameter);
    return status;
}

/* The bytes of the contribution itself count already. A look and then a count: of contributions to
 * several tables at once each is told all that is left, as pushes are (values/row_room.h). */
static enum ps_status count_made(struct ps_parameter *parameter, struct ps_held_rows *rows,
                                 struct ps_error *error)
{
    uint64_t left = ps_row_room_left(parameter->spec->row_room);
    uint64_t made = ps_row_table_bytes_of(parameter->rows, rows->rows);
    const struct ps_row_part part = {rows->content, 1};
    struct ps_row_push *push = NULL;
    PS_ASSERT(atomic_load(&rows->references) == 1);
    if (left == UINT64_MAX)
        return PS_OK;
    /* Keys that have a row take nothing more. Looked up only where it matters: until the round has
     * ended too much is counted otherwise, and nothing is refused for it. */
    if (made > left) {
        PS_TRY(ps_row_push_join(parameter->rows, &part, 1, false, false, &push, error));
        made = ps_row_table_bytes_of(parameter->rows, ps_row_push_lacking(push));
        ps_row_push_release(push);
    }
    if (left == 0 || made > left)
        return ps_fail(error, PS_ERR_NO_MEMORY,
                       "no memory to hold %" PRIu64 " rows for a round (--memory-bytes)",
                       rows->rows);
    ps_held_rows_count(rows, made);
    return PS_OK;
}

/* Not of the round: only asked whether it may be one. NULL: the round as it is, which is not
 * refused any more. */
static enum ps_status join(const struct ps_parameter *parameter, const struct ps_held_rows *more,
                           struct ps_row_push **push, struct ps_error *error)
{
    const struct ps_contributions *rounds = parameter->rounds;
    const struct ps_allocator *memory = parameter->spec->memory;
    enum ps_combine combine = parameter->spec->settings.rounds.combine;
    uint32_t count = 0;
    PS_ASSERT(rounds->round.workers > 0);
    /* Of all workers, and of the one that has come. */
    struct ps_row_part *parts =
        ps_plain(memory, (rounds->round.workers + (size_t)1) * sizeof *parts);
    if (parts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to join contributions");
    /* The order of ranks, which is the promise: sums of floats depend on it. */
    for (uint32_t rank = 0; rank < rounds->round.workers; rank++) {
        const struct ps_contribution *one = &rounds->held[rank];
        if (one->rows != NULL)
            parts[count++] = (struct ps_row_part){
                one->rows->content, combine == PS_COMBINE_WEIGHTED ? (double)one->weight : 1};
    }
    if (more != NULL)
        parts[count++] = (struct ps_row_part){more->content, 1};
    enum ps_status status = ps_row_push_join(parameter->rows, parts, count,
                                             combine != PS_COMBINE_SUM, more == NULL, push, error);
    ps_release(memory, parts);
    return status;
}

/* The parts stay as they are until the round has its place in the journal. Joined before the
 * parameter's lock, so that whoever wants that waits for the push alone. */
enum ps_status ps_contribute_rows_push(struct ps_parameter *parameter,
                                       struct ps_journal_place *place, uint64_t *version,
                                       struct ps_error *error)
{
    struct ps_row_push *push = NULL;
    PS_ASSERT(parameter->rounds->round.counted_count > 0);
    PS_ASSERT(place == NULL || place->position == 0);
    PS_TRY(join(parameter, NULL, &push, error));
    return ps_parameter_push_joined(parameter, push, place, version, error);
}
