/* SPDX-License-Identifier: Apache-2.0 */
/* publish: an operator says that a server is to go on from what the folder holds. A server starts
 * only from the checkpoint that the store names, or from a journal that leads there. When files
 * were lost or restored from a backup, the store names something that is gone, and the server
 * refuses to start rather than to begin from less. This command is how a person overrides that: it
 * loads what the folder holds in the way a server does, says how many acknowledged pushes are given
 * up by it, and then changes the pointer, in a transaction that demands that no server owns the
 * shard. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/checkpoint_name.h"
#include "checkpoint/checksum.h"
#include "checkpoint/journal_segments.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/publication.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>

/* As much as is summed at a time. */
#define PART_BYTES ((size_t)1 << 20)

static enum ps_status publish(const struct psckpt *tool, const struct shard_folders *folders,
                              struct publication *publication, struct ps_error *error);
static enum ps_status recover(const struct psckpt *tool, const struct shard_folder *folder,
                              struct recovery *recovery, struct ps_error *error);
static enum ps_status find_place(const struct psckpt *tool, const struct shard_folder *folder,
                                 const struct recovery *recovery, struct ps_checkpoint_place *place,
                                 struct ps_error *error);
static enum ps_status sum_file(const struct psckpt *tool, struct ps_checkpoint_place *place,
                               struct ps_error *error);
static enum ps_status find_journal(const struct psckpt *tool, const char *folder,
                                   struct ps_checkpoint_place *place, struct ps_error *error);

/* Without a store there is nothing to publish to; that is said before hours of loading. Nothing in
 * the folder changes but a note of what is given up. */
enum ps_status psckpt_publish(const struct psckpt *tool, struct ps_error *error)
{
    struct shard_folders folders = {0};
    struct publication publication = {0};
    const char *path = tool->arguments[0];
    enum ps_status status = shard_folders_init(&folders, &tool->box, path, error);
    if (status == PS_OK)
        status = shard_folders_choose(&folders, tool->options.shard, error);
    if (status == PS_OK)
        status = publication_open(&publication, tool, path, NULL, error);
    if (status == PS_OK)
        status = publication_needs_store(&publication, path, error);
    if (status == PS_OK)
        status = publish(tool, &folders, &publication, error);
    publication_close(&publication);
    shard_folders_fini(&folders);
    return status;
}

/* All shards are loaded and planned before the first pointer is changed: a job half of whose shards
 * went back would be inconsistent in a way that nobody can see later. The position that a server
 * will come to is known exactly, because the same replay was just done; it is what `given_up` is
 * counted from. */
static enum ps_status publish(const struct psckpt *tool, const struct shard_folders *folders,
                              struct publication *publication, struct ps_error *error)
{
    struct state_set set;
    struct ps_checkpoint_place *places =
        ps_zeroed_array(tool->box.memory, folders->count, sizeof *places);
    if (places == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu shards", folders->count);
    enum ps_status status = state_set_make(&set, tool->box.memory, folders->count, error);
    for (size_t i = 0; i < folders->count && status == PS_OK; i++) {
        struct recovery recovery = {0};
        status = recover(tool, &folders->rows[i], &recovery, error);
        if (status == PS_OK)
            status = find_place(tool, &folders->rows[i], &recovery, &places[i], error);
        /* The set owns the state even after a failure, so that one place releases all of them. */
        set.states[i] = recovery.state;
    }
    if (status == PS_OK)
        status = publication_plan(publication, &set, folders, error);
    for (size_t i = 0; i < folders->count && status == PS_OK; i++)
        pointer_change_set(&publication->changes[i], &places[i], set.states[i].facts.position);
    if (status == PS_OK)
        status = publication_make(publication, tool, true, error);
    state_set_fini(&set);
    ps_release(tool->box.memory, places);
    return status;
}

/* A server refuses a folder with damage in it, whatever the pointer says, so publishing one would
 * only move the failure to the next start. Repair is named, since it is the way on. All other
 * failures keep their own words: a folder without any checkpoint, a version that is too new. */
static enum ps_status recover(const struct psckpt *tool, const struct shard_folder *folder,
                              struct recovery *recovery, struct ps_error *error)
{
    const struct recovery_wish wish = {.box = &tool->box, .to = RECOVERY_TO_END, .journal = true};
    struct ps_error why = {0};
    enum ps_status status = recovery_load(recovery, &wish, folder->path, &why);
    if (status == PS_OK && recovery->omission_count > 0)
        status = ps_fail(&why, PS_ERR_CORRUPT, "%.100s: %.120s", recovery->omissions[0].what,
                         recovery->omissions[0].why);
    if (status != PS_OK && status != PS_ERR_CORRUPT)
        return ps_fail(error, status, "%s", why.text);
    if (status == PS_ERR_CORRUPT)
        /* Where not one checkpoint was loaded repair would refuse as well. */
        return ps_fail(error, status, "%.160s: psckpt %s", why.text,
                       recovery->checkpoint[0] != '\0'
                           ? "repair --in-place goes back before that"
                           : "salvage takes every tensor that is whole");
    return PS_OK;
}

/* The pointer holds what a server checks before it loads: path, name, size and checksum of the
 * file. The folder's name must agree with the shard that the checkpoint says it is, because a
 * folder copied to a wrong name would make two servers serve one shard and none the other. Epoch,
 * position and uuid come from the file's name, which is how a server finds it again. */
static enum ps_status find_place(const struct psckpt *tool, const struct shard_folder *folder,
                                 const struct recovery *recovery, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = &recovery->state.facts;
    char path[sizeof place->path];
    char base[37];
    PS_TRY(path_write(path, sizeof path, error, folder->path, "%s/%s", folder->path,
                      recovery->checkpoint));
    PS_TRY(psckpt_from_root(path, place->path, sizeof place->path, error));
    if (folder->is_named && folder->index != facts->index)
        return ps_fail(error, PS_ERR_CORRUPT, "%.150s holds shard %" PRIu32, folder->path,
                       facts->index);
    if (!ps_checkpoint_name_read(recovery->checkpoint, PS_CHECKPOINT_SUFFIX, &place->epoch,
                                 &place->position, place->uuid, base))
        return ps_fail(error, PS_ERR_CORRUPT, "%.120s: no checkpoint has such a name",
                       recovery->checkpoint);
    place->unix_ns = facts->unix_ns;
    /* The server that starts next asks the store whose the folder is. */
    place->history = facts->history;
    PS_TRY(sum_file(tool, place, error));
    return find_journal(tool, folder->path, place, error);
}

/* The checksum is computed anew from the bytes on the disk: a value copied from somewhere else
 * would vouch for a file that nobody has read. The pointer has one CRC-32 over the whole file,
 * while the sums inside it are CRC-32C of single arrays. */
static enum ps_status sum_file(const struct psckpt *tool, struct ps_checkpoint_place *place,
                               struct ps_error *error)
{
    const struct ps_files *files = tool->box.files;
    struct ps_file file;
    size_t got = PART_BYTES;
    uint8_t *part = ps_plain(tool->box.memory, PART_BYTES);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %.150s", place->path);
    enum ps_status status = files->open(files->self, place->path, PS_FILE_READ, &file, error);
    bool is_open = status == PS_OK;
    /* A short read is the end of the file. */
    while (status == PS_OK && got == PART_BYTES) {
        status = files->read(files->self, file, place->bytes, part, PART_BYTES, &got, error);
        if (status == PS_OK)
            place->crc32 = ps_checksum_crc32(place->crc32, (struct ps_bytes){part, got});
        if (status == PS_OK)
            place->bytes += got;
    }
    if (is_open)
        files->close(files->self, file);
    ps_release(tool->box.memory, part);
    return status;
}

/* The pointer says whether a journal belongs to the checkpoint. The server will ask the folder for
 * what is there now: a segment of the same or a later epoch has to be there when the pointer claims
 * one. */
static enum ps_status find_journal(const struct psckpt *tool, const char *folder,
                                   struct ps_checkpoint_place *place, struct ps_error *error)
{
    struct ps_journal_segments segments;
    PS_TRY(ps_journal_segments_init(&segments, tool->box.files, folder, UINT64_MAX,
                                    tool->box.memory, error));
    place->journal = PS_CHECKPOINT_JOURNAL_NONE;
    for (size_t i = 0; i < segments.count; i++)
        if (segments.entries[i].epoch >= place->epoch)
            place->journal = PS_CHECKPOINT_JOURNAL_KEPT;
    ps_journal_segments_fini(&segments);
    return PS_OK;
}
