/* SPDX-License-Identifier: Apache-2.0 */
/* The file system that fails on demand. */
#include "tests/support/fault_files.h"

static bool failing(struct fault_files *fault, enum fault_call call)
{
    if (fault->fired && fault->stays_down)
        return true;
    if ((fault->calls & (uint32_t)call) == 0)
        return false;
    if (fault->seen++ != fault->fail_at)
        return false;
    fault->fired = true;
    return true;
}

static enum ps_status injected(struct ps_error *error, const char *verb, const char *path)
{
    return ps_fail(error, PS_ERR_IO, "injected: %s %s", verb, path);
}

static enum ps_status fault_open(void *self, const char *path, enum ps_file_mode mode,
                                 struct ps_file *file, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_OPEN))
        return injected(error, "open", path);
    PS_TRY(fault->under->open(fault->under->self, path, mode, file, error));
    fault->open++;
    return PS_OK;
}

static enum ps_status fault_write(void *self, struct ps_file file, struct ps_bytes bytes,
                                  struct ps_error *error)
{
    struct fault_files *fault = self;
    bool was_down = fault->fired && fault->stays_down;
    if (!failing(fault, FAULT_WRITE))
        return fault->under->write(fault->under->self, file, bytes, error);
    if (fault->tears && !was_down) {
        bytes.size /= 2;
        (void)fault->under->write(fault->under->self, file, bytes, NULL);
    }
    return injected(error, "write", "file");
}

/* Piece by piece: each may be the one that fails. */
static enum ps_status fault_write_view(void *self, struct ps_file file, struct ps_view view,
                                       struct ps_error *error)
{
    for (size_t i = 0; i < view.piece_count; i++)
        PS_TRY(fault_write(self, file, view.pieces[i], error));
    return PS_OK;
}

static enum ps_status fault_write_over(void *self, struct ps_file file, uint64_t offset,
                                       struct ps_bytes bytes, struct ps_error *error)
{
    struct fault_files *fault = self;
    bool was_down = fault->fired && fault->stays_down;
    if (!failing(fault, FAULT_WRITE))
        return fault->under->write_over(fault->under->self, file, offset, bytes, error);
    if (fault->tears && !was_down) {
        bytes.size /= 2;
        (void)fault->under->write_over(fault->under->self, file, offset, bytes, NULL);
    }
    return injected(error, "write", "file");
}

static enum ps_status fault_read(void *self, struct ps_file file, uint64_t offset,
                                 void *destination, size_t size, size_t *got,
                                 struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_READ))
        return injected(error, "read", "file");
    return fault->under->read(fault->under->self, file, offset, destination, size, got, error);
}

static void fault_forget(void *self, struct ps_file file, uint64_t offset, uint64_t size)
{
    struct fault_files *fault = self;
    fault->under->forget(fault->under->self, file, offset, size);
}

static enum ps_status fault_size(void *self, struct ps_file file, uint64_t *size,
                                 struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_SIZE))
        return injected(error, "stat", "file");
    return fault->under->size(fault->under->self, file, size, error);
}

static enum ps_status fault_cut(void *self, struct ps_file file, uint64_t size,
                                struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_WRITE))
        return injected(error, "cut", "file");
    return fault->under->cut(fault->under->self, file, size, error);
}

static bool fault_is_alone(void *self, struct ps_file file)
{
    struct fault_files *fault = self;
    return fault->under->is_alone(fault->under->self, file);
}

static enum ps_status fault_sync(void *self, struct ps_file file, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_SYNC))
        return injected(error, "sync", "file");
    return fault->under->sync(fault->under->self, file, error);
}

static void fault_close(void *self, struct ps_file file)
{
    struct fault_files *fault = self;
    fault->open--;
    fault->under->close(fault->under->self, file);
}

static enum ps_status fault_rename(void *self, const char *from, const char *to,
                                   struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_RENAME))
        return injected(error, "rename to", to);
    return fault->under->rename(fault->under->self, from, to, error);
}

static enum ps_status fault_remove(void *self, const char *path, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_REMOVE))
        return injected(error, "remove", path);
    return fault->under->remove(fault->under->self, path, error);
}

static enum ps_status fault_sync_folder(void *self, const char *path, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_SYNC_FOLDER))
        return injected(error, "sync folder", path);
    return fault->under->sync_folder(fault->under->self, path, error);
}

static enum ps_status fault_make_folder(void *self, const char *path, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_MAKE_FOLDER))
        return injected(error, "make folder", path);
    return fault->under->make_folder(fault->under->self, path, error);
}

static enum ps_status fault_list(void *self, const char *path, ps_file_entry_fn entry,
                                 void *context, struct ps_error *error)
{
    struct fault_files *fault = self;
    if (failing(fault, FAULT_LIST))
        return injected(error, "list", path);
    return fault->under->list(fault->under->self, path, entry, context, error);
}

static bool fault_can_go_direct(void *self, const char *folder)
{
    struct fault_files *fault = self;
    return fault->under->can_go_direct(fault->under->self, folder);
}

struct ps_files fault_files_files(struct fault_files *fault)
{
    return (struct ps_files){
        .open = fault_open,
        .write = fault_write,
        .write_view = fault_write_view,
        .write_over = fault_write_over,
        .read = fault_read,
        .forget = fault_forget,
        .size = fault_size,
        .cut = fault_cut,
        .is_alone = fault_is_alone,
        .sync = fault_sync,
        .close = fault_close,
        .rename = fault_rename,
        .remove = fault_remove,
        .sync_folder = fault_sync_folder,
        .make_folder = fault_make_folder,
        .list = fault_list,
        .can_go_direct = fault_can_go_direct,
        .self = fault,
    };
}
