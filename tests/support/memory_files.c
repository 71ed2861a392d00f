/* The disk that forgets what was not synced. */
#include "tests/support/memory_files.h"

#include "base/assert.h"
#include "base/random.h"
#include "tests/support/memory_names.h"

#include <stdlib.h>
#include <string.h>

/* A change of names that no sync_folder has made durable. `from` is gone, `to` is `inode`; either
 * may be NULL. */
struct change {
    char *from;
    char *to;
    struct memory_inode *inode;
};

struct handle {
    char *path; /* NULL: closed, or lost in a crash */
    struct memory_inode *inode;
    enum ps_file_mode mode;
};

struct memory_files {
    struct ps_files files;
    struct memory_files_knobs knobs;
    struct ps_random random;
    struct memory_names now;
    struct memory_names durable;
    struct change *changes;
    size_t change_count;
    size_t change_capacity;
    struct handle *handles; /* the number of a handle is its index, never used twice */
    size_t handle_count;
    size_t handle_capacity;
    char **folders;
    size_t folder_count;
    size_t folder_capacity;
};

static void change_record(struct memory_files *disk, const char *from, const char *to,
                          struct memory_inode *inode);
static void change_apply(const struct change *change, struct memory_names *names);
static void change_fini(struct change *change);
static void handles_drop(struct memory_files *disk);
static void content_settle(struct memory_files *disk, struct memory_inode *inode,
                           enum memory_crash mode);
static bool folder_exists(const struct memory_files *disk, const char *path);
static void folder_add(struct memory_files *disk, const char *path);
static const struct ps_files interface_of_memory;

struct memory_files *memory_files_create(uint64_t seed)
{
    struct memory_files *disk = calloc(1, sizeof *disk);
    PS_ASSERT(disk != NULL);
    disk->files = interface_of_memory;
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

/* Decides what a file holds after a crash: its synced bytes, and of the others a prefix, which the
 * disk may also have left as zeros. */
static void content_settle(struct memory_files *disk, struct memory_inode *inode,
                           enum memory_crash mode)
{
    size_t doubtful = inode->size - inode->synced;
    size_t kept = 0;
    if (mode == MEMORY_CRASH_KEEPS_ALL)
        kept = doubtful;
    if (mode == MEMORY_CRASH_SEEDED && doubtful > 0) {
        kept = (size_t)ps_random_below(&disk->random, doubtful + 1);
        if (ps_random_below(&disk->random, 4) == 0)
            memset(inode->content + inode->synced, 0, kept);
    }
    inode->size = inode->synced + kept;
    inode->synced = inode->size;
    inode->poisoned = false;
}

void memory_files_put(struct memory_files *disk, const char *path, struct ps_bytes content)
{
    char parent[1024];
    memory_parent_of(path, parent, sizeof parent);
    folder_add(disk, parent);
    struct memory_inode *inode = memory_inode_create();
    memory_inode_append(inode, content.data, content.size);
    inode->synced = inode->size;
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
    PS_ASSERT(bit / 8 < link->inode->size);
    link->inode->content[bit / 8] ^= (uint8_t)(1u << (bit % 8));
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

static void change_record(struct memory_files *disk, const char *from, const char *to,
                          struct memory_inode *inode)
{
    disk->changes = memory_grown(disk->changes, disk->change_count, &disk->change_capacity,
                                 sizeof *disk->changes);
    disk->changes[disk->change_count++] =
        (struct change){memory_copied(from), memory_copied(to), inode};
    if (inode != NULL)
        inode->references++;
}

static void change_apply(const struct change *change, struct memory_names *names)
{
    if (change->from != NULL)
        memory_names_remove(names, change->from);
    if (change->to != NULL)
        memory_names_set(names, change->to, change->inode);
}

static void change_fini(struct change *change)
{
    free(change->from);
    free(change->to);
    memory_inode_release(change->inode);
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

static bool folder_exists(const struct memory_files *disk, const char *path)
{
    if (memory_same_folder(path, ".") || memory_same_folder(path, "/"))
        return true;
    for (size_t i = 0; i < disk->folder_count; i++) {
        if (memory_same_folder(disk->folders[i], path))
            return true;
    }
    return false;
}

static void folder_add(struct memory_files *disk, const char *path)
{
    if (folder_exists(disk, path))
        return;
    char parent[1024];
    memory_parent_of(path, parent, sizeof parent);
    folder_add(disk, parent);
    disk->folders = memory_grown(disk->folders, disk->folder_count, &disk->folder_capacity,
                                 sizeof *disk->folders);
    disk->folders[disk->folder_count++] = memory_copied(path);
}

/* ---- The interface ---- */

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
                                  struct handle **handle, struct ps_error *error)
{
    PS_ASSERT(file.handle >= 0 && (size_t)file.handle < disk->handle_count);
    *handle = &disk->handles[file.handle];
    return (*handle)->path != NULL ? PS_OK : ps_fail(error, PS_ERR_IO, "file: lost in a restart");
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
    if (link == NULL && (mode == PS_FILE_READ || !folder_exists(disk, parent)))
        return ps_fail(error, PS_ERR_NOT_FOUND, "open %s: No such file or directory", path);

    struct memory_inode *inode = link != NULL ? link->inode : memory_inode_create();
    if (link == NULL) {
        memory_names_set(&disk->now, path, inode);
        change_record(disk, NULL, path, inode);
        memory_inode_release(inode);
    }
    disk->handles = memory_grown(disk->handles, disk->handle_count, &disk->handle_capacity,
                                 sizeof *disk->handles);
    disk->handles[disk->handle_count] = (struct handle){memory_copied(path), inode, mode};
    inode->references++;
    file->handle = (int64_t)disk->handle_count++;
    return PS_OK;
}

static enum ps_status memory_write(void *self, struct ps_file file, struct ps_bytes bytes,
                                   struct ps_error *error)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_ASSERT(handle->mode != PS_FILE_READ);
    enum ps_status status = begin(disk, MEMORY_WRITE, handle->path, error);
    size_t part = bytes.size;
    if (status != PS_OK)
        part = (size_t)ps_random_below(&disk->random, bytes.size + 1);
    uint64_t held = memory_files_bytes(disk);
    uint64_t room = disk->knobs.bytes_max > held ? disk->knobs.bytes_max - held : 0;
    if (status == PS_OK && disk->knobs.bytes_max != 0 && part > room) {
        part = (size_t)room;
        status = ps_fail(error, PS_ERR_IO, "write %s: No space left on device", handle->path);
    }
    memory_inode_append(handle->inode, bytes.data, part);
    disk->knobs.bytes_written += part;
    return status;
}

static enum ps_status memory_write_view(void *self, struct ps_file file, struct ps_view view,
                                        struct ps_error *error)
{
    for (size_t i = 0; i < view.piece_count; i++)
        PS_TRY(memory_write(self, file, view.pieces[i], error));
    return PS_OK;
}

/* Only over what was never synced, so that a crash leaves a beginning of the new content. */
static enum ps_status memory_write_over(void *self, struct ps_file file, uint64_t offset,
                                        struct ps_bytes bytes, struct ps_error *error)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_ASSERT(offset >= handle->inode->synced && offset + bytes.size <= handle->inode->size);
    PS_TRY(begin(disk, MEMORY_WRITE, handle->path, error));
    memcpy(handle->inode->content + offset, bytes.data, bytes.size);
    disk->knobs.bytes_written += bytes.size;
    return PS_OK;
}

static enum ps_status memory_read(void *self, struct ps_file file, uint64_t offset,
                                  void *destination, size_t size, size_t *got,
                                  struct ps_error *error)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
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

static enum ps_status memory_size(void *self, struct ps_file file, uint64_t *size,
                                  struct ps_error *error)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    PS_TRY(begin(disk, MEMORY_SIZE, handle->path, error));
    *size = handle->inode->size;
    return PS_OK;
}

static enum ps_status memory_sync(void *self, struct ps_file file, struct ps_error *error)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
    PS_TRY(find_handle(disk, file, &handle, error));
    enum ps_status status = begin(disk, MEMORY_SYNC, handle->path, error);
    if (status != PS_OK)
        handle->inode->poisoned = true;
    if (!handle->inode->poisoned)
        handle->inode->synced = handle->inode->size;
    return status;
}

static void memory_close(void *self, struct ps_file file)
{
    struct memory_files *disk = self;
    struct handle *handle = NULL;
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
    if (link == NULL || !folder_exists(disk, parent))
        return ps_fail(error, PS_ERR_NOT_FOUND, "rename to %s: No such file or directory", to);
    change_record(disk, from, to, link->inode);
    change_apply(&disk->changes[disk->change_count - 1], &disk->now);
    return PS_OK;
}

static enum ps_status memory_remove(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_REMOVE, path, error));
    if (memory_names_find(&disk->now, path) == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "remove %s: No such file or directory", path);
    change_record(disk, path, NULL, NULL);
    memory_names_remove(&disk->now, path);
    return PS_OK;
}

static enum ps_status memory_sync_folder(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_SYNC_FOLDER, path, error));
    if (!folder_exists(disk, path))
        return ps_fail(error, PS_ERR_NOT_FOUND, "open folder %s: No such file or directory", path);
    size_t kept = 0;
    for (size_t i = 0; i < disk->change_count; i++) {
        struct change change = disk->changes[i];
        char parent[1024];
        memory_parent_of(change.to != NULL ? change.to : change.from, parent, sizeof parent);
        if (!memory_same_folder(parent, path)) {
            disk->changes[kept++] = change;
            continue;
        }
        change_apply(&change, &disk->durable);
        change_fini(&change);
    }
    disk->change_count = kept;
    return PS_OK;
}

static enum ps_status memory_make_folder(void *self, const char *path, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_MAKE_FOLDER, path, error));
    folder_add(disk, path);
    return PS_OK;
}

static enum ps_status memory_list(void *self, const char *path, ps_file_entry_fn entry,
                                  void *context, struct ps_error *error)
{
    struct memory_files *disk = self;
    PS_TRY(begin(disk, MEMORY_LIST, path, error));
    if (!folder_exists(disk, path))
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

static const struct ps_files interface_of_memory = {
    .open = memory_open,
    .write = memory_write,
    .write_view = memory_write_view,
    .write_over = memory_write_over,
    .read = memory_read,
    .size = memory_size,
    .sync = memory_sync,
    .close = memory_close,
    .rename = memory_rename,
    .remove = memory_remove,
    .sync_folder = memory_sync_folder,
    .make_folder = memory_make_folder,
    .list = memory_list,
};
