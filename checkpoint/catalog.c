/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one folder, by their names alone: listing and sweeping open no file, so a
 * damaged checkpoint costs nothing here and is judged by the reader that wants to load it.
 *
 * Sweeping is the only place that removes checkpoints, and follows one rule: a file may go when
 * enough files that a recovery would prefer are there. What makes that hard is the takeover. A
 * former owner that was stopped may wake and write a checkpoint late, with an old epoch and a high
 * position; the names show both, and is_overtaken() decides which of them a recovery would still
 * begin with. */
#include "checkpoint/catalog.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_spare.h"
#include "checkpoint/journal_segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for this many entries at first; it doubles. */
#define FIRST_CAPACITY 16

/* What gathering entries of a folder needs between calls. */
struct gathering {
    struct ps_catalog *catalog;
    const char *suffix;
    size_t capacity;
    bool refused; /* no memory */
};

/* One sweep, with what the folder had when it began. */
struct sweep {
    const struct ps_files *files;       /* borrowed */
    const char *folder;                 /* borrowed */
    const char *published_uuid;         /* borrowed */
    const struct ps_catalog_uuid *kept; /* borrowed */
    size_t kept_count;
    uint64_t own_epoch; /* of which one is kept to be written over; 0: none is */
    struct ps_catalog catalog, leftovers, spares;
    struct ps_journal_segments journal;
    bool *stays; /* owned; of each of the catalog */
    bool has_spare;
    size_t removed;
};

static enum ps_status gather(struct ps_catalog *catalog, const struct ps_files *files,
                             const char *folder, const char *suffix,
                             const struct ps_allocator *memory, struct ps_error *error);
static void gather_one(void *context, const char *name);
static bool make_room(struct gathering *gathering);
static int compare_age(const void *a, const void *b);
static bool is_same_instant(const struct ps_catalog *catalog, size_t i);
static bool is_overtaken(const struct ps_catalog *catalog,
                         const struct ps_journal_segments *journal, size_t i);
static enum ps_status list_all(struct sweep *sweep, const struct ps_allocator *memory,
                               struct ps_error *error);
static enum ps_status remove_spares(struct sweep *sweep, struct ps_error *error);
static enum ps_status remove_old(struct sweep *sweep, struct ps_error *error);
static bool is_kept(const struct sweep *sweep, const struct ps_catalog_entry *entry);
static enum ps_status put_away(struct sweep *sweep, const struct ps_catalog_entry *entry,
                               struct ps_error *error);
static enum ps_status remove_leftovers(struct sweep *sweep, struct ps_error *error);
static enum ps_status remove_file(struct sweep *sweep, const char *name, struct ps_error *error);
static enum ps_status count_gone(struct sweep *sweep, enum ps_status status);
static bool is_whole(const struct ps_catalog_entry *entry);
static void choose(struct sweep *sweep, size_t keep);
static void keep_bases(struct sweep *sweep);

enum ps_status ps_catalog_init(struct ps_catalog *catalog, const struct ps_files *files,
                               const char *folder, const struct ps_allocator *memory,
                               struct ps_error *error)
{
    return gather(catalog, files, folder, PS_CHECKPOINT_SUFFIX, memory, error);
}

void ps_catalog_fini(struct ps_catalog *catalog)
{
    if (catalog == NULL || catalog->memory == NULL)
        return;
    ps_release(catalog->memory, catalog->entries);
    *catalog = (struct ps_catalog){.memory = catalog->memory};
}

/* Collects the names with one suffix and sorts them. A folder that is not there is an empty
 * catalog: a server that starts for the first time is not an error. */
static enum ps_status gather(struct ps_catalog *catalog, const struct ps_files *files,
                             const char *folder, const char *suffix,
                             const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(catalog != NULL && files != NULL && folder != NULL && memory != NULL);
    *catalog = (struct ps_catalog){.memory = memory};
    struct gathering gathering = {.catalog = catalog, .suffix = suffix};
    enum ps_status status = files->list(files->self, folder, gather_one, &gathering, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status == PS_OK && gathering.refused)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "catalog: no memory for %zu entries",
                         gathering.capacity);
    if (status != PS_OK) {
        ps_catalog_fini(catalog);
        return status;
    }
    if (catalog->count > 0)
        qsort(catalog->entries, catalog->count, sizeof *catalog->entries, compare_age);
    return PS_OK;
}

/* Called for each entry of the folder. The callback has no way to fail, so a refused allocation is
 * remembered and reported by gather(): a catalog that silently lacked an entry could have a sweep
 * count wrongly and remove a file too many. */
static void gather_one(void *context, const char *name)
{
    struct gathering *gathering = context;
    struct ps_catalog_entry entry = {0};
    if (!ps_checkpoint_name_read(name, gathering->suffix, &entry.epoch, &entry.position, entry.uuid,
                                 entry.base))
        return;
    if (!make_room(gathering))
        return;
    (void)snprintf(entry.name, sizeof entry.name, "%s", name);
    gathering->catalog->entries[gathering->catalog->count++] = entry;
}

/* Once refused, always refused: a later, luckier allocation would leave a gap in the list. */
static bool make_room(struct gathering *gathering)
{
    struct ps_catalog *catalog = gathering->catalog;
    if (gathering->refused)
        return false;
    if (catalog->count < gathering->capacity)
        return true;
    size_t capacity = gathering->capacity == 0 ? FIRST_CAPACITY : gathering->capacity * 2;
    struct ps_catalog_entry *entries = ps_zeroed_array(catalog->memory, capacity, sizeof *entries);
    gathering->refused = entries == NULL;
    if (entries == NULL)
        return false;
    if (catalog->count > 0)
        memcpy(entries, catalog->entries, catalog->count * sizeof *entries);
    ps_release(catalog->memory, catalog->entries);
    catalog->entries = entries;
    gathering->capacity = capacity;
    return true;
}

/* Newest first: a later owner's before a former's, and of one owner the higher position. Equal ones
 * are ordered by uuid, so that the order, and with it the choice of what goes, is the same at every
 * run. */
static int compare_age(const void *a, const void *b)
{
    const struct ps_catalog_entry *first = a;
    const struct ps_catalog_entry *second = b;
    if (first->epoch != second->epoch)
        return first->epoch > second->epoch ? -1 : 1;
    if (first->position != second->position)
        return first->position > second->position ? -1 : 1;
    return -strcmp(first->uuid, second->uuid);
}

/* For those that know of no sets. What belongs to one only the store says, and not every caller has
 * a store. */
enum ps_status ps_catalog_sweep(const struct ps_files *files, const char *folder, size_t keep,
                                const char *published_uuid, uint64_t own_epoch,
                                const struct ps_allocator *memory, size_t *removed,
                                struct ps_error *error)
{
    return ps_catalog_sweep_but(files, folder, keep, published_uuid, own_epoch, NULL, 0, memory,
                                removed, error);
}

enum ps_status ps_catalog_sweep_but(const struct ps_files *files, const char *folder, size_t keep,
                                    const char *published_uuid, uint64_t own_epoch,
                                    const struct ps_catalog_uuid *kept, size_t kept_count,
                                    const struct ps_allocator *memory, size_t *removed,
                                    struct ps_error *error)
{
    /* Two generations at least: the newest one may turn out to be damaged when it is needed. */
    PS_ASSERT(keep >= 2);
    PS_ASSERT(published_uuid != NULL && removed != NULL);
    struct sweep sweep = {.files = files,
                          .folder = folder,
                          .published_uuid = published_uuid,
                          .kept = kept,
                          .kept_count = kept_count,
                          .own_epoch = own_epoch};
    enum ps_status status = list_all(&sweep, memory, error);
    if (status == PS_OK) {
        choose(&sweep, keep);
        keep_bases(&sweep);
        /* All kinds are tried even if one fails, and the first failure is reported: a file that
         * cannot be removed today must not keep all others from going. Spares first, since the
         * old ones leave another. */
        enum ps_status results[] = {remove_spares(&sweep, error), remove_old(&sweep, error),
                                    remove_leftovers(&sweep, error)};
        for (size_t i = 0; i < 3; i++)
            status = status != PS_OK ? status : results[i];
        *removed = sweep.removed;
    }
    /* The list of segments exists only if everything before it worked. */
    if (sweep.journal.memory != NULL)
        ps_journal_segments_fini(&sweep.journal);
    ps_release(memory, sweep.stays);
    ps_catalog_fini(&sweep.spares);
    ps_catalog_fini(&sweep.leftovers);
    ps_catalog_fini(&sweep.catalog);
    return status;
}

static enum ps_status list_all(struct sweep *sweep, const struct ps_allocator *memory,
                               struct ps_error *error)
{
    const struct ps_files *files = sweep->files;
    const char *folder = sweep->folder;
    PS_TRY(gather(&sweep->catalog, files, folder, PS_CHECKPOINT_SUFFIX, memory, error));
    PS_TRY(gather(&sweep->leftovers, files, folder, PS_CHECKPOINT_TEMPORARY_SUFFIX, memory, error));
    PS_TRY(gather(&sweep->spares, files, folder, PS_CHECKPOINT_SPARE_SUFFIX, memory, error));
    sweep->stays = ps_zeroed_array(memory, sweep->catalog.count, sizeof *sweep->stays);
    if (sweep->stays == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "catalog: no memory for a sweep");
    return ps_journal_segments_init(&sweep->journal, files, folder, UINT64_MAX, memory, error);
}

/* Those that the sweep before has put aside and nobody took since, and those of former owners. Of
 * epochs above the own one nothing is touched: they are a later owner's. What adds to another is a
 * small file and takes no spare, so behind one of these the spare waits for the next whole one. */
static enum ps_status remove_spares(struct sweep *sweep, struct ps_error *error)
{
    enum ps_status result = PS_OK;
    const struct ps_catalog_entry *published =
        ps_catalog_find(&sweep->catalog, sweep->published_uuid);
    bool waits = published != NULL && !is_whole(published);
    for (size_t i = 0; i < sweep->spares.count; i++) {
        const struct ps_catalog_entry *entry = &sweep->spares.entries[i];
        if (entry->epoch > sweep->own_epoch)
            continue;
        /* One of them; a second has been left by a sweep that was broken off. */
        if (waits && !sweep->has_spare && entry->epoch == sweep->own_epoch) {
            sweep->has_spare = true;
            continue;
        }
        enum ps_status status = remove_file(sweep, entry->name, error);
        result = result != PS_OK ? result : status;
    }
    return result;
}

/* Walks from the newest to the oldest and keeps the first `keep` of each of two kinds: those that a
 * recovery could begin with, and those that were overtaken. The kinds are counted apart, since one
 * that was overtaken must not take the place of one that helps; and so are those that add to
 * another, of which behind `keep` whole ones none helps. The published checkpoint stays whatever
 * the counts say: the store names it, and a recovery that does not find it takes it for a loss. */
static void choose(struct sweep *sweep, size_t keep)
{
    /* By whether it adds to another, and by whether it was overtaken. A recovery begins with the
     * first sort of both, which decides when there are enough. */
    size_t counts[2][2] = {{0, 0}, {0, 0}};
    const size_t *kept = &counts[0][0];
    for (size_t i = 0; i < sweep->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &sweep->catalog.entries[i];
        bool overtaken = is_overtaken(&sweep->catalog, &sweep->journal, i);
        size_t *like_it = &counts[is_whole(entry) ? 0 : 1][overtaken ? 1 : 0];
        bool again = is_same_instant(&sweep->catalog, i);
        bool goes = (again || *kept == keep || *like_it == keep) &&
                    strcmp(entry->uuid, sweep->published_uuid) != 0 && !is_kept(sweep, entry);
        /* Also when it stays for another reason: it can be begun with. */
        if (*like_it < keep && !again)
            (*like_it)++;
        sweep->stays[i] = !goes;
    }
}

/* One that adds to another is nothing without it. A base has no base, so once is enough. */
static void keep_bases(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->catalog.count; i++) {
        const struct ps_catalog_entry *entry = &sweep->catalog.entries[i];
        const struct ps_catalog_entry *base = sweep->stays[i] && !is_whole(entry)
                                                  ? ps_catalog_find(&sweep->catalog, entry->base)
                                                  : NULL;
        if (base != NULL && is_whole(base))
            sweep->stays[base - sweep->catalog.entries] = true;
    }
}

/* The newest first: when the program ends in between, what was removed had no base to lose. */
static enum ps_status remove_old(struct sweep *sweep, struct ps_error *error)
{
    enum ps_status result = PS_OK;
    for (size_t i = 0; i < sweep->catalog.count; i++) {
        if (sweep->stays[i])
            continue;
        enum ps_status status = put_away(sweep, &sweep->catalog.entries[i], error);
        result = status != PS_OK ? status : result;
    }
    return result;
}

/* By its name, as everything here is judged: a file that says something else is for the reader to
 * refuse. */
static bool is_whole(const struct ps_catalog_entry *entry)
{
    return entry->base[0] == '\0';
}

/* Of a set: few, so that looking through them for each file costs nothing beside the disk. */
static bool is_kept(const struct sweep *sweep, const struct ps_catalog_entry *entry)
{
    for (size_t i = 0; i < sweep->kept_count; i++)
        if (strcmp(sweep->kept[i].text, entry->uuid) == 0)
            return true;
    return false;
}

/* One of the own epoch becomes a spare, which takes no more room than the next checkpoint will; but
 * not one that adds to another, whose few blocks would take the place of many. */
static enum ps_status put_away(struct sweep *sweep, const struct ps_catalog_entry *entry,
                               struct ps_error *error)
{
    if (sweep->has_spare || sweep->own_epoch == 0 || entry->epoch != sweep->own_epoch ||
        !is_whole(entry))
        return remove_file(sweep, entry->name, error);
    enum ps_status status =
        ps_checkpoint_spare_keep(sweep->files, sweep->folder, entry->name, error);
    sweep->has_spare = status == PS_OK;
    return count_gone(sweep, status);
}

/* An entry before this one is of the same owner and position: the state was written again, because
 * this file was found damaged or was never published. Two of them are not two generations, so the
 * second does not count as one. Only for a whole one one that adds to another is no replacement. */
static bool is_same_instant(const struct ps_catalog *catalog, size_t i)
{
    const struct ps_catalog_entry *entry = &catalog->entries[i];
    for (size_t k = i; k > 0; k--) {
        const struct ps_catalog_entry *newer = &catalog->entries[k - 1];
        if (newer->epoch != entry->epoch || newer->position != entry->position)
            return false;
        if (is_whole(newer) || !is_whole(entry))
            return true;
    }
    return false;
}

/* A checkpoint is overtaken when a later owner began with less or with the same. Either a
 * checkpoint of the later epoch says so, or the begin of its journal, which lies before the place
 * up to which the later owner read when that owner repeats what may not be on the disk. Such a file
 * may have been written late, by a former owner that did not know of the takeover, and then a
 * recovery does not begin with it. It is not worthless in every case, though: an owner that begins
 * and ends without a push overtakes the one before, whose checkpoint is as good. Therefore these
 * are counted apart instead of removed at once. */
static bool is_overtaken(const struct ps_catalog *catalog,
                         const struct ps_journal_segments *journal, size_t i)
{
    const struct ps_catalog_entry *entry = &catalog->entries[i];
    for (size_t k = 0; k < journal->count; k++)
        if (journal->entries[k].epoch > entry->epoch &&
            journal->entries[k].first <= entry->position)
            return true;
    for (size_t k = 0; k < i; k++)
        if (catalog->entries[k].epoch > entry->epoch &&
            catalog->entries[k].position <= entry->position)
            return true;
    return false;
}

/* Only temporary files older than the published checkpoint are leftovers for certain: a newer one
 * may be in the making by the shard's next owner, and removing it would fail that owner's
 * rename. */
static enum ps_status remove_leftovers(struct sweep *sweep, struct ps_error *error)
{
    enum ps_status result = PS_OK;
    const struct ps_catalog_entry *published =
        ps_catalog_find(&sweep->catalog, sweep->published_uuid);
    for (size_t i = 0; i < sweep->leftovers.count && published != NULL; i++) {
        const struct ps_catalog_entry *entry = &sweep->leftovers.entries[i];
        bool older = entry->epoch < published->epoch ||
                     (entry->epoch == published->epoch && entry->position <= published->position);
        if (!older)
            continue;
        enum ps_status status = remove_file(sweep, entry->name, error);
        result = status != PS_OK ? status : result;
    }
    return result;
}

/* Without a sync of the folder: a file that comes back after a crash goes with the next sweep. */
static enum ps_status remove_file(struct sweep *sweep, const char *name, struct ps_error *error)
{
    char path[sizeof((struct ps_checkpoint_place *)NULL)->path];
    int length = snprintf(path, sizeof path, "%s/%s", sweep->folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return ps_fail(error, PS_ERR_IO, "catalog: the folder's path is too long");
    return count_gone(sweep, sweep->files->remove(sweep->files->self, path, error));
}

static enum ps_status count_gone(struct sweep *sweep, enum ps_status status)
{
    /* Somebody was quicker: it is gone, which is what was wanted. */
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return PS_ERR_IO;
    sweep->removed++;
    return PS_OK;
}

/* By the uuid alone: it is what the store's pointer and the file's name have in common. */
const struct ps_catalog_entry *ps_catalog_find(const struct ps_catalog *catalog, const char *uuid)
{
    PS_ASSERT(catalog != NULL && uuid != NULL);
    for (size_t i = 0; i < catalog->count; i++) {
        if (strcmp(catalog->entries[i].uuid, uuid) == 0)
            return &catalog->entries[i];
    }
    return NULL;
}
