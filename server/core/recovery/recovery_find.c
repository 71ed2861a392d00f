/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates are merged from two lists: the folder, newest first, and the one file that the store's
 * pointer names, which may lie elsewhere. Both sort by epoch, then position: a later owner's file
 * counts as newer even where a former owner had come further, since what the former one had beyond
 * the takeover was not acknowledged. */
#include "server/core/recovery/recovery_find.h"

#include "base/assert.h"
#include "checkpoint/journal_chain.h"
#include "server/core/recovery/recovery_history.h"
#include "server/core/recovery/recovery_replay.h"
#include "server/core/requests/service_state.h"

#include <stdio.h>
#include <string.h>

/* What the name of a damaged checkpoint ends in once a server went on from another one. */
#define DAMAGED ".damaged"

static void read_pointer(struct ps_recovery_search *search);
static bool pointer_comes_before(const struct ps_recovery_search *search,
                                 const struct ps_catalog_entry *entry);
static void take_entry(struct ps_recovery_search *search, struct ps_recovery_candidate *candidate);
static bool was_put_aside(const struct ps_recovery_search *search,
                          const struct ps_checkpoint_place *place);

static bool is_published(const struct ps_recovery_search *search, const char *uuid)
{
    return strcmp(search->published.uuid, uuid) == 0;
}

enum ps_status ps_recovery_search_init(struct ps_recovery_search *search,
                                       const struct ps_recovery *recovery, struct ps_error *error)
{
    PS_ASSERT(search->recovery == NULL && search->fates == NULL);
    search->recovery = recovery;
    PS_TRY(ps_catalog_init(&search->catalog, recovery->files, recovery->folder, recovery->memory,
                           error));
    /* Segments of later epochs are left out: where there are any, another owner has begun
     * meanwhile, and whatever is recovered here will not be served. */
    PS_TRY(ps_journal_segments_init(&search->segments, recovery->files, recovery->folder,
                                    recovery->service->epoch, recovery->memory, error));
    /* One more list beside the catalog: names are changed only at the end, and by then it has to be
     * known why. */
    search->fates =
        ps_zeroed_array(recovery->memory, search->catalog.count, sizeof search->fates[0]);
    if (search->fates == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look through %zu checkpoints",
                       search->catalog.count);
    read_pointer(search);
    PS_TRY(ps_recovery_see_histories(search, error));
    /* Before anything is concluded from segments: one of another history may seem to go on from
     * this one, and to void epochs that count.
     * Segments of void lives and void epochs are left out (journal_chain.h): a server that had lost
     * the shard already began them, and no state has their pushes. Their files would overtake
     * checkpoints that are good. */
    ps_journal_chain_keep_history(&search->segments, recovery->files, recovery->folder,
                                  &search->survey.own);
    return ps_journal_chain_keep(&search->segments, recovery->files, recovery->folder, 0, error);
}

void ps_recovery_search_fini(struct ps_recovery_search *search)
{
    PS_ASSERT(search->recovery != NULL);
    ps_release(search->recovery->memory, search->fates);
    ps_history_survey_fini(&search->survey);
    if (search->segments.memory != NULL)
        ps_journal_segments_fini(&search->segments);
    if (search->catalog.memory != NULL)
        ps_catalog_fini(&search->catalog);
}

/* A pointer that cannot be read counts as damage and not as none: the shard had a checkpoint, and
 * if nothing in the folder is whole either, it must not begin empty. */
static void read_pointer(struct ps_recovery_search *search)
{
    const struct ps_recovery *recovery = search->recovery;
    struct ps_error reason = {0};
    if (recovery->pointer.size == 0)
        return;
    if (ps_catalog_pointer_read(recovery->pointer, recovery->memory, &search->published, &reason) !=
        PS_OK) {
        ps_recovery_search_note_damage(search, "the pointer in etcd", &reason);
        return;
    }
    /* What an operator has given up (psckpt publish) counts as known, so that it is told as lost.
     * */
    search->known = search->published.reached;
    search->pointer_is_open = true;
    for (size_t i = 0; i < search->catalog.count; i++)
        if (is_published(search, search->catalog.entries[i].uuid))
            search->pointer_is_open = false;
}

bool ps_recovery_search_next(struct ps_recovery_search *search,
                             struct ps_recovery_candidate *candidate)
{
    PS_ASSERT(search->next <= search->catalog.count);
    /* The merge of two sorted lists, of which one has at most one element. */
    const struct ps_catalog_entry *entry = NULL;
    if (search->next < search->catalog.count)
        entry = &search->catalog.entries[search->next];
    *candidate = (struct ps_recovery_candidate){.fate = NULL};
    if (search->pointer_is_open && (entry == NULL || pointer_comes_before(search, entry))) {
        search->pointer_is_open = false;
        /* With checksum and length, which only the pointer knows. */
        candidate->place = search->published;
        candidate->name = candidate->place.path;
        return true;
    }
    if (entry != NULL)
        take_entry(search, candidate);
    return entry != NULL;
}

/* Of the same position the published one first: the store says of its file what it must be. */
static bool pointer_comes_before(const struct ps_recovery_search *search,
                                 const struct ps_catalog_entry *entry)
{
    const struct ps_checkpoint_place *published = &search->published;
    if (published->epoch != entry->epoch)
        return published->epoch > entry->epoch;
    return published->position >= entry->position;
}

static void take_entry(struct ps_recovery_search *search, struct ps_recovery_candidate *candidate)
{
    const struct ps_catalog_entry *entry = &search->catalog.entries[search->next];
    struct ps_checkpoint_place *place = &candidate->place;
    *place = is_published(search, entry->uuid)
                 ? search->published
                 : (struct ps_checkpoint_place){.epoch = entry->epoch, .position = entry->position};
    memcpy(place->uuid, entry->uuid, sizeof place->uuid);
    /* A path that does not fit is cut, and then there is no such file. */
    (void)snprintf(place->path, sizeof place->path, "%s/%s", search->recovery->folder, entry->name);
    candidate->name = entry->name;
    candidate->fate = &search->fates[search->next++];
    PS_ASSERT(*candidate->fate == PS_FATE_NONE);
}

/* By a segment of a later epoch, or, where no journal was kept, by a checkpoint of one: that it has
 * a lower position shows that its owner went on from less. */
bool ps_recovery_search_is_overtaken(const struct ps_recovery_search *search,
                                     const struct ps_checkpoint_place *place)
{
    const struct ps_checkpoint_place *published = &search->published;
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

bool ps_recovery_search_misses(const struct ps_recovery_search *search,
                               const struct ps_checkpoint_place *place)
{
    PS_ASSERT(place->uuid[0] != '\0');
    return is_published(search, place->uuid) && !was_put_aside(search, place);
}

/* By a server that found it damaged, went on from the one before, and has not published since: such
 * a file is known to be damaged, and not lost. */
static bool was_put_aside(const struct ps_recovery_search *search,
                          const struct ps_checkpoint_place *place)
{
    const struct ps_files *files = search->recovery->files;
    char path[sizeof place->path + sizeof DAMAGED];
    struct ps_file file;
    /* Opened rather than looked for: the interface of files has no other question, and a name that
     * cannot be opened is no proof of anything. */
    (void)snprintf(path, sizeof path, "%s" DAMAGED, place->path);
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) != PS_OK)
        return false;
    files->close(files->self, file);
    return true;
}

/* The list goes into one line of an error, which has room for two names. A name that was cut would
 * be the name of no file, so that one is left out whole; each has a line of the log to itself. */
void ps_recovery_search_note_damage(struct ps_recovery_search *search, const char *name,
                                    const struct ps_error *reason)
{
    static const char more[] = ", ...";
    size_t used = strlen(search->damaged);
    PS_ASSERT(used < sizeof search->damaged);
    PS_ASSERT((used > 0) == (search->damaged_count > 0));
    /* A list that ends in a full stop has had its "...". */
    bool listed = search->damaged_count == 0 || search->damaged[used - 1] != '.';
    size_t room = sizeof search->damaged - used;
    if (listed && strlen(name) + 2 + sizeof more <= room)
        snprintf(search->damaged + used, room, "%s%s", used > 0 ? ", " : "", name);
    else if (listed)
        snprintf(search->damaged + used, room, "%s", more);
    search->damaged_count++;
    PS_LOG(search->recovery->log, PS_LOG_ERROR, "loader", "checkpoint is not usable",
           PS_FIELD_TEXT("name", name), PS_FIELD_ERROR(reason));
}

/* A file that cannot be renamed stays, which costs the next recovery another try of it and nothing
 * else: this one goes on. */
void ps_recovery_search_put_aside(const struct ps_recovery_search *search)
{
    PS_ASSERT(search->fates != NULL || search->catalog.count == 0);
    static const char *const endings[] = {
        [PS_FATE_NONE] = "", [PS_FATE_DAMAGED] = DAMAGED, [PS_FATE_FORMER] = ".stale"};
    const struct ps_recovery *recovery = search->recovery;
    for (size_t i = 0; i < search->catalog.count; i++) {
        /* It was not tried, or it was the one that is served now. */
        if (search->fates[i] == PS_FATE_NONE)
            continue;
        char from[1280];
        char to[1300];
        struct ps_error reason = {0};
        snprintf(from, sizeof from, "%.1024s/%s", recovery->folder,
                 search->catalog.entries[i].name);
        snprintf(to, sizeof to, "%s%s", from, endings[search->fates[i]]);
        /* Not synced: when the rename is lost with the power, the file is found and tried again.
         * */
        enum ps_status status = recovery->files->rename(recovery->files->self, from, to, &reason);
        if (status != PS_OK && status != PS_ERR_NOT_FOUND)
            PS_LOG(recovery->log, PS_LOG_WARN, "loader", "unusable checkpoint stays in its place",
                   PS_FIELD_TEXT("path", from), PS_FIELD_ERROR(&reason));
    }
}
