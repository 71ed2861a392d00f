/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a folder, for servers of one machine: each call takes a lock, reads the file, does its
 * work in a table, and replaces the file when something changed. The file is small (a few keys per
 * server), so this is quick, and a process that dies at any point leaves a whole file and no lock.
 *
 * Leases end by time, as in etcd, and also at once when their process is gone: the process that was
 * granted a lease holds a lock on one byte of "store.alive" for as long as it lives
 * (kv_file_guard.c), and whoever looks next ends the leases whose byte nobody holds. Watching is
 * inotify on the folder, into which every change renames a new file. */
#include "etcd/kv_table.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "etcd/kv_file_guard.h"
#include "etcd/kv_file_lock.h"
#include "etcd/kv_file_text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024

/* What belongs to one open store. The table and the lock are in use only between `begin` and `end`;
 * between two calls nothing of the file is remembered, since another process may have replaced
 * it. */
struct file_store {
    struct ps_kv base;                 /* first: struct ps_kv points here */
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    char folder[PATH_BYTES];
    char content_path[PATH_BYTES];
    char lock_path[PATH_BYTES];
    char guard_path[PATH_BYTES];
    int interruptions; /* eventfd; -1: none */
    bool watching;
    int replacements; /* inotify on the folder while watching; -1: none */
    int64_t watch_revision;
    char watch_prefix[PS_KV_KEY_BYTES_MAX + 1];
    struct ps_kv_file_guard guard; /* of our leases; it sees the others' */
    struct ps_kv_table table;      /* while a call has the lock */
    struct ps_kv_file_lock lock;
};

static enum ps_status start(struct file_store *store, const char *folder, struct ps_error *error);
static enum ps_status begin(struct file_store *store, uint64_t deadline_ms, struct ps_error *error);
static bool bury_dead(struct file_store *store);
static enum ps_status load(struct file_store *store, struct ps_error *error);
static enum ps_status save(struct file_store *store, struct ps_error *error);
static void end(struct file_store *store);
static enum ps_status file_read(struct ps_kv *kv, const char *key, bool prefix,
                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                struct ps_error *error);
static enum ps_status file_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                  uint64_t deadline_ms, bool *done, int64_t *revision,
                                  struct ps_error *error);
static enum ps_status check_rights(const char *path, int rights, struct ps_error *error);
static enum ps_status file_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error);
static enum ps_status file_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                struct ps_error *error);
static enum ps_status file_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error);
static enum ps_status file_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                      uint64_t deadline_ms, struct ps_error *error);
static enum ps_status file_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                      struct ps_error *error);
static enum ps_status look(struct file_store *store, uint64_t deadline_ms, bool *changed,
                           uint64_t *next_expiry_ms, struct ps_error *error);
static bool wait_for_news(struct file_store *store, uint64_t wait_ms, bool *interrupted);
static void ask_for_news(struct file_store *store);
static void close_watch(struct file_store *store);
static void file_interrupt(struct ps_kv *kv);
static void file_destroy(struct ps_kv *kv);

/* The table by which kv.c finds these functions. */
static const struct ps_kv_methods file_methods = {
    .read = file_read,
    .commit = file_commit,
    .lease_grant = file_grant,
    .lease_keep = file_keep,
    .lease_revoke = file_revoke,
    .watch_open = file_watch_open,
    .watch_wait = file_watch_wait,
    .interrupt = file_interrupt,
    .destroy = file_destroy,
};

enum ps_status ps_kv_file_open(const char *folder, const struct ps_clock *clock,
                               const struct ps_allocator *memory, struct ps_kv **kv,
                               struct ps_error *error)
{
    return ps_kv_file_open_on(ps_files_real(), folder, clock, memory, kv, error);
}

/* Locks and guards always work on the real file system, since they are the kernel's; only the
 * content goes through `files`, so that tests can fail its writes. */
enum ps_status ps_kv_file_open_on(const struct ps_files *files, const char *folder,
                                  const struct ps_clock *clock, const struct ps_allocator *memory,
                                  struct ps_kv **kv, struct ps_error *error)
{
    PS_ASSERT(folder != NULL && clock != NULL);
    struct file_store *store = ps_zeroed(memory, sizeof *store);
    if (store == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for a store");
    store->base.methods = &file_methods;
    store->memory = memory;
    store->clock = clock;
    store->files = files;
    store->interruptions = -1;
    store->replacements = -1;
    /* Descriptors that are not open are -1, so that file_destroy can end a store that was begun by
     * half. */
    store->guard = (struct ps_kv_file_guard){-1, -1};
    store->lock = (struct ps_kv_file_lock){-1, -1};
    enum ps_status status = start(store, folder, error);
    if (status != PS_OK) {
        file_destroy(&store->base);
        return status;
    }
    *kv = &store->base;
    return PS_OK;
}

/* The folder is made by the real file system even where `files` is a test's: locks and guards lie
 * in it. */
static enum ps_status start(struct file_store *store, const char *folder, struct ps_error *error)
{
    size_t size = strlen(folder);
    /* "store.lock" and "store.alive" are the longest names put behind the folder. */
    if (size == 0 || size > PATH_BYTES - sizeof "/store.lock")
        return ps_fail(error, PS_ERR_BAD_INPUT, "a folder's name of %zu bytes", size);
    memcpy(store->folder, folder, size + 1);
    (void)snprintf(store->content_path, PATH_BYTES, "%.1000s/store", folder);
    (void)snprintf(store->lock_path, PATH_BYTES, "%.1000s/store.lock", folder);
    /* A counter that poll can wait for beside inotify's descriptor. */
    store->interruptions = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->interruptions < 0)
        return ps_fail(error, PS_ERR_IO, "eventfd: %s", strerror(errno));
    PS_TRY(ps_files_real()->make_folder(ps_files_real()->self, folder, error));
    (void)snprintf(store->guard_path, PATH_BYTES, "%.1000s/store.alive", folder);
    PS_TRY(ps_kv_file_guard_open(&store->guard, store->guard_path, error));
    PS_TRY(check_rights(store->content_path, R_OK, error));
    PS_TRY(check_rights(store->lock_path, R_OK | W_OK, error));
    return store->files->make_folder(store->files->self, folder, error);
}

/* Files of another user, as somebody leaves them who worked here as root, stay so: a call that
 * fails may be made again, and a server would make it without an end. So that is told at once, and
 * with both users, since a path alone does not say what to do. */
static enum ps_status check_rights(const char *path, int rights, struct ps_error *error)
{
    struct stat about;
    if (access(path, rights) == 0 || errno != EACCES)
        return PS_OK;
    if (stat(path, &about) != 0)
        return ps_fail(error, PS_ERR_IO, "open %s: %s", path, strerror(EACCES));
    return ps_fail(error, PS_ERR_IO, "open %s: %s: it is user %u's, and this is user %u", path,
                   strerror(EACCES), (unsigned)about.st_uid, (unsigned)geteuid());
}

static void file_destroy(struct ps_kv *kv)
{
    struct file_store *store = (struct file_store *)kv;
    close_watch(store);
    ps_kv_file_guard_close(&store->guard);
    ps_kv_file_lock_fini(&store->lock);
    if (store->interruptions >= 0)
        (void)close(store->interruptions);
    ps_release(store->memory, store);
}

/* Every call begins so: take the lock, read the file, end the leases that are over. On PS_OK the
 * table holds the content as of now, and `end` must follow. What has expired is saved at once, so
 * that a watch of another process sees the file change. */
static enum ps_status begin(struct file_store *store, uint64_t deadline_ms, struct ps_error *error)
{
    PS_TRY(
        ps_kv_file_lock_acquire(&store->lock, store->lock_path, store->clock, deadline_ms, error));
    /* Before anything can fail: `end` gives the table back in any case. */
    ps_kv_table_init(&store->table, store->memory);
    enum ps_status status = load(store, error);
    bool changed = false;
    if (status == PS_OK)
        changed = ps_kv_table_expire(&store->table, ps_now_ms(store->clock));
    /* bury_dead first: it must run even if the time alone has changed something. */
    if (status == PS_OK && (bury_dead(store) || changed))
        status = save(store, error);
    if (status != PS_OK)
        end(store);
    return status;
}

/* Ends the leases of processes that are gone; true when there were some. A server that was killed
 * is so replaced at once and not after its lease's time. Leases that are not guarded end by time
 * alone. */
static bool bury_dead(struct file_store *store)
{
    bool changed = false;
    size_t i = 0;
    while (i < store->table.lease_count) {
        const struct ps_kv_table_lease *lease = &store->table.leases[i];
        if (!lease->guarded || !ps_kv_file_guard_is_dead(&store->guard, lease->id)) {
            i++;
            continue;
        }
        /* Revoking moves the others down, so the index stays. */
        bool revoked = ps_kv_table_revoke(&store->table, (struct ps_kv_lease){lease->id});
        PS_ASSERT(revoked);
        changed = true;
    }
    return changed;
}

/* No file is an empty store. A damaged one is refused and left in place for people to look at; a
 * store that began anew would let two owners have one shard. */
static enum ps_status load(struct file_store *store, struct ps_error *error)
{
    uint8_t *content = NULL;
    size_t size = 0;
    enum ps_status status =
        ps_file_read_all(store->files, store->content_path, PS_KV_FILE_BYTES_MAX, store->memory,
                         &content, &size, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    status = ps_kv_file_read_of(store->content_path, (struct ps_bytes){content, size},
                                &store->table, error);
    ps_release(store->memory, content);
    if (status != PS_OK)
        return status;
    ps_kv_table_check(&store->table);
    return PS_OK;
}

/* Checked before it is written and again after it is read (load): whichever side is wrong is
 * known. */
static enum ps_status save(struct file_store *store, struct ps_error *error)
{
    ps_kv_table_check(&store->table);
    struct ps_buffer text;
    ps_buffer_init(&text, store->memory, PS_KV_FILE_BYTES_MAX);
    ps_kv_file_write(&store->table, &text);
    enum ps_status status = ps_buffer_status(&text, error);
    if (status == PS_OK)
        status = ps_file_replace(store->files, store->folder, store->content_path,
                                 (struct ps_bytes){(const uint8_t *)text.text, text.size}, error);
    ps_buffer_fini(&text);
    return status;
}

/* The lock is released last: until then nobody else may read or write the file. */
static void end(struct file_store *store)
{
    ps_kv_table_fini(&store->table);
    ps_kv_file_lock_release(&store->lock);
}

static enum ps_status file_read(struct ps_kv *kv, const char *key, bool prefix,
                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    PS_TRY(begin(store, deadline_ms, error));
    enum ps_status status =
        ps_kv_table_read(&store->table, key, prefix, store->memory, entries, error);
    end(store);
    return status;
}

/* The results are handed out only when the file is durable: a caller that was told of a commit may
 * rely on it after a crash of the machine. */
static enum ps_status file_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                  uint64_t deadline_ms, bool *done, int64_t *revision,
                                  struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    /* Keys are JSON texts in the file. etcd takes any bytes, but no key of ours has others. */
    for (size_t i = 0; i < transaction->change_count; i++)
        if (!ps_utf8_valid(ps_bytes_of_text(transaction->changes[i].key)))
            return ps_fail(error, PS_ERR_BAD_INPUT, "a key that is not UTF-8");
    PS_TRY(begin(store, deadline_ms, error));
    bool held = false;
    int64_t reached = 0;
    /* To see whether the transaction has changed anything. */
    int64_t before = store->table.revision;
    enum ps_status status = ps_kv_table_commit(&store->table, transaction, &held, &reached, error);
    /* Compares that do not hold, and deletions of what is not there, leave the file alone. */
    if (status == PS_OK && store->table.revision != before)
        status = save(store, error);
    end(store);
    if (status == PS_OK) {
        *done = held;
        *revision = reached;
    }
    return status;
}

/* The byte is held before the file says so: in the other order, another process could take the
 * lease for dead in between. A lock that cannot be had leaves a lease that ends by time only. */
static enum ps_status file_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    PS_TRY(begin(store, deadline_ms, error));
    struct ps_kv_lease fresh = {0};
    enum ps_status status =
        ps_kv_table_grant(&store->table, ttl_ms, ps_now_ms(store->clock), &fresh, error);
    if (status == PS_OK) {
        /* The lease was granted a line above, so the table has it. */
        struct ps_kv_table_lease *granted = ps_kv_table_find_lease(&store->table, fresh);
        granted->guarded = ps_kv_file_guard_hold(&store->guard, fresh.id);
        status = save(store, error);
        if (status != PS_OK)
            ps_kv_file_guard_let_go(&store->guard, fresh.id);
    }
    end(store);
    if (status == PS_OK)
        *lease = fresh;
    return status;
}

/* Keeping a lease writes the file: once every few seconds for each server. */
static enum ps_status file_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    PS_TRY(begin(store, deadline_ms, error));
    enum ps_status status = ps_kv_table_keep(&store->table, lease, ps_now_ms(store->clock), error);
    if (status == PS_OK)
        status = save(store, error);
    end(store);
    return status;
}

/* The byte is let go after the file is saved: released first, it would make the lease look like a
 * dead process's, which comes to the same but would be somebody else's doing. */
static enum ps_status file_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    PS_TRY(begin(store, deadline_ms, error));
    enum ps_status status = PS_OK;
    if (ps_kv_table_revoke(&store->table, lease))
        status = save(store, error);
    if (status == PS_OK)
        ps_kv_file_guard_let_go(&store->guard, lease.id);
    end(store);
    return status;
}

static enum ps_status file_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                      uint64_t deadline_ms, struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    close_watch(store);
    int64_t from = revision;
    /* "From now on" is the revision behind the present one, read under the lock. */
    if (from == 0) {
        PS_TRY(begin(store, deadline_ms, error));
        from = store->table.revision + 1;
        end(store);
    }
    ask_for_news(store);
    store->watching = true;
    memcpy(store->watch_prefix, prefix, strlen(prefix) + 1);
    /* The first revision that was not reported yet. */
    store->watch_revision = from;
    return PS_OK;
}

/* A process that dies closes the file by which it held its leases, which is as good as a change:
 * the watch looks again and finds the dead. Where the kernel gives no inotify, of which a user's
 * processes have 128 together on most machines, the watch looks without being told. */
static void ask_for_news(struct file_store *store)
{
    store->replacements = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify_add_watch(store->replacements, store->folder, IN_MOVED_TO) < 0 ||
        inotify_add_watch(store->replacements, store->guard_path, IN_CLOSE_WRITE) < 0)
        close_watch(store);
}

static void close_watch(struct file_store *store)
{
    store->watching = false;
    if (store->replacements >= 0)
        (void)close(store->replacements);
    store->replacements = -1;
}

/* Looks, then waits for the next event or the next lease to expire, whichever comes first.
 * `budget_ms` shrinks with what was really waited for, so that a clock which stands still (a
 * test's) ends the wait, too. */
static enum ps_status file_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                      struct ps_error *error)
{
    struct file_store *store = (struct file_store *)kv;
    if (!store->watching)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "no watch is open");
    uint64_t budget_ms = ps_time_left_ms(store->clock, deadline_ms);
    bool interrupted = false;
    /* Takes the events that are there already, before the file is read: an event that comes
     * afterwards is then about something that this look may have missed. */
    (void)wait_for_news(store, 0, &interrupted);
    for (;;) {
        uint64_t next_expiry_ms = PS_DEADLINE_NEVER;
        enum ps_status status = look(store, deadline_ms, changed, &next_expiry_ms, error);
        if (status != PS_OK)
            close_watch(store);
        if (status != PS_OK || *changed || interrupted || budget_ms == 0)
            return status;
        uint64_t wait_ms = ps_time_left_ms(store->clock, next_expiry_ms);
        wait_ms = wait_ms < budget_ms ? wait_ms : budget_ms;
        if (store->replacements < 0 && wait_ms > PS_KV_FILE_LOOK_MS)
            wait_ms = PS_KV_FILE_LOOK_MS;
        if (!wait_for_news(store, wait_ms, &interrupted))
            budget_ms -= wait_ms;
        /* The clock may also have run faster than the wait (a test's, or a machine that slept). */
        uint64_t left_ms = ps_time_left_ms(store->clock, deadline_ms);
        budget_ms = left_ms < budget_ms ? left_ms : budget_ms;
    }
}

/* Reads the store and says whether the watch has something to report. What was looked at is not
 * reported again, whether it concerned the prefix or not. */
static enum ps_status look(struct file_store *store, uint64_t deadline_ms, bool *changed,
                           uint64_t *next_expiry_ms, struct ps_error *error)
{
    PS_TRY(begin(store, deadline_ms, error));
    enum ps_status status = ps_kv_table_changed(&store->table, store->watch_prefix,
                                                store->watch_revision, changed, error);
    if (status == PS_OK && store->table.revision >= store->watch_revision)
        store->watch_revision = store->table.revision + 1;
    *next_expiry_ms = ps_kv_table_next_expiry(&store->table);
    end(store);
    return status;
}

/* Waits until the file is replaced or the wait is interrupted; false when neither happened. All
 * queued events are taken at once: they say "look", and one look serves them all. */
static bool wait_for_news(struct file_store *store, uint64_t wait_ms, bool *interrupted)
{
    struct pollfd either[] = {{store->replacements, POLLIN, 0}, {store->interruptions, POLLIN, 0}};
    /* A longer wait ends early and is begun again by the caller's loop. */
    int count = poll(either, 2, wait_ms < INT_MAX ? (int)wait_ms : INT_MAX);
    if (count <= 0)
        return count < 0;
    char events[4096];
    while (read(store->replacements, events, sizeof events) > 0)
        continue;
    uint64_t number = 0;
    if (read(store->interruptions, &number, sizeof number) > 0)
        *interrupted = true;
    return true;
}

/* An eventfd may be written by any thread. A full counter means that an interruption is pending
 * already. */
static void file_interrupt(struct ps_kv *kv)
{
    struct file_store *store = (struct file_store *)kv;
    uint64_t one = 1;
    ssize_t wrote = write(store->interruptions, &one, sizeof one);
    (void)wrote;
}
