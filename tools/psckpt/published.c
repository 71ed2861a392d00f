/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and replaces /checkpoints/<i>. The pointer of a shard is the key /checkpoints/<i> of its
 * job: a small JSON document with path, uuid, size and checksum of the checkpoint that a recovery
 * is to begin with. Servers replace it when a checkpoint is durable; psckpt does so only on an
 * operator's order, and never while a server holds the shard. */
#include "tools/psckpt/published.h"

#include "base/clock.h"
#include "checkpoint/catalog.h"
#include "etcd/kv.h"
#include "etcd/kv_file_text.h"
#include "etcd/registry_sets.h"
#include "tools/psckpt/paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest JSON pointer: a path and a few numbers. */
#define POINTER_BYTES_MAX 8192

/* Before it is copied, since of a damaged copy an error would name a file that is removed. */
static enum ps_status check_content(const struct published *published, const char *path,
                                    struct ps_bytes content, struct ps_error *error)
{
    struct ps_kv_table table;
    ps_kv_table_init(&table, published->memory);
    enum ps_status status = ps_kv_file_read_of(path, content, &table, error);
    ps_kv_table_fini(&table);
    return status;
}

/* A store is a file and two locks, which whoever asks holds for a moment and so has to open for
 * writing. The copy has no lock of a living process: a lease in it counts as that of a server which
 * is gone, and one that cannot renew it any more will be. */
static enum ps_status open_copy(struct published *published, const char *store,
                                struct ps_error *error)
{
    const struct ps_files *files = ps_files_real();
    const char *temporary = getenv("TMPDIR");
    char from[4200];
    char to[128];
    uint8_t *content = NULL;
    size_t size = 0;
    /* A longer name than the room is for stands for none. */
    if (temporary == NULL || strlen(temporary) > sizeof published->copy - sizeof "/psckpt-XXXXXX")
        temporary = "/tmp";
    (void)snprintf(published->copy, sizeof published->copy, "%s/psckpt-XXXXXX", temporary);
    if (mkdtemp(published->copy) == NULL) {
        enum ps_status failed =
            ps_fail(error, PS_ERR_IO, "make folder %s: %s", published->copy, strerror(errno));
        published->copy[0] = '\0';
        return failed;
    }
    (void)snprintf(from, sizeof from, "%s/store", store);
    (void)snprintf(to, sizeof to, "%s/store", published->copy);
    enum ps_status status = ps_file_read_all(files, from, PS_KV_FILE_BYTES_MAX, published->memory,
                                             &content, &size, error);
    if (status == PS_OK)
        status = check_content(published, from, (struct ps_bytes){content, size}, error);
    if (status == PS_OK)
        status =
            ps_file_replace(files, published->copy, to, (struct ps_bytes){content, size}, error);
    ps_release(published->memory, content);
    /* A store in which nothing was ever written has no file, and then the copy needs none. */
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    return ps_kv_file_open(published->copy, ps_clock_real(), published->memory, &published->kv,
                           error);
}

/* What the store has made of the copy as well; what stays of it in a folder for temporary files is
 * no harm. */
static void remove_copy(struct published *published)
{
    static const char *const names[] = {"store", "store.lock", "store.alive"};
    char path[128];
    for (size_t i = 0; i < PS_ARRAY_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", published->copy, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(published->copy);
    published->copy[0] = '\0';
}

/* A disk that fails is one that the kernel makes read-only, and a snapshot is often mounted so:
 * then of all times the state has to be had from it. */
static bool is_read_only(const char *folder)
{
    return access(folder, W_OK) != 0 && errno == EROFS;
}

/* A server that runs without etcd keeps the same keys in files below DIR/store. Where there is no
 * such folder there is no store, which is an answer and not a failure. */
static enum ps_status open_folder(struct published *published,
                                  const struct published_options *options, struct ps_error *error)
{
    char store[4096];
    PS_TRY(path_write(store, sizeof store, error, options->folder, "%s/store", options->folder));
    if (!path_is_folder(ps_files_real(), store) && !options->makes_store)
        return PS_OK;
    if (options->only_pointers || (options->only_asks && is_read_only(store)))
        return open_copy(published, store, error);
    return ps_kv_file_open(store, ps_clock_real(), published->memory, &published->kv, error);
}

/* One deadline for everything that is asked through this handle, so that --timeout means the time
 * of the command and not of each call. The password is used for this connection alone and stays in
 * the memory of the options. */
enum ps_status published_open(struct published *published, const struct published_options *options,
                              const struct ps_allocator *memory, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    *published = (struct published){.memory = memory};
    published->deadline_ms = ps_deadline_after(clock, options->timeout_ms);
    if (options->etcd == NULL) {
        enum ps_status status = PS_OK;
        if (options->folder != NULL)
            status = open_folder(published, options, error);
        if (status != PS_OK)
            published_close(published);
        return status;
    }
    const struct ps_kv_etcd_options wish = {
        .endpoints = options->etcd, .access = options->access, .clock = clock, .memory = memory};
    return ps_kv_etcd_open(&wish, &published->kv, error);
}

/* Closing what was never opened is allowed. */
void published_close(struct published *published)
{
    if (published->kv != NULL)
        ps_kv_destroy(published->kv);
    published->kv = NULL;
    if (published->copy[0] != '\0')
        remove_copy(published);
}

/* Some commands go on without a store and only say less. */
bool published_asks(const struct published *published)
{
    return published->kv != NULL;
}

/* A pointer that is not there is an empty text: no checkpoint has that uuid, so none is marked. */
enum ps_status published_uuid(struct published *published, const char *job, uint32_t index,
                              char uuid[37], struct ps_error *error)
{
    struct ps_checkpoint_place place;
    uuid[0] = '\0';
    enum ps_status status = published_place(published, job, index, &place, error);
    if (status == PS_OK)
        memcpy(uuid, place.uuid, sizeof place.uuid);
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

/* The document is read by the same function that servers use; a pointer that it refuses is damage,
 * and a server would refuse it as well. */
enum ps_status published_place(struct published *published, const char *job, uint32_t index,
                               struct ps_checkpoint_place *place, struct ps_error *error)
{
    if (published->kv == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "nobody is asked");
    struct ps_registry registry;
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    struct ps_kv_entries entries = {0};
    PS_TRY(ps_registry_read_checkpoint(&registry, index, published->deadline_ms, &entries, error));
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    enum ps_status status = ps_catalog_pointer_read(json, published->memory, place, error);
    ps_kv_entries_release(&entries);
    return status;
}

/* The note says how far the journal was durable when it was last written; servers write it at a
 * pace, not with every push. A note that cannot be read counts as none: it can only warn of a loss,
 * and without it the pointer still does. */
enum ps_status published_note(struct published *published, const char *job, uint32_t index,
                              struct ps_journal_note *note, struct ps_error *error)
{
    struct ps_registry registry;
    struct ps_kv_entries entries = {0};
    *note = (struct ps_journal_note){0};
    if (published->kv == NULL)
        return PS_OK;
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    enum ps_status status =
        ps_registry_read_note(&registry, index, published->deadline_ms, &entries, error);
    if (status != PS_OK)
        return status == PS_ERR_NOT_FOUND ? PS_OK : status;
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    if (ps_journal_note_read(json, note, NULL) != PS_OK)
        *note = (struct ps_journal_note){0};
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* The watch begins before the look, so that no end of a lease falls between the two. A server that
 * was killed holds its key until the lease runs out; waiting for that here is kinder than a failure
 * that goes away by itself. Only the key of the shard is watched; another server may own others. */
enum ps_status published_wait_free(struct published *published, const char *job, uint32_t index,
                                   struct ps_error *error)
{
    struct ps_registry registry;
    char key[PS_KV_KEY_BYTES_MAX];
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    (void)snprintf(key, sizeof key, "%s/ps/%" PRIu32, registry.job, index);
    bool changed = true;
    PS_TRY(ps_kv_watch_open(published->kv, key, 0, published->deadline_ms, error));
    while (changed) {
        struct ps_kv_entries entries = {0};
        PS_TRY(ps_kv_read(published->kv, key, false, published->deadline_ms, &entries, error));
        size_t count = entries.count;
        ps_kv_entries_release(&entries);
        if (count == 0)
            return PS_OK;
        PS_TRY(ps_kv_watch_wait(published->kv, published->deadline_ms, &changed, error));
    }
    return ps_fail(error, PS_ERR_UNAVAILABLE,
                   "a server owns shard %" PRIu32 " (%s is there): stop it first. The key of one "
                   "that was killed goes with its lease: --timeout waits for it",
                   index, key);
}

/* The transaction of the registry demands that no server owns the shard at this instant, whatever
 * was found a moment ago: a server that started in between has loaded the old state and would go on
 * to write over the new pointer. */
enum ps_status published_replace(struct published *published, const char *job, uint32_t index,
                                 const struct ps_checkpoint_place *place, struct ps_error *error)
{
    struct ps_registry registry;
    struct ps_buffer json;
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    ps_buffer_init(&json, published->memory, POINTER_BYTES_MAX);
    ps_catalog_pointer_write(place, &json);
    enum ps_status status = ps_buffer_status(&json, error);
    if (status == PS_OK)
        status = ps_registry_replace_checkpoint(
            &registry, index, (struct ps_bytes){(const uint8_t *)json.text, json.size},
            published->deadline_ms, error);
    ps_buffer_fini(&json);
    /* To the operator both mean the same: a server is running. */
    return status == PS_ERR_EXISTS ? PS_ERR_UNAVAILABLE : status;
}

/* The pointers of a whole set. A server that owns one of the shards keeps all of them as they are.
 * One document behind the other in one buffer: the pointers borrow from it, and it must not move
 * meanwhile, so that they are made when all are written. */
enum ps_status published_restore(struct published *published, const char *job, const char *set,
                                 const struct ps_checkpoint_place *places, size_t count,
                                 struct ps_error *error)
{
    struct ps_registry registry;
    struct ps_buffer json;
    struct ps_set_pointer pointers[PS_SET_RESTORE_MAX];
    /* Where each document ends in the buffer. */
    size_t ends[PS_SET_RESTORE_MAX] = {0};
    if (count > PS_SET_RESTORE_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "a set of %zu shards: %d at most can go back at once", count,
                       PS_SET_RESTORE_MAX);
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    ps_buffer_init(&json, published->memory, POINTER_BYTES_MAX * PS_SET_RESTORE_MAX);
    /* The i-th place is the i-th shard's. */
    for (size_t i = 0; i < count; i++) {
        ps_catalog_pointer_write(&places[i], &json);
        ends[i] = json.size;
    }
    enum ps_status status = ps_buffer_status(&json, error);
    for (size_t i = 0; i < count && status == PS_OK; i++) {
        size_t begin = i > 0 ? ends[i - 1] : 0;
        pointers[i] = (struct ps_set_pointer){
            (uint32_t)i, {(const uint8_t *)json.text + begin, ends[i] - begin}};
    }
    if (status == PS_OK)
        status =
            ps_registry_restore_set(&registry, set, pointers, count, published->deadline_ms, error);
    ps_buffer_fini(&json);
    return status == PS_ERR_EXISTS ? PS_ERR_UNAVAILABLE : status;
}
