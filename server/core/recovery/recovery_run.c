/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery as a whole: each candidate (recovery_find.h) is filled in and the journal behind it
 * replayed, from the newest on, until state and journal together are all that is known to have been
 * there. Damage of a candidate leads to the next older one, since the journal behind that one has
 * the same pushes; whatever else goes wrong ends the search, because an older state would throw
 * away what was acknowledged. */
#include "server/core/recovery/recovery_run.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_fill.h"
#include "server/core/recovery/recovery_find.h"
#include "server/core/recovery/recovery_history.h"
#include "server/core/recovery/recovery_replay.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What came of one candidate. */
enum outcome { OUTCOME_LOADED, OUTCOME_NEXT, OUTCOME_STOP };

static enum ps_status try_all(struct ps_recovery_search *search, struct ps_recovered *recovered,
                              struct ps_error *error);
static enum outcome try_candidate(struct ps_recovery_search *search,
                                  const struct ps_recovery_candidate *candidate,
                                  struct ps_recovered *recovered);
static enum ps_status see_that_no_journal_is_there(struct ps_recovery_search *search,
                                                   struct ps_error *error);
static enum outcome pass_over(struct ps_recovery_search *search,
                              const struct ps_recovery_candidate *candidate, enum ps_status status,
                              const struct ps_error *reason);
static enum ps_status load_checkpoint(const struct ps_recovery *recovery,
                                      struct ps_recovered *recovered, struct ps_error *error);
static enum outcome try_journal(struct ps_recovery_search *search, const char *name,
                                struct ps_recovered *recovered);
static bool is_loss(struct ps_recovery_search *search, const struct ps_recovered *recovered);
static enum ps_status find_nothing(struct ps_recovery_search *search, struct ps_error *error);
static enum ps_status see_that_nothing_was_noted(const struct ps_recovery_search *search,
                                                 struct ps_error *error);
static void note_journal(struct ps_recovery_search *search, const char *name,
                         const struct ps_error *reason);
static void accept(struct ps_recovery_search *search, struct ps_recovered *recovered);
static void log_recovered(const struct ps_recovery *recovery, const struct ps_recovered *recovered);

/* What the next older checkpoint may heal. A lack of memory is none of it, nor a file that could
 * not be opened or read just now: it may be whole, and older state would throw updates away. */
static bool is_damage(enum ps_status status)
{
    return status == PS_ERR_CORRUPT || status == PS_ERR_NOT_FOUND;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

enum ps_status ps_recovery_run(const struct ps_recovery *recovery, struct ps_recovered *recovered,
                               struct ps_error *error)
{
    PS_ASSERT(recovery->service != NULL && recovery->folder != NULL);
    PS_ASSERT(ps_service_phase(recovery->service) == PS_PHASE_STARTING);
    struct ps_recovery_search search = {0};
    *recovered = (struct ps_recovered){0};
    enum ps_status status = ps_recovery_search_init(&search, recovery, error);
    if (status == PS_OK)
        status = try_all(&search, recovered, error);
    if (status == PS_OK)
        accept(&search, recovered);
    else if (status == PS_ERR_CORRUPT)
        PS_LOG(recovery->log, PS_LOG_ERROR, "loader", "what to do (docs/recover.md)",
               PS_FIELD_TEXT("folder", recovery->folder),
               PS_FIELD_TEXT("advice", ps_recovery_advice(search.cause)));
    ps_recovery_search_fini(&search);
    /* The caller begins empty, tries again or gives up; half a shard would be served by none of
     * them. */
    PS_ASSERT(status == PS_OK || ps_service_phase(recovery->service) == PS_PHASE_STARTING);
    return status;
}

static enum ps_status try_all(struct ps_recovery_search *search, struct ps_recovered *recovered,
                              struct ps_error *error)
{
    struct ps_recovery_candidate candidate;
    enum outcome outcome = OUTCOME_NEXT;
    while (outcome == OUTCOME_NEXT && ps_recovery_search_next(search, &candidate))
        outcome = try_candidate(search, &candidate, recovered);
    /* Every candidate leaves the service as empty as it found it, but for the one that was taken.
     * */
    if (outcome == OUTCOME_LOADED)
        return PS_OK;
    if (outcome == OUTCOME_STOP)
        return ps_fail(error, search->stop.status, "%s", search->stop.text);
    return find_nothing(search, error);
}

static enum outcome try_candidate(struct ps_recovery_search *search,
                                  const struct ps_recovery_candidate *candidate,
                                  struct ps_recovered *recovered)
{
    PS_ASSERT(search->stop.status == PS_OK && candidate->name != NULL);
    struct ps_error reason = {0};
    recovered->place = candidate->place;
    bool is_elsewhere = candidate->fate == NULL;
    /* Before the file is read: what this refuses is not damage, and must not be passed over. */
    if (is_elsewhere && see_that_no_journal_is_there(search, &search->stop) != PS_OK)
        return OUTCOME_STOP;
    /* A warning and not an error: this is what a takeover looks like to the next recovery. */
    if (ps_recovery_search_is_overtaken(search, &candidate->place)) {
        /* A file of another folder is not ours to rename. */
        if (!is_elsewhere)
            *candidate->fate = PS_FATE_FORMER;
        PS_LOG(search->recovery->log, PS_LOG_WARN, "loader",
               "checkpoint of a former owner is passed over: the next owner had begun before it",
               PS_FIELD_TEXT("name", candidate->name));
        return OUTCOME_NEXT;
    }
    /* Of a server that began the shard, like the one whose history this is, and came to nothing.
     * What it has was never acknowledged, so that nothing is missed with it. */
    if (ps_recovery_is_strange(search, candidate)) {
        *candidate->fate = PS_FATE_FORMER;
        return OUTCOME_NEXT;
    }
    /* The expensive part: every byte of the shard is read here. The cheap questions have been asked
     * by now. */
    enum ps_status status = load_checkpoint(search->recovery, recovered, &reason);
    if (status == PS_OK) {
        status = ps_recovery_take_history(search, candidate, &recovered->place.history,
                                          &recovered->history, &search->stop);
        if (status == PS_OK)
            return try_journal(search, candidate->name, recovered);
        ps_service_give_up_recovery(search->recovery->service);
        return OUTCOME_STOP;
    }
    return pass_over(search, candidate, status, &reason);
}

/* A checkpoint in another folder may be followed. But a journal beside it goes on behind it, and
 * would not be read: what it alone has was acknowledged. */
static enum ps_status see_that_no_journal_is_there(struct ps_recovery_search *search,
                                                   struct ps_error *error)
{
    const struct ps_recovery *recovery = search->recovery;
    char folder[sizeof search->published.path];
    struct ps_file file;
    /* The path is the one that the publishing server saw, perhaps on another machine. */
    if (recovery->files->open(recovery->files->self, search->published.path, PS_FILE_READ, &file,
                              NULL) != PS_OK)
        return PS_OK; /* nothing to follow */
    recovery->files->close(recovery->files->self, file);
    (void)snprintf(folder, sizeof folder, "%s", search->published.path);
    /* The folder of the file is where its journal would be. */
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return PS_OK;
    *slash = '\0';
    struct ps_journal_segments segments = {0};
    PS_TRY(ps_journal_segments_init(&segments, recovery->files, folder, recovery->service->epoch,
                                    recovery->memory, error));
    size_t count = segments.count;
    ps_journal_segments_fini(&segments);
    if (count == 0)
        return PS_OK;
    search->cause = PS_RECOVERY_ELSEWHERE;
    return ps_fail(
        error, PS_ERR_CORRUPT,
        "the published checkpoint and its journal are not in this data directory, but in "
        "%.150s",
        folder);
}

/* What a damaged checkpoint had must be in the journal, if its epoch had one (`needed`). Without a
 * journal its pushes are lost, which is bounded by the interval and counted (`known`). */
static enum outcome pass_over(struct ps_recovery_search *search,
                              const struct ps_recovery_candidate *candidate, enum ps_status status,
                              const struct ps_error *reason)
{
    const struct ps_checkpoint_place *place = &candidate->place;
    PS_ASSERT(status != PS_OK);
    /* Memory, a limit, a file of another number of shards: no older checkpoint would do better. */
    if (!is_damage(status)) {
        /* The first reason, as it was said: the caller decides by its status whether to try again.
         * */
        (void)ps_fail(&search->stop, status, "%s", reason->text);
        return OUTCOME_STOP;
    }
    if (candidate->fate != NULL)
        *candidate->fate = PS_FATE_DAMAGED;
    /* Damaged and absent are told apart: a damaged file is known by its bytes, and the one before
     * with the journal is as good; an absent one may mean that the whole folder is the wrong one.
     * */
    search->pointer_is_absent |=
        status == PS_ERR_NOT_FOUND && ps_recovery_search_misses(search, place);
    ps_recovery_search_note_damage(search, candidate->name, reason);
    /* The two bounds are told apart to the end: below `needed` nothing is served, below `known` it
     * is, and the difference is counted as lost. */
    if (ps_recovery_kept_journal(&search->segments, place))
        search->needed = most(search->needed, place->position);
    search->known = most(search->known, place->position);
    return OUTCOME_NEXT;
}

static enum ps_status load_checkpoint(const struct ps_recovery *recovery,
                                      struct ps_recovered *recovered, struct ps_error *error)
{
    struct ps_checkpoint_place *place = &recovered->place;
    uint64_t start_ms = ps_now_ms(recovery->service->clock);
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(recovery->files, place->path, recovery->memory, &reader, error));
    enum ps_status status = ps_recovery_fill(recovery->service, reader, recovery->crew, error);
    if (status == PS_OK) {
        /* The file itself is believed, not its name and not the pointer: those may have been
         * written by hand, and the journal is read from this position on. */
        const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
        place->position = facts->position;
        place->epoch = facts->epoch;
        place->unix_ns = facts->unix_ns;
        place->history = facts->history;
    }
    ps_checkpoint_close(reader);
    /* Also after a failure: reading a damaged file to its end is most of the time of such a
     * recovery. */
    recovered->load_ms = ps_now_ms(recovery->service->clock) - start_ms;
    return status;
}

/* With the checkpoint loaded: the journal behind it, and is that everything we know of? An older
 * candidate may still lead further, when only the newest file lacks its journal; that is why a
 * journal that ends too early is damage, and a loss of what the pointer speaks of ends the
 * search. */
static enum outcome try_journal(struct ps_recovery_search *search, const char *name,
                                struct ps_recovered *recovered)
{
    PS_ASSERT(ps_service_phase(search->recovery->service) == PS_PHASE_RECOVERING);
    struct ps_error reason = {0};
    enum ps_status status =
        ps_recovery_replay(search->recovery, &search->segments, recovered, &reason);
    if (status == PS_OK && !is_loss(search, recovered) && recovered->position >= search->needed)
        return OUTCOME_LOADED;
    /* is_loss has said why. */
    if (status == PS_OK && search->stop.status != PS_OK) {
        ps_service_give_up_recovery(search->recovery->service);
        return OUTCOME_STOP;
    }
    if (status == PS_OK)
        status = ps_fail(&reason, PS_ERR_CORRUPT,
                         "journal: it ends at position %" PRIu64 ", but %" PRIu64
                         " had been reached: the pushes between are missing (checkpoints that are "
                         "not whole: %zu, named in the log)",
                         recovered->position, search->needed, search->damaged_count);
    ps_service_give_up_recovery(search->recovery->service);
    if (status != PS_ERR_CORRUPT) {
        (void)ps_fail(&search->stop, status, "%s", reason.text);
        return OUTCOME_STOP;
    }
    /* An older candidate has to lead at least to where this one led. */
    search->needed = most(search->needed, recovered->position);
    note_journal(search, name, &reason);
    return OUTCOME_NEXT;
}

/* Everything that is here was read: what the pointer speaks of, and is not here, is lost unless the
 * journal had it. Fills search->stop. */
static bool is_loss(struct ps_recovery_search *search, const struct ps_recovered *recovered)
{
    const struct ps_checkpoint_place *published = &search->published;
    /* Asked first: without any journal there is nothing that could bridge. */
    if (ps_recovery_journal_is_gone(&search->segments, published)) {
        search->cause = PS_RECOVERY_JOURNAL_GONE;
        (void)ps_fail(&search->stop, PS_ERR_CORRUPT,
                      "the journal behind the published checkpoint (position %" PRIu64
                      ") is not there: what was acknowledged since would be given up",
                      published->position);
        return true;
    }
    /* What the pointer names was read, so whatever is missing would have shown by its position. */
    if (!search->pointer_is_absent)
        return false;
    /* Only the journal of the very epoch proves that what is here goes on to what the absent file
     * had. */
    bool bridges = ps_recovery_may_bridge(&search->segments, published);
    if (bridges && recovered->position >= published->position)
        return false;
    search->cause = PS_RECOVERY_ABSENT;
    if (recovered->position < published->position)
        (void)ps_fail(&search->stop, PS_ERR_CORRUPT,
                      "the published checkpoint (position %" PRIu64
                      ") is not there, and what is here ends at position %" PRIu64 ": %" PRIu64
                      " pushes would be given up. It was %.100s",
                      published->position, recovered->position,
                      published->position - recovered->position, published->path);
    else
        (void)ps_fail(&search->stop, PS_ERR_CORRUPT,
                      "the published checkpoint (position %" PRIu64
                      ") is not there, and nothing shows that what is here goes on from it. It was "
                      "%.100s",
                      published->position, published->path);
    return true;
}

/* No candidate was usable. Only when nothing at all speaks of a state that there was is the shard
 * new; everything else is a loss, and is told with the cause that an operator can do most about. */
static enum ps_status find_nothing(struct ps_recovery_search *search, struct ps_error *error)
{
    PS_ASSERT(search->stop.status == PS_OK);
    search->cause = search->pointer_is_absent ? PS_RECOVERY_ABSENT : PS_RECOVERY_JOURNAL;
    /* A checkpoint was whole, but its journal was not: that says more than the other candidates'
     * damage. */
    if (search->journal.status != PS_OK)
        return ps_fail(error, search->journal.status, "%s", search->journal.text);
    search->cause = PS_RECOVERY_ELSEWHERE;
    if (search->damaged_count == 1 && search->pointer_is_absent)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "the published checkpoint is not there; is this the folder that it was "
                       "saved in? %.170s",
                       search->published.path);
    search->cause = PS_RECOVERY_NO_WHOLE;
    if (search->damaged_count > 0)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "none of the checkpoints of this shard is whole (%zu tried): %s",
                       search->damaged_count, search->damaged);
    search->cause = PS_RECOVERY_NO_CHECKPOINT;
    /* Before the first checkpoint nothing is acknowledged as durable, so an epoch that begins with
     * the first push has nothing to lose, however many segments it has. Any other went on from a
     * checkpoint. */
    for (size_t i = 0; i < search->segments.count; i++)
        if (ps_journal_segments_first(&search->segments, i) &&
            search->segments.entries[i].first > 1)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "there is a journal from position %" PRIu64
                           " on, but no checkpoint that it goes on from",
                           search->segments.entries[i].first);
    PS_TRY(see_that_nothing_was_noted(search, error));
    return ps_fail(error, PS_ERR_NOT_FOUND, "checkpoint not found in etcd");
}

/* A note outlives the files that it speaks of, in the folder and in the store: with one, this shard
 * had acknowledged pushes, and an empty folder is an unmounted volume rather than a new shard. */
static enum ps_status see_that_nothing_was_noted(const struct ps_recovery_search *search,
                                                 struct ps_error *error)
{
    const struct ps_recovery *recovery = search->recovery;
    struct ps_journal_notes notes;
    PS_TRY(ps_journal_notes_read(recovery->files, recovery->folder, recovery->service->epoch,
                                 &notes, error));
    uint64_t position = most(notes.highest.position, recovery->noted.position);
    if (position == 0)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT,
                   "there is no checkpoint, but position %" PRIu64
                   " was noted as durable: at least %" PRIu64 " acknowledged pushes are missing",
                   position, position);
}

/* Of several the first is told: it is about the newest candidate, whose journal goes furthest. */
static void note_journal(struct ps_recovery_search *search, const char *name,
                         const struct ps_error *reason)
{
    PS_ASSERT(name != NULL && reason->text[0] != '\0');
    if (search->journal.status == PS_OK) {
        search->journal = *reason;
        search->journal.status = PS_ERR_CORRUPT;
    }
    PS_LOG(search->recovery->log, PS_LOG_ERROR, "loader", "the journal is not usable",
           PS_FIELD_TEXT("behind", name), PS_FIELD_ERROR(reason));
}

/* The shard has its state: what is missing of it is counted before anybody is served, and only now
 * are files renamed that turned out to be of no use. */
static void accept(struct ps_recovery_search *search, struct ps_recovered *recovered)
{
    const struct ps_recovery *recovery = search->recovery;
    PS_ASSERT(recovered->position >= recovered->place.position);
    PS_ASSERT(recovered->durable <= recovered->position);
    recovered->damaged_count = search->damaged_count;
    /* Notes that an operator has given up speak of pushes behind the end of the journal. */
    search->known = most(search->known, recovered->position + recovered->given_up_count);
    if (search->known > recovered->position)
        recovered->missing_count = search->known - recovered->position;
    ps_service_note_lost(recovery->service, recovered->missing_count);
    ps_recovery_search_put_aside(search);
    ps_service_keep_history(recovery->service, &recovered->history);
    /* Named by the store from here on, whether it was loaded or put aside just now. */
    ps_service_note_named(recovery->service, search->published.uuid);
    /* Ticket 0 satisfies nobody: nobody waits yet. */
    ps_service_saved(recovery->service, (struct ps_ticket){0}, &recovered->place);
    log_recovered(recovery, recovered);
}

static void log_recovered(const struct ps_recovery *recovery, const struct ps_recovered *recovered)
{
    /* Two lines, since the two halves take their time for different reasons: the size of the state,
     * and the number of pushes since the checkpoint. An operator who wants a shorter recovery looks
     * here first. */
    PS_LOG(recovery->log, PS_LOG_INFO, "loader", "checkpoint loaded",
           PS_FIELD_TEXT("path", recovered->place.path),
           PS_FIELD_UINT("position", recovered->place.position),
           PS_FIELD_UINT("epoch", recovered->place.epoch),
           PS_FIELD_UINT("damaged", recovered->damaged_count),
           PS_FIELD_UINT("duration_ms", recovered->load_ms));
    PS_LOG(recovery->log, PS_LOG_INFO, "loader", "journal replayed",
           PS_FIELD_UINT("records", recovered->replayed_count),
           PS_FIELD_UINT("position", recovered->position), PS_FIELD_UINT("epoch", recovered->epoch),
           PS_FIELD_UINT("torn_bytes", recovered->cut_bytes),
           PS_FIELD_UINT("duration_ms", recovered->replay_ms));
}
