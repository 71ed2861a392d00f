/* SPDX-License-Identifier: Apache-2.0 */
/* Record by record from the journal into the sink. This file looks at order and ownership (no gap,
 * no record of a former owner behind a checkpoint of a later one); whether a record fits the state
 * is the business of whoever applies it (recovery_apply.c). */
#include "server/core/recovery/recovery_replay.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>

/* Another one: what was read counts as durable, and the next journal does not repeat it. */
#ifdef PS_MUTATE_SKIP_READ_RECORDS
static const bool read_is_durable = true;
#else
static const bool read_is_durable = false;
#endif

static enum ps_status open_reader(const struct ps_recovery *recovery,
                                  const struct ps_recovered *recovered,
                                  struct ps_journal_reader **reader, struct ps_error *error);
static enum ps_status put_all(const struct ps_replay_sink *sink,
                              const struct ps_journal_segments *segments,
                              struct ps_journal_reader *reader, struct ps_recovered *recovered,
                              struct ps_error *error);
static uint64_t durable_in(const struct ps_journal_reader *reader,
                           const struct ps_recovered *recovered);
static enum ps_status end_at_former(const struct ps_journal_segments *segments,
                                    const struct ps_recovered *recovered, struct ps_error *error);
static enum ps_status apply_here(void *self, struct ps_journal_row *row, struct ps_error *error);
static enum ps_status finish_here(void *self, struct ps_error *error);

/* The one comparison of epochs in recovery; a test build without it must fail the tests of the
 * promises (see PS_MUTATE). */
bool ps_recovery_is_former(uint64_t epoch, uint64_t other)
{
#ifdef PS_MUTATE_SKIP_EPOCH_COMPARE
    return (void)epoch, (void)other, false;
#else
    return epoch < other;
#endif
}

/* A segment begins at the first position that its owner wrote. A checkpoint of an older epoch
 * beyond that has pushes which the later owner never saw. */
bool ps_recovery_is_superseded(const struct ps_journal_segments *segments, uint64_t epoch,
                               uint64_t position)
{
    PS_ASSERT(segments != NULL);
    for (size_t i = 0; i < segments->count; i++) {
        const struct ps_journal_segment *segment = &segments->entries[i];
        if (ps_recovery_is_former(epoch, segment->epoch) && segment->first <= position)
            return true;
    }
    return false;
}

bool ps_recovery_has_journal(const struct ps_journal_segments *segments, uint64_t epoch)
{
    PS_ASSERT(segments != NULL);
    for (size_t i = 0; i < segments->count; i++)
        if (segments->entries[i].epoch == epoch)
            return true;
    return false;
}

/* The sink is finished whatever happened, so that no record is being applied any more when the
 * caller takes the state away. A failure of the sink counts before one of reading: the reader may
 * only have stopped because the sink refused. */
enum ps_status ps_recovery_replay(const struct ps_recovery *recovery,
                                  const struct ps_journal_segments *segments,
                                  struct ps_recovered *recovered, struct ps_error *error)
{
    /* Tools and tests give no sink. */
    const struct ps_replay_sink here = {apply_here, finish_here, recovery->service};
    const struct ps_replay_sink *sink = recovery->sink != NULL ? recovery->sink : &here;
    const struct ps_clock *clock = recovery->service->clock;
    uint64_t start_ms = ps_now_ms(clock);
    struct ps_journal_reader *reader = NULL;
    struct ps_error unfinished = {0};
    recovered->position = recovered->place.position;
    recovered->epoch = recovered->place.epoch;
    recovered->replayed_count = 0;
    recovered->cut_bytes = 0;

    /* Filled in before anything can fail: the caller asks how far it came also after a failure. */
    PS_ASSERT(sink->put != NULL && sink->finish != NULL);
    PS_TRY(open_reader(recovery, recovered, &reader, error));
    ps_journal_reader_expect(reader, &recovery->noted, recovered->place.epoch);
    enum ps_status status = put_all(sink, segments, reader, recovered, error);
    enum ps_status finished = sink->finish(sink->self, &unfinished);
    recovered->durable = durable_in(reader, recovered);
    recovered->given_up_count = ps_journal_reader_given_up(reader);
    ps_journal_reader_close(reader);
    PS_ASSERT(recovered->durable <= recovered->position);
    recovered->replay_ms = ps_now_ms(clock) - start_ms;
    /* A lack of memory or a file that cannot be read stays what it is: those may be tried again. */
    if (finished != PS_OK && (status == PS_OK || status == PS_ERR_CORRUPT))
        status = ps_fail(error, finished, "%s", unfinished.text);
    return status;
}

/* A folder that is gone between listing and opening is an error of the disk and not an empty
 * journal. */
static enum ps_status open_reader(const struct ps_recovery *recovery,
                                  const struct ps_recovered *recovered,
                                  struct ps_journal_reader **reader, struct ps_error *error)
{
    PS_ASSERT(recovery->files != NULL && recovery->folder != NULL);
    enum ps_status status = ps_journal_reader_open_of(
        recovery->files, recovery->folder, recovered->position, recovery->service->epoch,
        &recovered->history, recovery->memory, reader, error);
    /* The folder was there a moment ago. */
    return status == PS_ERR_NOT_FOUND ? PS_ERR_IO : status;
}

/* The row belongs to the sink once put has taken it, so position and epoch are read before. A gap
 * is damage also when the reader did not see one: between the segments of two owners nobody but
 * this comparison looks. */
static enum ps_status put_all(const struct ps_replay_sink *sink,
                              const struct ps_journal_segments *segments,
                              struct ps_journal_reader *reader, struct ps_recovered *recovered,
                              struct ps_error *error)
{
    PS_ASSERT(recovered->position == recovered->place.position);
    for (;;) {
        struct ps_journal_row row = {0};
        struct ps_error reason = {0};
        enum ps_status status = ps_journal_next(reader, &row, &recovered->cut_bytes, NULL, &reason);
        if (status == PS_ERR_NOT_FOUND)
            return PS_OK;
        if (status != PS_OK)
            return ps_fail(error, status, "%s", reason.text);
        /* Both are read now: `put` may take the row away. */
        uint64_t position = row.record.position;
        uint64_t epoch = row.record.epoch;
        /* A checkpoint of a later epoch has begun behind what that owner had: the rest of its
         * journal was written by a server that had lost the shard, and nobody was told that it is
         * durable. */
        if (ps_recovery_is_former(epoch, recovered->place.epoch)) {
            ps_journal_row_release(&row);
            return end_at_former(segments, recovered, error);
        }
        if (position != recovered->position + 1)
            status = ps_fail(error, PS_ERR_CORRUPT,
                             "journal: position %" PRIu64 " where %" PRIu64 " should be", position,
                             recovered->position + 1);
        else
            status = sink->put(sink->self, &row, error);
        if (status != PS_OK) {
            ps_journal_row_release(&row);
            return status;
        }
        /* Only what the sink has taken counts. */
        recovered->position = position;
        recovered->epoch = epoch;
        recovered->replayed_count++;
    }
}

/* A checkpoint is made when its journal is durable. Records that were read but are not known to be
 * synced are left out, so that the next epoch's journal repeats them: they may be in the page cache
 * only, and gone after a power loss. */
static uint64_t durable_in(const struct ps_journal_reader *reader,
                           const struct ps_recovered *recovered)
{
    uint64_t durable = read_is_durable ? recovered->position : ps_journal_reader_durable(reader);
    /* The checkpoint itself is on the disk, whatever is left of the journal before it. */
    if (durable < recovered->place.position)
        return recovered->place.position;
    return durable < recovered->position ? durable : recovered->position;
}

/* The checkpoint's epoch ran without a journal, and a former owner wrote on into its own. That is
 * the end, unless an owner since then began behind what we have. No second owner's records can be
 * between: the reader gives them in the order of owners. */
static enum ps_status end_at_former(const struct ps_journal_segments *segments,
                                    const struct ps_recovered *recovered, struct ps_error *error)
{
    PS_ASSERT(recovered->position >= recovered->place.position);
    for (size_t i = 0; i < segments->count; i++) {
        const struct ps_journal_segment *segment = &segments->entries[i];
        if (segment->epoch >= recovered->place.epoch && segment->first > recovered->position + 1)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "journal: epoch %" PRIu64 " begins at position %" PRIu64
                           ", and there is nothing between that and %" PRIu64,
                           segment->epoch, segment->first, recovered->position);
    }
    return PS_OK;
}

/* Without a sink of the caller: in this thread, one after another. */
static enum ps_status apply_here(void *self, struct ps_journal_row *row, struct ps_error *error)
{
    PS_ASSERT(row->record.position > 0);
    PS_TRY(ps_recovery_apply(self, &row->record, error));
    ps_journal_row_release(row);
    return PS_OK;
}

static enum ps_status finish_here(void *self, struct ps_error *error)
{
    (void)self;
    (void)error;
    return PS_OK;
}
