/* Record by record from the journal into the sink. */
#include "server/core/recovery/recovery_replay.h"

#include "server/core/recovery/recovery_apply.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>

static enum ps_status open_reader(const struct ps_recovery *recovery, uint64_t position,
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

bool ps_recovery_is_superseded(const struct ps_journal_segments *segments, uint64_t epoch,
                               uint64_t position)
{
    for (size_t i = 0; i < segments->count; i++) {
        const struct ps_journal_segment *segment = &segments->entries[i];
        if (ps_recovery_is_former(epoch, segment->epoch) && segment->first <= position)
            return true;
    }
    return false;
}

bool ps_recovery_has_journal(const struct ps_journal_segments *segments, uint64_t epoch)
{
    for (size_t i = 0; i < segments->count; i++)
        if (segments->entries[i].epoch == epoch)
            return true;
    return false;
}

enum ps_status ps_recovery_replay(const struct ps_recovery *recovery,
                                  const struct ps_journal_segments *segments,
                                  struct ps_recovered *recovered, struct ps_error *error)
{
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

    PS_TRY(open_reader(recovery, recovered->position, &reader, error));
    ps_journal_reader_expect(reader, &recovery->noted, recovered->place.epoch);
    enum ps_status status = put_all(sink, segments, reader, recovered, error);
    enum ps_status finished = sink->finish(sink->self, &unfinished);
    recovered->durable = durable_in(reader, recovered);
    recovered->given_up_count = ps_journal_reader_given_up(reader);
    ps_journal_reader_close(reader);
    recovered->replay_ms = ps_now_ms(clock) - start_ms;
    if (finished != PS_OK && (status == PS_OK || status == PS_ERR_CORRUPT))
        status = ps_fail(error, finished, "%s", unfinished.text);
    return status;
}

static enum ps_status open_reader(const struct ps_recovery *recovery, uint64_t position,
                                  struct ps_journal_reader **reader, struct ps_error *error)
{
    enum ps_status status =
        ps_journal_reader_open(recovery->files, recovery->folder, position,
                               recovery->service->epoch, recovery->memory, reader, error);
    /* The folder was there a moment ago. */
    return status == PS_ERR_NOT_FOUND ? PS_ERR_IO : status;
}

static enum ps_status put_all(const struct ps_replay_sink *sink,
                              const struct ps_journal_segments *segments,
                              struct ps_journal_reader *reader, struct ps_recovered *recovered,
                              struct ps_error *error)
{
    for (;;) {
        struct ps_journal_row row = {0};
        struct ps_error reason = {0};
        enum ps_status status = ps_journal_next(reader, &row, &recovered->cut_bytes, NULL, &reason);
        if (status == PS_ERR_NOT_FOUND)
            return PS_OK;
        if (status != PS_OK)
            return ps_fail(error, status, "%s", reason.text);
        uint64_t position = row.record.position;
        uint64_t epoch = row.record.epoch;
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
        recovered->position = position;
        recovered->epoch = epoch;
        recovered->replayed_count++;
    }
}

/* A checkpoint is made when its journal is durable. */
static uint64_t durable_in(const struct ps_journal_reader *reader,
                           const struct ps_recovered *recovered)
{
    uint64_t durable = ps_journal_reader_durable(reader);
    if (durable < recovered->place.position)
        return recovered->place.position;
    return durable < recovered->position ? durable : recovered->position;
}

/* The checkpoint's epoch ran without a journal, and a former owner wrote on into its own. That is
 * the end, unless an owner since then began behind what we have. */
static enum ps_status end_at_former(const struct ps_journal_segments *segments,
                                    const struct ps_recovered *recovered, struct ps_error *error)
{
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

static enum ps_status apply_here(void *self, struct ps_journal_row *row, struct ps_error *error)
{
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
