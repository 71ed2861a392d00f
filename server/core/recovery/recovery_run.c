/* Newest first, until one is whole and the journal behind it, too. */
#include "server/core/recovery/recovery_run.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal_chain.h"
#include "server/core/recovery/recovery_fill.h"
#include "server/core/recovery/recovery_replay.h"
#include "server/core/recovery/recovery_verdict.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What the name of a damaged checkpoint ends in once a server went on from another one. */
#define DAMAGED ".damaged"

/* The pointer as one more candidate beside the folder's. */
struct pointer {
    bool usable; /* there is one, it can be read, and the folder does not list the same file */
    struct ps_checkpoint_place place;
};

/* What came of a file of the folder. */
enum fate { FATE_NONE, FATE_DAMAGED, FATE_STALE };

/* What came of one candidate. */
enum outcome { OUTCOME_LOADED, OUTCOME_NEXT, OUTCOME_STOP };

struct search {
    const struct ps_recovery *recovery;
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    struct pointer pointer;
    enum fate *fates; /* one per entry of the catalog */
    size_t damaged_count;
    bool pointer_is_absent;       /* the file that the pointer names is not there */
    enum ps_recovery_cause cause; /* of a failure that people can do something about */
    char damaged[180];            /* their names, as many as fit whole: two and ", ..." */
    uint64_t needed;              /* position that recovery must reach */
    uint64_t known;               /* position that it should reach, of epochs without a journal */
    struct ps_error journal;      /* what was wrong with the journal behind the newest candidate */
    struct ps_error stop;         /* why nothing else was tried */
};

static enum ps_status begin_search(struct search *search, const struct ps_recovery *recovery,
                                   struct ps_error *error);
static void end_search(struct search *search);
static void read_pointer(struct search *search);
static enum ps_status try_all(struct search *search, struct ps_recovered *recovered,
                              struct ps_error *error);
static enum outcome try_pointer(struct search *search, struct ps_recovered *recovered);
static enum ps_status see_that_no_journal_is_there(struct search *search, struct ps_error *error);
static enum outcome try_entry(struct search *search, size_t i, struct ps_recovered *recovered);
static enum outcome try_place(struct search *search, const char *name,
                              struct ps_recovered *recovered, enum fate *fate);
static bool is_superseded(const struct search *search, const struct ps_checkpoint_place *place);
static enum ps_status load_checkpoint(const struct ps_recovery *recovery,
                                      struct ps_recovered *recovered, struct ps_error *error);
static enum outcome try_journal(struct search *search, const char *name,
                                struct ps_recovered *recovered);
static bool is_loss(struct search *search, const struct ps_recovered *recovered);
static enum ps_status find_nothing(struct search *search, struct ps_error *error);
static enum ps_status see_that_nothing_was_noted(const struct search *search,
                                                 struct ps_error *error);
static void note_damage(struct search *search, const char *name, const struct ps_error *reason);
static void note_missing(struct search *search, const struct ps_checkpoint_place *place);
static void note_journal(struct search *search, const char *name, const struct ps_error *reason);
static void put_aside(const struct search *search);
static void log_loaded(const struct ps_recovery *recovery, const struct ps_recovered *recovered);

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
    struct search search = {0};
    *recovered = (struct ps_recovered){0};
    enum ps_status status = begin_search(&search, recovery, error);
    if (status == PS_OK)
        status = try_all(&search, recovered, error);
    if (status == PS_OK) {
        recovered->damaged_count = search.damaged_count;
        search.known = most(search.known, recovered->position + recovered->given_up_count);
        if (search.known > recovered->position)
            recovered->missing_count = search.known - recovered->position;
        ps_service_note_lost(recovery->service, recovered->missing_count);
        put_aside(&search);
        /* Ticket 0 satisfies nobody: nobody waits yet. */
        ps_service_saved(recovery->service, (struct ps_ticket){0}, &recovered->place);
        log_loaded(recovery, recovered);
    } else if (status == PS_ERR_CORRUPT) {
        PS_LOG(recovery->log, PS_LOG_ERROR, "loader", "what to do (docs/recover.md)",
               PS_FIELD_TEXT("folder", recovery->folder),
               PS_FIELD_TEXT("advice", ps_recovery_advice(search.cause)));
    }
    end_search(&search);
    return status;
}

static enum ps_status begin_search(struct search *search, const struct ps_recovery *recovery,
                                   struct ps_error *error)
{
    search->recovery = recovery;
    PS_TRY(ps_catalog_init(&search->catalog, recovery->files, recovery->folder, recovery->memory,
                           error));
    PS_TRY(ps_journal_segments_init(&search->segments, recovery->files, recovery->folder,
                                    recovery->service->epoch, recovery->memory, error));
    PS_TRY(ps_journal_chain_keep(&search->segments, recovery->files, recovery->folder, 0, error));
    search->fates =
        ps_zeroed_array(recovery->memory, search->catalog.count, sizeof search->fates[0]);
    if (search->fates == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look through %zu checkpoints",
                       search->catalog.count);
    read_pointer(search);
    return PS_OK;
}

static void end_search(struct search *search)
{
    ps_release(search->recovery->memory, search->fates);
    if (search->segments.memory != NULL)
        ps_journal_segments_fini(&search->segments);
    if (search->catalog.memory != NULL)
        ps_catalog_fini(&search->catalog);
}

static void read_pointer(struct search *search)
{
    const struct ps_recovery *recovery = search->recovery;
    struct pointer *pointer = &search->pointer;
    if (recovery->pointer.size == 0)
        return;
    struct ps_error reason = {0};
    if (ps_catalog_pointer_read(recovery->pointer, recovery->memory, &pointer->place, &reason) !=
        PS_OK) {
        note_damage(search, "the pointer in etcd", &reason);
        return;
    }
    pointer->usable = true;
    search->known = pointer->place.reached;
    for (size_t i = 0; i < search->catalog.count; i++)
        if (strcmp(search->catalog.entries[i].uuid, pointer->place.uuid) == 0)
            pointer->usable = false;
}

static bool is_published(const struct search *search, const struct ps_checkpoint_place *place)
{
    return strcmp(search->pointer.place.uuid, place->uuid) == 0;
}

/* By a server that found it damaged, went on from the one before, and has not published since. */
static bool was_put_aside(const struct search *search, const struct ps_checkpoint_place *place)
{
    const struct ps_files *files = search->recovery->files;
    char path[sizeof place->path + sizeof DAMAGED];
    struct ps_file file;
    (void)snprintf(path, sizeof path, "%s" DAMAGED, place->path);
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) != PS_OK)
        return false;
    files->close(files->self, file);
    return true;
}

static bool pointer_is_newer(const struct pointer *pointer, const struct ps_catalog_entry *entry)
{
    if (pointer->place.epoch != entry->epoch)
        return pointer->place.epoch > entry->epoch;
    return pointer->place.position >= entry->position;
}

static enum ps_status try_all(struct search *search, struct ps_recovered *recovered,
                              struct ps_error *error)
{
    struct pointer *pointer = &search->pointer;
    enum outcome outcome = OUTCOME_NEXT;
    for (size_t i = 0; outcome == OUTCOME_NEXT && i < search->catalog.count; i++) {
        if (pointer->usable && pointer_is_newer(pointer, &search->catalog.entries[i]))
            outcome = try_pointer(search, recovered);
        if (outcome == OUTCOME_NEXT)
            outcome = try_entry(search, i, recovered);
    }
    if (outcome == OUTCOME_NEXT && pointer->usable)
        outcome = try_pointer(search, recovered);
    if (outcome == OUTCOME_LOADED)
        return PS_OK;
    if (outcome == OUTCOME_STOP)
        return ps_fail(error, search->stop.status, "%s", search->stop.text);
    return find_nothing(search, error);
}

static enum outcome try_pointer(struct search *search, struct ps_recovered *recovered)
{
    enum fate unused = FATE_NONE;
    search->pointer.usable = false;
    recovered->place = search->pointer.place;
    enum ps_status status = see_that_no_journal_is_there(search, &search->stop);
    if (status != PS_OK)
        return OUTCOME_STOP;
    return try_place(search, recovered->place.path, recovered, &unused);
}

/* A checkpoint in another folder may be followed. But a journal beside it goes on behind it, and
 * would not be read: what it alone has was acknowledged. */
static enum ps_status see_that_no_journal_is_there(struct search *search, struct ps_error *error)
{
    const struct ps_recovery *recovery = search->recovery;
    char folder[sizeof search->pointer.place.path];
    struct ps_file file;
    if (recovery->files->open(recovery->files->self, search->pointer.place.path, PS_FILE_READ,
                              &file, NULL) != PS_OK)
        return PS_OK; /* nothing to follow */
    recovery->files->close(recovery->files->self, file);
    (void)snprintf(folder, sizeof folder, "%s", search->pointer.place.path);
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

static enum outcome try_entry(struct search *search, size_t i, struct ps_recovered *recovered)
{
    const struct ps_catalog_entry *entry = &search->catalog.entries[i];
    bool published = strcmp(search->pointer.place.uuid, entry->uuid) == 0;
    recovered->place = published ? search->pointer.place
                                 : (struct ps_checkpoint_place){.epoch = entry->epoch,
                                                                .position = entry->position};
    memcpy(recovered->place.uuid, entry->uuid, sizeof recovered->place.uuid);
    /* A path that does not fit is cut, and then there is no such file. */
    (void)snprintf(recovered->place.path, sizeof recovered->place.path, "%s/%s",
                   search->recovery->folder, entry->name);
    return try_place(search, entry->name, recovered, &search->fates[i]);
}

static enum outcome try_place(struct search *search, const char *name,
                              struct ps_recovered *recovered, enum fate *fate)
{
    const struct ps_checkpoint_place *place = &recovered->place;
    struct ps_error reason = {0};
    if (is_superseded(search, place)) {
        *fate = FATE_STALE;
        PS_LOG(search->recovery->log, PS_LOG_WARN, "loader",
               "checkpoint of a former owner is passed over: the next owner had begun before it",
               PS_FIELD_TEXT("name", name));
        return OUTCOME_NEXT;
    }
    enum ps_status status = load_checkpoint(search->recovery, recovered, &reason);
    if (is_damage(status)) {
        *fate = FATE_DAMAGED;
        search->pointer_is_absent |= status == PS_ERR_NOT_FOUND && is_published(search, place) &&
                                     !was_put_aside(search, place);
        note_damage(search, name, &reason);
        note_missing(search, place);
        return OUTCOME_NEXT;
    }
    if (status != PS_OK) {
        (void)ps_fail(&search->stop, status, "%s", reason.text);
        return OUTCOME_STOP;
    }
    return try_journal(search, name, recovered);
}

/* By a segment of a later epoch, or, where no journal was kept, by a checkpoint of one: that it has
 * a lower position shows that its owner went on from less. */
static bool is_superseded(const struct search *search, const struct ps_checkpoint_place *place)
{
    const struct ps_checkpoint_place *published = &search->pointer.place;
    if (ps_recovery_is_superseded(&search->segments, place->epoch, place->position) ||
        (ps_recovery_is_former(place->epoch, published->epoch) &&
         published->position < place->position))
        return true;
    for (size_t i = 0; i < search->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &search->catalog.entries[i];
        if (ps_recovery_is_former(place->epoch, entry->epoch) && entry->position < place->position)
            return true;
    }
    return false;
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
        const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
        place->position = facts->position;
        place->epoch = facts->epoch;
        place->unix_ns = facts->unix_ns;
    }
    ps_checkpoint_close(reader);
    recovered->load_ms = ps_now_ms(recovery->service->clock) - start_ms;
    return status;
}

/* With the checkpoint loaded: the journal behind it, and is that everything we know of? */
static enum outcome try_journal(struct search *search, const char *name,
                                struct ps_recovered *recovered)
{
    struct ps_error reason = {0};
    enum ps_status status =
        ps_recovery_replay(search->recovery, &search->segments, recovered, &reason);
    if (status == PS_OK && !is_loss(search, recovered) && recovered->position >= search->needed)
        return OUTCOME_LOADED;
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
    search->needed = most(search->needed, recovered->position);
    note_journal(search, name, &reason);
    return OUTCOME_NEXT;
}

/* Everything that is here was read: what the pointer speaks of, and is not here, is lost unless the
 * journal had it. Fills search->stop. */
static bool is_loss(struct search *search, const struct ps_recovered *recovered)
{
    const struct ps_checkpoint_place *published = &search->pointer.place;
    if (ps_recovery_journal_is_gone(&search->segments, published)) {
        search->cause = PS_RECOVERY_JOURNAL_GONE;
        (void)ps_fail(&search->stop, PS_ERR_CORRUPT,
                      "the journal behind the published checkpoint (position %" PRIu64
                      ") is not there: what was acknowledged since would be given up",
                      published->position);
        return true;
    }
    if (!search->pointer_is_absent)
        return false;
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

static enum ps_status find_nothing(struct search *search, struct ps_error *error)
{
    search->cause = search->pointer_is_absent ? PS_RECOVERY_ABSENT : PS_RECOVERY_JOURNAL;
    if (search->journal.status != PS_OK)
        return ps_fail(error, search->journal.status, "%s", search->journal.text);
    search->cause = PS_RECOVERY_ELSEWHERE;
    if (search->damaged_count == 1 && search->pointer_is_absent)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "the published checkpoint is not there; is this the folder that it was "
                       "saved in? %.170s",
                       search->pointer.place.path);
    search->cause = PS_RECOVERY_NO_WHOLE;
    if (search->damaged_count > 0)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "none of the checkpoints of this shard is whole (%zu tried): %s",
                       search->damaged_count, search->damaged);
    search->cause = PS_RECOVERY_NO_CHECKPOINT;
    /* Before the first checkpoint nothing is acknowledged as durable, so a journal that begins with
     * the first push has nothing to lose. Any other went on from a checkpoint. */
    for (size_t i = 0; i < search->segments.count; i++)
        if (search->segments.entries[i].first > 1)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "there is a journal from position %" PRIu64
                           " on, but no checkpoint that it goes on from",
                           search->segments.entries[i].first);
    PS_TRY(see_that_nothing_was_noted(search, error));
    return ps_fail(error, PS_ERR_NOT_FOUND, "checkpoint not found in etcd");
}

static enum ps_status see_that_nothing_was_noted(const struct search *search,
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

static void note_damage(struct search *search, const char *name, const struct ps_error *reason)
{
    static const char more[] = ", ...";
    size_t used = strlen(search->damaged);
    bool listed = search->damaged_count == 0 || search->damaged[used - 1] != '.';
    size_t room = sizeof search->damaged - used;
    /* A name that was cut is the name of no file; each has a line of the log to itself. */
    if (listed && strlen(name) + 2 + sizeof more <= room)
        snprintf(search->damaged + used, room, "%s%s", used > 0 ? ", " : "", name);
    else if (listed)
        snprintf(search->damaged + used, room, "%s", more);
    search->damaged_count++;
    PS_LOG(search->recovery->log, PS_LOG_ERROR, "loader", "checkpoint is not usable",
           PS_FIELD_TEXT("name", name), PS_FIELD_ERROR(reason));
}

/* What a damaged checkpoint had must be in the journal, if its epoch had one. */
static void note_missing(struct search *search, const struct ps_checkpoint_place *place)
{
    if (ps_recovery_kept_journal(&search->segments, place))
        search->needed = most(search->needed, place->position);
    search->known = most(search->known, place->position);
}

static void note_journal(struct search *search, const char *name, const struct ps_error *reason)
{
    if (search->journal.status == PS_OK) {
        search->journal = *reason;
        search->journal.status = PS_ERR_CORRUPT;
    }
    PS_LOG(search->recovery->log, PS_LOG_ERROR, "loader", "the journal is not usable",
           PS_FIELD_TEXT("behind", name), PS_FIELD_ERROR(reason));
}

static void put_aside(const struct search *search)
{
    static const char *const endings[] = {
        [FATE_NONE] = "", [FATE_DAMAGED] = DAMAGED, [FATE_STALE] = ".stale"};
    const struct ps_recovery *recovery = search->recovery;
    for (size_t i = 0; i < search->catalog.count; i++) {
        if (search->fates[i] == FATE_NONE)
            continue;
        char from[1280];
        char to[1300];
        struct ps_error reason = {0};
        snprintf(from, sizeof from, "%.1024s/%s", recovery->folder,
                 search->catalog.entries[i].name);
        snprintf(to, sizeof to, "%s%s", from, endings[search->fates[i]]);
        enum ps_status status = recovery->files->rename(recovery->files->self, from, to, &reason);
        if (status != PS_OK && status != PS_ERR_NOT_FOUND)
            PS_LOG(recovery->log, PS_LOG_WARN, "loader", "unusable checkpoint stays in its place",
                   PS_FIELD_TEXT("path", from), PS_FIELD_ERROR(&reason));
    }
}

static void log_loaded(const struct ps_recovery *recovery, const struct ps_recovered *recovered)
{
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
