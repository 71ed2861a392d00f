/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of base/file.h on the disk that forgets. */
#include "tests/support/memory_disk.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* Counts and shows the operation; PS_ERR_IO when it is one that shall fail. */
static enum ps_status begin(struct memory_files *disk, enum memory_files_operation operation,
                            const char *path, struct ps_error *error)
{
    struct memory_files_knobs *knobs = &disk->knobs;
    knobs->count[operation]++;
    if (knobs->observer != NULL)
        knobs->observer(knobs->observer_context, operation, path);
    if (operation == MEMORY_CLOSE ||
        (knobs->fail_mask != 0 && (knobs->fail_mask & (1u << operation)) == 0))
        return PS_OK;
    int64_t number = knobs->seen++;
    if (number == knobs->fail_at || (knobs->fail_from >= 0 && number >= knobs->fail_from))
        return ps_fail(error, PS_ERR_IO, "%s %s: Input/output error", memory_files_word(operation),
                       path);
    return PS_OK;
}

static enum ps_status find_handle(struct memory_files *disk, struct ps_file file,
                                  struct memory_handle **handle, struct ps_error *error)
{
    PS_ASSERT(file.handle >= 0 && (size_t)file.handle < disk->handle_count);
    *handle = &disk->handles[file.handle];
    return (*handle)->path != NULL ? PS_OK : ps_fail(error, PS_ERR_IO, "file: lost in a restart");
}

static bool is_for_reading(enum ps_file_mode mode)
{
    return mode == PS_FILE_READ;
}

static bool must_exist(enum ps_file_mode mode)
{
    return is_for_reading(mode) || mode == PS_FILE_REUSE || mode == PS_FILE_REUSE_DIRECT;
}

static enum ps_status memory_open(void *self, const char *path, enum ps_file_mode mode,
                                  struct ps_file *file, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_OPEN, path, error));
    char parent[1024];
    memory_parent_of(path, parent, sizeof parent);
    struct memory_link *link = memory_names_find(&disk->now, path);
    if (link != NULL && (mode == PS_FILE_CREATE_NEW || mode == PS_FILE_CREATE_DIRECT))
        return ps_fail(error, PS_ERR_EXISTS, "open %s: File exists", path);
    if (link == NULL && (must_exist(mode) || !memory_disk_has_folder(disk, parent)))
        return ps_fail(error, PS_ERR_NOT_FOUND, "open %s: No such file or directory", path);

    struct memory_inode *inode = link != NULL ? link->inode : memory_inode_create();
    if (link == NULL) {
        memory_names_set(&disk->now, path, inode);
        memory_disk_note_change(disk, NULL, path, inode);
        memory_inode_release(inode);
    }
    disk->handles = memory_grown(disk->handles, disk->handle_count, &disk->handle_capacity,
                                 sizeof *disk->handles);
    disk->handles[disk->handle_count] =
        (struct memory_handle){.path = memory_copied(path), .inode = inode, .mode = mode};
    inode->references++;
    file->handle = (int64_t)disk->handle_count++;
    return PS_OK;
}

/* Bytes that can be written at `place`: those that are there are written over, and what is free on
 * the disk comes behind them. What is left out before `place` counts, as if it had been written. */
static size_t room_at(const struct memory_files *disk, const struct memory_inode *inode,
                      size_t place)
{
    if (disk->knobs.bytes_max == 0)
        return SIZE_MAX;
    uint64_t held = memory_files_bytes(disk);
    uint64_t room = disk->knobs.bytes_max > held ? disk->knobs.bytes_max - held : 0;
    size_t end = inode->size + (size_t)room;
    return end > place ? end - place : 0;
}

/* A write that fails has left any part of its bytes, and one for which there is no room as many as
 * went in. Returns how many are in the file. */
static size_t write_at(struct memory_files *disk, struct memory_handle *handle, size_t place,
                       struct ps_bytes bytes, enum ps_status *status, struct ps_error *error)
{
    *status = begin(disk, MEMORY_WRITE, handle->path, error);
    size_t part = bytes.size;
    if (*status != PS_OK)
        part = (size_t)ps_random_below(&disk->random, bytes.size + 1);
    size_t room = room_at(disk, handle->inode, place);
    if (*status == PS_OK && part > room) {
        part = room;
        *status = ps_fail(error, PS_ERR_IO, "write %s: No space left on device", handle->path);
    }
    memory_inode_write(handle->inode, place, bytes.data, part);
    disk->knobs.bytes_written += part;
    return part;
}

static enum ps_status memory_write(void *self, struct ps_file file, struct ps_bytes bytes,
                                   struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_ASSERT(!is_for_reading(handle->mode));
    enum ps_status status = PS_OK;
    size_t place = handle->mode == PS_FILE_APPEND ? handle->inode->size : handle->place;
    handle->place = place + write_at(disk, handle, place, bytes, &status, error);
    return status;
}

static enum ps_status memory_write_view(void *self, struct ps_file file, struct ps_view view,
                                        struct ps_error *error)
{
    for (size_t i = 0; i < view.piece_count; i++)
        PS_TRY(memory_write(self, file, view.pieces[i], error));
    return PS_OK;
}

static enum ps_status memory_write_over(void *self, struct ps_file file, uint64_t offset,
                                        struct ps_bytes bytes, struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_ASSERT(!is_for_reading(handle->mode));
    enum ps_status status = PS_OK;
    (void)write_at(disk, handle, (size_t)offset, bytes, &status, error);
    return status;
}

static enum ps_status memory_read(void *self, struct ps_file file, uint64_t offset,
                                  void *destination, size_t size, size_t *got,
                                  struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_TRY(begin(disk, MEMORY_READ, handle->path, error));
    uint64_t left = offset < handle->inode->size ? handle->inode->size - offset : 0;
    size_t part = left < size ? (size_t)left : size;
    if (part > 0)
        memcpy(destination, handle->inode->content + offset, part);
    disk->knobs.bytes_read += part;
    *got = part;
    return PS_OK;
}

static void memory_forget(void *self, struct ps_file file, uint64_t offset, uint64_t size)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    if (find_handle(disk, file, &handle, NULL) != PS_OK)
        return;
    PS_ASSERT(size <= handle->inode->size && offset <= handle->inode->size - size);
    disk->knobs.bytes_forgotten += size;
}

static enum ps_status memory_size(void *self, struct ps_file file, uint64_t *size,
                                  struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_TRY(begin(disk, MEMORY_SIZE, handle->path, error));
    *size = handle->inode->size;
    return PS_OK;
}

static enum ps_status memory_cut(void *self, struct ps_file file, uint64_t size,
                                 struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_ASSERT(!is_for_reading(handle->mode) && size <= handle->inode->size);
    PS_TRY(begin(disk, MEMORY_WRITE, handle->path, error));
    memory_inode_cut(handle->inode, (size_t)size);
    return PS_OK;
}

static bool memory_is_alone(void *self, struct ps_file file)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    if (find_handle(disk, file, &handle, NULL) != PS_OK)
        return false;
    size_t open = 0;
    for (size_t i = 0; i < disk->handle_count; i++)
        open += disk->handles[i].path != NULL && disk->handles[i].inode == handle->inode;
    return open == 1;
}

static enum ps_status memory_sync(void *self, struct ps_file file, struct ps_error *error)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    enum ps_status status = begin(disk, MEMORY_SYNC, handle->path, error);
    if (status != PS_OK)
        handle->inode->poisoned = true;
    if (!handle->inode->poisoned)
        memory_inode_settle(handle->inode);
    return status;
}

static void memory_close(void *self, struct ps_file file)
{
    struct memory_files *disk = self;
    struct memory_handle *handle = NULL;
    if (find_handle(disk, file, &handle, NULL) != PS_OK)
        return;
    (void)begin(disk, MEMORY_CLOSE, handle->path, NULL);
    free(handle->path);
    handle->path = NULL;
    memory_inode_release(handle->inode);
}

static enum ps_status memory_rename(void *self, const char *from, const char *to,
                                    struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_RENAME, to, error));
    char parent[1024];
    memory_parent_of(to, parent, sizeof parent);
    struct memory_link *link = memory_names_find(&disk->now, from);
    if (link == NULL || !memory_disk_has_folder(disk, parent))
        return ps_fail(error, PS_ERR_NOT_FOUND, "rename to %s: No such file or directory", to);
    struct memory_inode *inode = link->inode; /* The change that is noted keeps it alive. */
    memory_disk_note_change(disk, from, to, inode);
    memory_names_remove(&disk->now, from);
    memory_names_set(&disk->now, to, inode);
    return PS_OK;
}

static enum ps_status memory_remove(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_REMOVE, path, error));
    if (memory_names_find(&disk->now, path) == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "remove %s: No such file or directory", path);
    memory_disk_note_change(disk, path, NULL, NULL);
    memory_names_remove(&disk->now, path);
    return PS_OK;
}

static enum ps_status memory_sync_folder(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_SYNC_FOLDER, path, error));
    if (!memory_disk_has_folder(disk, path))
        return ps_fail(error, PS_ERR_NOT_FOUND, "open folder %s: No such file or directory", path);
    memory_disk_settle_names(disk, path);
    return PS_OK;
}

static enum ps_status memory_make_folder(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_MAKE_FOLDER, path, error));
    memory_disk_add_folder(disk, path);
    return PS_OK;
}

static enum ps_status memory_list(void *self, const char *path, ps_file_entry_fn entry,
                                  void *context, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_LIST, path, error));
    if (!memory_disk_has_folder(disk, path))
        return ps_fail(error, PS_ERR_NOT_FOUND, "open folder %s: No such file or directory", path);
    for (size_t i = 0; i < disk->now.count; i++) {
        const char *file = disk->now.links[i].path;
        char parent[1024];
        memory_parent_of(file, parent, sizeof parent);
        if (memory_same_folder(parent, path))
            entry(context, strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file);
    }
    return PS_OK;
}

static bool memory_can_go_direct(void *self, const char *folder)
{
    (void)self;
    (void)folder;
    return true;
}

const struct ps_files memory_disk_calls = {
    .open = memory_open,
    .write = memory_write,
    .write_view = memory_write_view,
    .write_over = memory_write_over,
    .read = memory_read,
    .forget = memory_forget,
    .size = memory_size,
    .cut = memory_cut,
    .is_alone = memory_is_alone,
    .sync = memory_sync,
    .close = memory_close,
    .rename = memory_rename,
    .remove = memory_remove,
    .sync_folder = memory_sync_folder,
    .make_folder = memory_make_folder,
    .list = memory_list,
    .can_go_direct = memory_can_go_direct,
};
