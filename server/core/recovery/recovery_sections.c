/* SPDX-License-Identifier: Apache-2.0 */
/* Record by record, each verified before it is applied. A shard whose open rounds could not be read
 * is not opened: contributions that were acknowledged would be missing from their rounds, and the
 * workers would wait for a version that never comes. */
#include "server/core/recovery/recovery_sections.h"

#include "base/assert.h"
#include "checkpoint/journal.h"
#include "server/core/recovery/recovery_candidates.h"
#include "server/core/recovery/recovery_clock.h"
#include "server/core/recovery/recovery_round.h"
#include "server/core/requests/service_state.h"

static enum ps_status fill_section(struct ps_service *service, struct ps_parameter_table *table,
                                   struct ps_checkpoint_reader *reader,
                                   enum ps_checkpoint_section section, struct ps_error *error);
static enum ps_status apply(struct ps_service *service, struct ps_parameter_table *table,
                            const struct ps_record *record, struct ps_error *error);

/* Rounds first, as the file has them; neither knows of the other. A file of before there were any
 * has none, and the shard begins without open rounds, as it was then. */
enum ps_status ps_recovery_fill_sections(struct ps_service *service,
                                         struct ps_parameter_table *table,
                                         struct ps_checkpoint_reader *reader,
                                         struct ps_error *error)
{
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    /* A file that could not be read to its end may have been filled in before. */
    ps_gauge_set(service->metrics.round_held_bytes, 0);
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        PS_TRY(fill_section(service, table, reader, i, error));
    return PS_OK;
}

/* One record at a time in memory: a contribution may be as large as its parameter. */
static enum ps_status fill_section(struct ps_service *service, struct ps_parameter_table *table,
                                   struct ps_checkpoint_reader *reader,
                                   enum ps_checkpoint_section section, struct ps_error *error)
{
    /* Behind the last record the sum of the whole section is compared, which may still refuse the
     * file. */
    struct ps_checkpoint_walk walk = {0};
    for (;;) {
        struct ps_journal_row row = {0};
        bool more = false;
        PS_TRY(ps_checkpoint_next_record(reader, section, &walk, &row, &more, error));
        if (!more)
            return PS_OK;
        enum ps_status status = apply(service, table, &row.record, error);
        ps_journal_row_release(&row);
        if (status != PS_OK)
            return status;
    }
}

/* Whatever refuses a record that was once state: the file is not what was written. */
static enum ps_status apply_clock(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *error)
{
    struct ps_error reason = {0};
    enum ps_status status = ps_recovery_clock_state(service, record, &reason);
    PS_ASSERT(status != PS_ERR_NOT_READY);
    if (status == PS_OK || status == PS_ERR_NO_MEMORY)
        return status;
    return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: ps.clocks: %.200s", reason.text);
}

/* A switch without a default, as in recovery_change.c. */
static enum ps_status apply(struct ps_service *service, struct ps_parameter_table *table,
                            const struct ps_record *record, struct ps_error *error)
{
    struct ps_error reason = {0};
    enum ps_status status;
    PS_ASSERT(table != NULL && service->table.count == 0);
    PS_ASSERT(service->index < service->shard_count && record->content.piece_count <= 1);
    switch (record->type) {
    case PS_RECORD_HELD:
    case PS_RECORD_ROUND:
        status = ps_recovery_round_saved(service, table, record, &reason);
        if (status == PS_OK)
            return PS_OK;
        /* Whatever refuses what was once taken: file and records do not belong together. Only
         * memory may be there another time, and the file is not called damaged for that. */
        return ps_fail(error, status == PS_ERR_NO_MEMORY ? status : PS_ERR_CORRUPT,
                       "checkpoint: an open round does not fit its parameter: %.180s", reason.text);
    case PS_RECORD_CLOCKS:
    case PS_RECORD_CLOCK:
        return apply_clock(service, record, error);
    case PS_RECORD_CANDIDATES:
        return ps_recovery_candidates(table, record, error);
    /* The reader gives none of these out of a section. */
    case PS_RECORD_SEGMENT:
    case PS_RECORD_PUSH:
    case PS_RECORD_DEFINE:
    case PS_RECORD_DROP:
    case PS_RECORD_CONFIGURE:
    case PS_RECORD_SWEEP:
    case PS_RECORD_EXPIRE:
        break;
    }
    return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: a record of type %d in a section",
                   (int)record->type);
}
