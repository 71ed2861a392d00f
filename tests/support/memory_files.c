/* SPDX-License-Identifier: Apache-2.0 */
/* The disk that forgets what was not synced. */
#include "tests/support/memory_files.h"

#include "base/assert.h"
#include "tests/support/memory_disk.h"

#include <stdlib.h>
#include <string.h>

/* What a disk writes whole or not at all. */
#define SECTOR_BYTES ((size_t)512)

static void change_apply(const struct memory_change *change, struct memory_names *names);
static void change_fini(struct memory_change *change);
static void handles_drop(struct memory_files *disk);
static void content_settle(struct memory_files *disk, struct memory_inode *inode,
                           enum memory_crash mode);
static void sector_lose(struct memory_inode *inode, size_t start);
static size_t sector_end(const struct memory_inode *inode, size_t start);
static bool sector_in_doubt(const struct memory_inode *inode, size_t start);
static void sector_spoil(struct memory_inode *inode, size_t start);

struct memory_files *memory_files_create(uint64_t seed)
{
    struct memory_files *disk = calloc(1, sizeof *disk);
    PS_ASSERT(disk != NULL);
    disk->files = memory_disk_calls;
    disk->files.self = disk;
    disk->knobs.fail_at = -1;
    disk->knobs.fail_from = -1;
    ps_random_init(&disk->random, seed);
    return disk;
}

void memory_files_destroy(struct memory_files *disk)
{
    if (disk == NULL)
        return;
    handles_drop(disk);
    free(disk->handles);
    for (size_t i = 0; i < disk->change_count; i++)
        change_fini(&disk->changes[i]);
    free(disk->changes);
    memory_names_fini(&disk->now);
    memory_names_fini(&disk->durable);
    for (size_t i = 0; i < disk->folder_count; i++)
        free(disk->folders[i]);
    free(disk->folders);
    free(disk);
}

const struct ps_files *memory_files_files(struct memory_files *disk)
{
    return &disk->files;
}

struct memory_files_knobs *memory_files_knobs(struct memory_files *disk)
{
    return &disk->knobs;
}

void memory_files_crash(struct memory_files *disk, enum memory_crash mode)
{
    handles_drop(disk);
    if (mode == MEMORY_CRASH_PROCESS)
        return;
    for (size_t i = 0; i < disk->change_count; i++) {
        bool kept = mode == MEMORY_CRASH_KEEPS_ALL ||
                    (mode == MEMORY_CRASH_SEEDED && ps_random_below(&disk->random, 2) == 1);
        if (kept)
            change_apply(&disk->changes[i], &disk->durable);
        change_fini(&disk->changes[i]);
    }
    disk->change_count = 0;

    for (size_t i = 0; i < disk->durable.count; i++)
        content_settle(disk, disk->durable.links[i].inode, mode);
    memory_names_fini(&disk->now);
    for (size_t i = 0; i < disk->durable.count; i++)
        memory_names_set(&disk->now, disk->durable.links[i].path, disk->durable.links[i].inode);
}

/* Decides what a file holds after a crash: any length between the synced and the present one, and
 * of each sector that is in doubt the old or the new bytes, in any mixture, since a disk writes
 * sectors in the order that it likes. Zeros are the old bytes behind the synced ones. The odds are
 * drawn for each file, so that all, none and any share of its sectors are common; so is how many of
 * them are spoiled, one in two to sixteen. */
static void content_settle(struct memory_files *disk, struct memory_inode *inode,
                           enum memory_crash mode)
{
    if (mode == MEMORY_CRASH_LOSES_ALL)
        inode->size = inode->synced;
    if (mode == MEMORY_CRASH_SEEDED)
        inode->size =
            inode->synced + (size_t)ps_random_below(&disk->random, inode->size - inode->synced + 1);
    uint64_t odds = mode == MEMORY_CRASH_KEEPS_ALL   ? 4
                    : mode == MEMORY_CRASH_LOSES_ALL ? 0
                                                     : ps_random_below(&disk->random, 5);
    uint64_t spoils_one_in = (uint64_t)2 << ps_random_below(&disk->random, 4);
    size_t first = inode->before != NULL ? 0 : inode->synced / SECTOR_BYTES * SECTOR_BYTES;
    for (size_t sector = first; sector < inode->size; sector += SECTOR_BYTES) {
        bool spoils = mode == MEMORY_CRASH_SEEDED && disk->knobs.spoils &&
                      sector_in_doubt(inode, sector) &&
                      ps_random_below(&disk->random, spoils_one_in) == 0;
        if (spoils)
            sector_spoil(inode, sector);
        else if (ps_random_below(&disk->random, 4) >= odds)
            sector_lose(inode, sector);
    }
    memory_inode_settle(inode);
    inode->poisoned = false;
}

static size_t sector_end(const struct memory_inode *inode, size_t start)
{
    return start + SECTOR_BYTES < inode->size ? start + SECTOR_BYTES : inode->size;
}

/* Was anything written to it since the last sync, be it what was there before? */
static bool sector_in_doubt(const struct memory_inode *inode, size_t start)
{
    size_t end = sector_end(inode, start);
    return end > inode->synced ||
           (inode->before != NULL &&
            memcmp(inode->content + start, inode->before + start, end - start) != 0);
}

/* The power went while the disk was writing it: it is neither the old nor the new one. */
static void sector_spoil(struct memory_inode *inode, size_t start)
{
    for (size_t i = start; i < sector_end(inode, start); i++)
        inode->content[i] = (uint8_t)(0xa5 + i * 7);
}

/* Gives the sector at `start` the bytes of the last sync, and zeros where the file had none. */
static void sector_lose(struct memory_inode *inode, size_t start)
{
    size_t end = sector_end(inode, start);
    size_t synced_end = end < inode->synced ? end : inode->synced;
    if (inode->before != NULL && start < synced_end)
        memcpy(inode->content + start, inode->before + start, synced_end - start);
    size_t new_start = start > inode->synced ? start : inode->synced;
    if (new_start < end)
        memset(inode->content + new_start, 0, end - new_start);
}

void memory_files_put(struct memory_files *disk, const char *path, struct ps_bytes content)
{
    char parent[1024];
    memory_parent_of(path, parent, sizeof parent);
    memory_disk_add_folder(disk, parent);
    struct memory_inode *inode = memory_inode_create();
    memory_inode_write(inode, 0, content.data, content.size);
    memory_inode_settle(inode);
    memory_names_set(&disk->now, path, inode);
    memory_names_set(&disk->durable, path, inode);
    memory_inode_release(inode);
}

bool memory_files_get(const struct memory_files *disk, const char *path, struct ps_bytes *content)
{
    const struct memory_link *link = memory_names_find(&disk->now, path);
    if (link == NULL)
        return false;
    *content = (struct ps_bytes){link->inode->content, link->inode->size};
    return true;
}

void memory_files_flip(struct memory_files *disk, const char *path, uint64_t bit)
{
    const struct memory_link *link = memory_names_find(&disk->now, path);
    PS_ASSERT(link != NULL);
    struct memory_inode *inode = link->inode;
    PS_ASSERT(bit / 8 < inode->size);
    inode->content[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    if (inode->before != NULL && bit / 8 < inode->synced)
        inode->before[bit / 8] ^= (uint8_t)(1u << (bit % 8));
}

size_t memory_files_file_count(const struct memory_files *disk)
{
    return disk->now.count;
}

size_t memory_files_open_count(const struct memory_files *disk)
{
    size_t open = 0;
    for (size_t i = 0; i < disk->handle_count; i++)
        open += disk->handles[i].path != NULL;
    return open;
}

const char *memory_files_path(const struct memory_files *disk, size_t i)
{
    PS_ASSERT(i < disk->now.count);
    return disk->now.links[i].path;
}

uint64_t memory_files_bytes(const struct memory_files *disk)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < disk->now.count; i++)
        bytes += disk->now.links[i].inode->size;
    return bytes;
}

const char *memory_files_word(enum memory_files_operation operation)
{
    static const char *const words[] = {
#define ROW(name, word) [name] = word,
        MEMORY_FILES_OPERATIONS(ROW)
#undef ROW
    };
    PS_ASSERT(operation < MEMORY_OPERATION_COUNT);
    return words[operation];
}

/* ---- Changes of names, handles, folders ---- */

void memory_disk_note_change(struct memory_files *disk, const char *from, const char *to,
                             struct memory_inode *inode)
{
    disk->changes = memory_grown(disk->changes, disk->change_count, &disk->change_capacity,
                                 sizeof *disk->changes);
    disk->changes[disk->change_count++] =
        (struct memory_change){memory_copied(from), memory_copied(to), inode};
    if (inode != NULL)
        inode->references++;
}

static void change_apply(const struct memory_change *change, struct memory_names *names)
{
    if (change->from != NULL)
        memory_names_remove(names, change->from);
    if (change->to != NULL)
        memory_names_set(names, change->to, change->inode);
}

static void change_fini(struct memory_change *change)
{
    free(change->from);
    free(change->to);
    memory_inode_release(change->inode);
}

void memory_disk_settle_names(struct memory_files *disk, const char *folder)
{
    size_t kept = 0;
    for (size_t i = 0; i < disk->change_count; i++) {
        struct memory_change change = disk->changes[i];
        char parent[1024];
        memory_parent_of(change.to != NULL ? change.to : change.from, parent, sizeof parent);
        if (!memory_same_folder(parent, folder)) {
            disk->changes[kept++] = change;
            continue;
        }
        change_apply(&change, &disk->durable);
        change_fini(&change);
    }
    disk->change_count = kept;
}

static void handles_drop(struct memory_files *disk)
{
    for (size_t i = 0; i < disk->handle_count; i++) {
        if (disk->handles[i].path == NULL)
            continue;
        free(disk->handles[i].path);
        disk->handles[i].path = NULL;
        memory_inode_release(disk->handles[i].inode);
    }
}

bool memory_disk_has_folder(const struct memory_files *disk, const char *path)
{
    if (memory_same_folder(path, ".") || memory_same_folder(path, "/"))
        return true;
    for (size_t i = 0; i < disk->folder_count; i++) {
        if (memory_same_folder(disk->folders[i], path))
            return true;
    }
    return false;
}

void memory_disk_add_folder(struct memory_files *disk, const char *path)
{
    if (memory_disk_has_folder(disk, path))
        return;
    char parent[1024];
    memory_parent_of(path, parent, sizeof parent);
    memory_disk_add_folder(disk, parent);
    disk->folders = memory_grown(disk->folders, disk->folder_count, &disk->folder_capacity,
                                 sizeof *disk->folders);
    disk->folders[disk->folder_count++] = memory_copied(path);
}
