/* SPDX-License-Identifier: Apache-2.0 */
/* A push to a table costs what it names, and not what the table has: so it has no arrays, no blocks
 * and no flags. What may fail is asked in the same order as of other updates. */
#include "server/core/update/update_rows.h"

#include "base/assert.h"
#include "server/core/tables/row_push.h"
#include "server/core/update/parameter_rows.h"

/* Before the lock, where most of the work is: keys are hashed and sorted, and gradients of one key
 * made one, while another push is at work on the rows. */
enum ps_status ps_update_rows_look(struct ps_update *update, struct ps_error *error)
{
    struct ps_parameter *parameter = update->parameter;
    PS_ASSERT(parameter->rows != NULL && update->rows == NULL);
    /* Whoever let the push in has looked at its encoding (push_check.c). */
    PS_ASSERT(update->gradient.encoding == PS_ENCODING_ROWS);
    PS_TRY(ps_row_push_read(parameter->rows, update->gradient.content, &update->rows, error));
    ps_row_push_scan(update->rows, &parameter->spec->settings, &update->scan);
    return PS_OK;
}

/* The sums are looked at, and not what they are made of: each of that was, when it came. */
void ps_update_rows_take(struct ps_update *update, struct ps_row_push *rows)
{
    PS_ASSERT(update->rows == NULL && update->mode == PS_UPDATE_WHOLE);
    PS_ASSERT(update->parameter->rows != NULL);
    update->gradient = (struct ps_gradient){.encoding = PS_ENCODING_ROWS, .is_combined = true};
    update->rows = rows;
    ps_row_push_scan(update->rows, &update->parameter->spec->settings, &update->scan);
}

/* A record that was taken once is taken again, though rows may lie otherwise now and need more than
 * they did: a shard that comes back a little above its limit is better than one that does not. */
enum ps_status ps_update_rows_prepare(struct ps_update *update, bool is_replay,
                                      struct ps_error *error)
{
    const struct ps_parameter_spec *spec = update->parameter->spec;
    /* What a round needs was counted with its contributions (requests/contribute_rows.c). */
    bool was_taken = is_replay || update->gradient.is_combined;
    uint64_t left = was_taken ? UINT64_MAX : ps_row_room_left(spec->row_room);
    struct ps_error reason = {0};
    PS_ASSERT(update->rows != NULL && !update->is_committed);
    enum ps_status status = ps_row_push_prepare(update->rows, left, &reason);
    if (status == PS_OK)
        return PS_OK;
    /* Also a limit is named with the table that has it: a batch may have rows of many. */
    return ps_fail(error, status, "table: %.64s, %.160s", (const char *)spec->name.data,
                   reason.text);
}

/* Where a device has the rows, their step is queued and not done when this returns: who
 * acknowledges asks ps_parameter_due. Readers look at the version without the lock: the caller
 * tells it behind the last row. Rows that go for others are counted here, where they are gone. */
enum ps_status ps_update_rows_apply(struct ps_update *update, uint64_t version,
                                    struct ps_error *error)
{
    struct ps_row_room *room = update->parameter->spec->row_room;
    PS_ASSERT(update->is_committed && version == update->parameter->version);
    if (room != NULL)
        atomic_fetch_add(&room->evicted, ps_row_push_evicted(update->rows));
    ps_row_push_apply(update->rows, &update->arrays.step, version);
    return ps_row_push_applied(update->rows, error);
}

/* Here and not at each step, so that rows that a failed push has prepared are counted as they are
 * left. */
void ps_update_rows_end(struct ps_update *update)
{
    if (update->rows == NULL)
        return;
    PS_ASSERT(update->parameter->rows != NULL);
    ps_row_push_release(update->rows);
    update->rows = NULL;
    ps_parameter_rows_count(update->parameter);
}
