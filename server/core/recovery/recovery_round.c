/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds come back as they were: a contribution that its worker was told is held is held, once, and
 * a version that was told is there. A contribution whose record did not get to the disk was not
 * acknowledged, and comes again; a round whose end did not get there ends once more, of the same
 * contributions.
 *
 * Nothing is decided here: who counted and who is evicted stands in the records, since the clock by
 * which that was decided is gone. The same contributions in the same order of ranks make the same
 * bits. */
#include "server/core/recovery/recovery_round.h"

#include "base/assert.h"
#include "checkpoint/journal_held.h"
#include "server/core/recovery/recovery_change.h"
#include "server/core/requests/contribute.h"
#include "server/core/update/gradient_check.h"

#include <inttypes.h>
#include <string.h>

/* Test builds without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_REPLAY_EVICTIONS
static const bool evictions_are_left_out = true;
#else
static const bool evictions_are_left_out = false;
#endif
#ifdef PS_MUTATE_SKIP_HELD_ROWS
static const bool held_rows_are_left_out = true;
#else
static const bool held_rows_are_left_out = false;
#endif

static enum ps_status find(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason);
static enum ps_status check_version(const struct ps_record *record, uint64_t present,
                                    uint64_t expected, struct ps_error *reason);
static enum ps_status hold(struct ps_service *service, struct ps_parameter *parameter,
                           const struct ps_record *record, struct ps_error *reason);
static enum ps_status check_held(const struct ps_contributions *rounds, uint32_t worker,
                                 struct ps_error *reason);
static enum ps_status read_round(const struct ps_parameter *parameter,
                                 const struct ps_record *record, struct ps_round_record *round,
                                 struct ps_error *reason);
static enum ps_status end_round(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_record *record, struct ps_error *reason);

/* A contribution is of the version that it was made at, and the end of a round makes the next one:
 * so a record that is missing, or one too many, shows by its number; records of one parameter come
 * one at a time, so that this stays as it is between its locks. What may fail comes before the
 * session, which stays. */
enum ps_status ps_recovery_round(struct ps_service *service, const struct ps_record *record,
                                 struct ps_error *reason)
{
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    PS_ASSERT(record->position > 0);
    struct ps_parameter *parameter = NULL;
    PS_TRY(find(&service->table, record, &parameter, reason));
    uint64_t present = ps_parameter_version(parameter);
    if (record->type == PS_RECORD_ROUND) {
        PS_TRY(check_version(record, present, present + 1, reason));
        return end_round(service, parameter, record, reason);
    }
    PS_TRY(check_version(record, present, present, reason));
    PS_TRY(hold(service, parameter, record, reason));
    /* A position that makes no version. */
    service->position_at_begin++;
    return ps_recovery_remember(service, record, reason);
}

/* Its version is the parameter's, and its session is among those of the checkpoint. It has no
 * position: what the journal has behind the checkpoint is counted from the checkpoint's on. The
 * table is not the service's yet, and nobody else sees it. */
enum ps_status ps_recovery_round_saved(struct ps_service *service,
                                       const struct ps_parameter_table *table,
                                       const struct ps_record *record, struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    struct ps_round_record round;
    PS_TRY(find(table, record, &parameter, reason));
    uint64_t present = ps_parameter_version(parameter);
    /* A section is of the instant of its file: neither behind the parameter nor ahead of it. */
    PS_TRY(check_version(record, present, present, reason));
    /* The journal behind the checkpoint does not have them again: it begins at the instant. */
    if (held_rows_are_left_out && parameter->rows != NULL)
        return PS_OK;
    if (record->type == PS_RECORD_HELD)
        return hold(service, parameter, record, reason);
    PS_TRY(read_round(parameter, record, &round, reason));
    /* Contributions take evictions back, so that the record stands before them. */
    if (parameter->rounds->round.counted_count > 0 ||
        ps_round_set_count(round.evicted, round.workers) == round.workers)
        return ps_fail(reason, PS_ERR_CORRUPT, "evictions behind contributions, or of all workers");
    ps_round_next(&parameter->rounds->round, round.evicted);
    return PS_OK;
}

/* Whatever reads records gives their content in one piece. Rounds come with a configuration, whose
 * record stands before those of the rounds. */
static enum ps_status find(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason)
{
    PS_ASSERT(record->type == PS_RECORD_HELD || record->type == PS_RECORD_ROUND);
    struct ps_parameter *found = ps_parameter_table_find(table, record->name);
    if (found == NULL)
        return ps_fail(reason, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(record->name), (const char *)record->name.data);
    if (found->rounds == NULL)
        return ps_fail(reason, PS_ERR_CORRUPT, "Name: %s is not trained in rounds",
                       (const char *)found->spec->name.data);
    if (record->content.piece_count != 1)
        return ps_fail(reason, PS_ERR_CORRUPT, "a record in %zu pieces",
                       record->content.piece_count);
    *parameter = found;
    return PS_OK;
}

/* Said with both numbers: which of them is behind tells whether a file or a record is missing. */
static enum ps_status check_version(const struct ps_record *record, uint64_t present,
                                    uint64_t expected, struct ps_error *reason)
{
    PS_ASSERT(expected == present || expected == present + 1);
    if (record->version == expected)
        return PS_OK;
    return ps_fail(reason, PS_ERR_CORRUPT,
                   "the parameter has version %" PRIu64 ", the record is of version %" PRIu64,
                   present, record->version);
}

/* Live and out of a checkpoint alike, but that a checkpoint has it decoded. Looked at as any
 * gradient that comes from outside: a file may be of anybody. Indices that point beyond the
 * parameter would be written to. The weight is taken as a request's: 0 is 1; that its elements are
 * finite was looked at when it was taken. */
static enum ps_status hold(struct ps_service *service, struct ps_parameter *parameter,
                           const struct ps_record *record, struct ps_error *reason)
{
    struct ps_held_head head;
    struct ps_bytes bytes;
    PS_ASSERT(record->type == PS_RECORD_HELD);
    PS_TRY(ps_held_head_read(record->content.pieces[0], &head, &bytes, reason));
    const struct ps_gradient gradient = {.content = ps_view_of(&bytes),
                                         .encoding = record->encoding};
    PS_TRY(ps_service_check_gradient(parameter->spec, record->dtype, record->encoding, bytes.size,
                                     reason));
    PS_TRY(check_held(parameter->rounds, head.worker, reason));
    struct ps_contribution one;
    PS_TRY(ps_contribution_make(parameter, gradient, head.weight, &one, reason));
    /* The time is that of the recovery: a server that was down for long evicts nobody for that. */
    ps_mutex_lock(&parameter->rounds->lock);
    ps_contributions_hold(parameter->rounds, head.worker, &one, ps_now_ms(service->clock));
    ps_mutex_unlock(&parameter->rounds->lock);
    /* Shown from the start on: what a server holds after its recovery is what it held before. */
    ps_gauge_add(service->metrics.round_held_bytes, (double)ps_contribution_bytes(&one));
    return PS_OK;
}

/* A worker of a configuration that came later, or one that the journal has twice. */
static enum ps_status check_held(const struct ps_contributions *rounds, uint32_t worker,
                                 struct ps_error *reason)
{
    PS_ASSERT(rounds->round.workers > 0);
    if (worker >= rounds->round.workers)
        return ps_fail(reason, PS_ERR_CORRUPT, "a contribution of rank %u of %u workers",
                       (unsigned)worker, (unsigned)rounds->round.workers);
    if (ps_contribution_is_held(&rounds->held[worker]))
        return ps_fail(reason, PS_ERR_CORRUPT, "two contributions of rank %u to one round",
                       (unsigned)worker);
    return PS_OK;
}

/* The sets are of as many workers as there are; the codec has looked that nobody is in both. */
static enum ps_status read_round(const struct ps_parameter *parameter,
                                 const struct ps_record *record, struct ps_round_record *round,
                                 struct ps_error *reason)
{
    uint32_t workers = parameter->rounds->round.workers;
    PS_ASSERT(record->type == PS_RECORD_ROUND);
    PS_TRY(ps_round_record_read(record->content.pieces[0], round, reason));
    if (round->workers == workers)
        return PS_OK;
    return ps_fail(reason, PS_ERR_CORRUPT, "a round of %u workers, there are %u",
                   (unsigned)round->workers, (unsigned)workers);
}

/* All that is held counts in a round: a record that says otherwise is of another state. Compared as
 * sets and not as numbers: two rounds of as many workers may have been of different ones, and would
 * make other bits. The evicted are taken from the record, since the clock that decided about them
 * is gone. */
static enum ps_status end_round(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_record *record, struct ps_error *reason)
{
    struct ps_contributions *rounds = parameter->rounds;
    struct ps_round_record round;
    uint64_t version = 0;
    PS_ASSERT(record->version > 0);
    PS_TRY(read_round(parameter, record, &round, reason));
    if (rounds->round.counted_count == 0 ||
        memcmp(round.counted, rounds->round.counted, PS_ROUND_SET_BYTES(round.workers)) != 0)
        return ps_fail(reason, PS_ERR_CORRUPT,
                       "the round has other contributions than those that are held (%u)",
                       (unsigned)rounds->round.counted_count);
    /* No place in the journal (NULL): the record has one. */
    ps_mutex_lock(&rounds->lock);
    uint64_t freed = ps_contributions_held_bytes(rounds);
    enum ps_status status = ps_round_make_version(
        parameter, evictions_are_left_out ? rounds->round.evicted : round.evicted, NULL, &version,
        reason);
    ps_mutex_unlock(&rounds->lock);
    PS_ASSERT(status != PS_OK || version == record->version);
    /* As when it ended live; each contribution was added when it was held. */
    if (status == PS_OK)
        ps_gauge_add(service->metrics.round_held_bytes, -(double)freed);
    return status;
}

/* A record that cannot be read is not there: whoever applies it says what is wrong. Nobody
 * contributes while a state is recovered, so that no lock is needed. */
bool ps_recovery_round_is_held(const struct ps_service *service, const struct ps_record *record)
{
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, record->name);
    struct ps_held_head head;
    struct ps_bytes gradient;
    if (record->type != PS_RECORD_HELD || parameter == NULL || parameter->rounds == NULL)
        return false;
    const struct ps_contributions *rounds = parameter->rounds;
    PS_ASSERT(rounds->round.workers > 0);
    return record->version == parameter->version && record->content.piece_count == 1 &&
           ps_held_head_read(record->content.pieces[0], &head, &gradient, NULL) == PS_OK &&
           head.worker < rounds->round.workers &&
           ps_contribution_is_held(&rounds->held[head.worker]);
}
