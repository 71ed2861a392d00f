/* SPDX-License-Identifier: Apache-2.0 */
/* Places of workers. Everything that is decided about a group is decided from one reading of it,
 * and written only while the key of its size is as it was read: two servers that let workers in at
 * the same time never give two of them one rank or one name. A lease that ends in between only
 * makes a rank free that was taken for used. */
#include "etcd/registry_workers.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "etcd/registry_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest value of a row, with its NUL. */
enum {
    VALUE_BYTES =
        128 + PS_WORKER_NAME_BYTES_MAX + PS_WORKER_ROLE_BYTES_MAX + PS_WORKER_HOST_BYTES_MAX
};

static void take_entry(struct ps_worker_rows *rows, const struct ps_kv_entry *entry,
                       const char *key, bool with_names);
static void take_row(struct ps_worker_rows *rows, const struct ps_kv_entry *entry, uint32_t group,
                     const char *number);
static void take_name(struct ps_worker_rows *rows, const struct ps_kv_entry *entry,
                      const char *number);
static bool read_worker(const char *text, struct ps_worker *worker);
static void write_worker(const struct ps_worker *worker, char text[VALUE_BYTES]);
static int by_place(const void *left, const void *right);

/* No slash: the name is one step of a key. */
enum ps_status ps_worker_group_check(const char *group, struct ps_error *error)
{
    /* Also of a text from the network, which ends somewhere by then. */
    size_t size = strlen(group);
    /* A key is bytes: letters beyond ASCII would be names that people cannot tell apart. */
    bool good = size > 0 && size <= PS_WORKER_GROUP_BYTES_MAX;
    for (size_t i = 0; good && i < size; i++)
        good = isalnum((unsigned char)group[i]) || strchr("._-", group[i]) != NULL;
    if (!good)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "a group's name is 1 to %d letters, digits, '.', '_' and '-'",
                       PS_WORKER_GROUP_BYTES_MAX);
    if (strcmp(group, "servers") == 0 || strcmp(group, "all") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the group \"%s\" is made of the servers", group);
    return PS_OK;
}

/* What goes into a line of words, and to an operator's terminal. */
static bool is_word(const char *text)
{
    for (size_t i = 0; text[i] != '\0'; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

/* Checked before anything is asked of the store, and again of what is read there. */
enum ps_status ps_worker_check(const struct ps_worker *worker, struct ps_error *error)
{
    if (worker->client == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "client is 0");
    if (!is_word(worker->name) || !is_word(worker->role) || !is_word(worker->host))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "name, role and host are printable ASCII without spaces");
    return PS_OK;
}

/* ---- Reading ---- */

static struct ps_registry_key group_key(const struct ps_registry *registry, const char *group,
                                        const char *rest)
{
    return ps_registry_key(registry, "/workers/%.64s/%s", group, rest);
}

/* Room for each key in each list: a reading is short-lived, and no list needs a second pass. */
static enum ps_status make_room(struct ps_worker_rows *rows, size_t count, struct ps_error *error)
{
    /* One more each: nothing at all would not be an allocation. */
    const struct ps_allocator *memory = rows->memory;
    rows->rows = ps_zeroed_array(memory, count + 1, sizeof *rows->rows);
    rows->names = ps_zeroed_array(memory, count + 1, sizeof *rows->names);
    rows->groups = ps_zeroed_array(memory, count + 1, sizeof *rows->groups);
    rows->room = count + 1;
    if (rows->rows != NULL && rows->names != NULL && rows->groups != NULL)
        return PS_OK;
    ps_worker_rows_release(rows);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu workers", count);
}

/* One read: what is taken, remembered and demanded later are of one revision. */
enum ps_status ps_registry_read_workers(struct ps_registry *registry, const char *group,
                                        const struct ps_allocator *memory, uint64_t deadline_ms,
                                        struct ps_worker_rows *out, struct ps_error *error)
{
    /* What stands behind it is the group, in both kinds of reading. */
    struct ps_registry_key root = ps_registry_key(registry, "/workers/");
    struct ps_registry_key prefix = group != NULL ? group_key(registry, group, "") : root;
    struct ps_worker_rows rows = {.memory = memory};
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &entries, error));
    enum ps_status status = make_room(&rows, entries.count, error);
    if (status == PS_OK) {
        /* A group that is asked for by name has a row also before anybody has joined it. */
        if (group != NULL)
            (void)snprintf(rows.groups[rows.group_count++].name, sizeof rows.groups[0].name, "%s",
                           group);
        rows.revision = entries.revision;
        for (size_t i = 0; i < entries.count; i++)
            take_entry(&rows, &entries.entries[i], entries.entries[i].key + strlen(root.text),
                       group != NULL);
        /* Keys are sorted as texts, in which 10 comes before 2. */
        qsort(rows.rows, rows.row_count, sizeof *rows.rows, by_place);
        *out = rows;
    }
    ps_kv_entries_release(&entries);
    return status;
}

/* The groups come in the order of their names, so that only the last one can be this key's. */
static uint32_t group_of(struct ps_worker_rows *rows, const char *name, size_t size)
{
    if (rows->group_count > 0) {
        const char *last = rows->groups[rows->group_count - 1].name;
        if (strlen(last) == size && memcmp(last, name, size) == 0)
            return (uint32_t)rows->group_count - 1;
    }
    /* The keys of one group lie together, since they begin alike. */
    struct ps_worker_group *group = &rows->groups[rows->group_count];
    memcpy(group->name, name, size);
    return (uint32_t)rows->group_count++;
}

/* `key` is what stands behind "/workers/". */
static void take_entry(struct ps_worker_rows *rows, const struct ps_kv_entry *entry,
                       const char *key, bool with_names)
{
    size_t size = strcspn(key, "/");
    /* A key of another shape is somebody else's. */
    if (size == 0 || size > PS_WORKER_GROUP_BYTES_MAX || key[size] != '/')
        return;
    /* Found by its name, which ends at the next slash. */
    uint32_t group = group_of(rows, key, size);
    /* The size of a group, a rank that is taken, or a name that is remembered. */
    const char *rest = key + size + 1;
    if (strcmp(rest, "size") == 0) {
        /* A size that makes no sense counts as none; the next who joins puts another. */
        struct ps_bytes value = {entry->value, entry->value_size};
        (void)ps_registry_number(value, PS_WORKERS_MAX, &rows->groups[group].size);
        rows->groups[group].revision = entry->modify_revision;
    } else if (strncmp(rest, "ranks/", 6) == 0) {
        take_row(rows, entry, group, rest + 6);
    } else if (with_names && strncmp(rest, "names/", 6) == 0) {
        take_name(rows, entry, rest + 6);
    }
}

/* A row that cannot be read has a rank all the same, which nobody else may have while the row is
 * there: the transaction that puts another demands its absence. */
static void take_row(struct ps_worker_rows *rows, const struct ps_kv_entry *entry, uint32_t group,
                     const char *number)
{
    PS_ASSERT(group < rows->group_count);
    struct ps_worker_row row = {
        .group = group, .incarnation = entry->create_revision, .lease = entry->lease};
    /* A key that is not a rank of any group is in nobody's way. */
    if (!ps_registry_number(ps_bytes_of_text(number), PS_WORKERS_MAX - 1, &row.rank))
        return;
    if (!read_worker((const char *)entry->value, &row.worker))
        row.worker = (struct ps_worker){0};
    rows->rows[rows->row_count++] = row;
}

/* The number of a rank is that of the key; the value is the name alone. */
static void take_name(struct ps_worker_rows *rows, const struct ps_kv_entry *entry,
                      const char *number)
{
    /* In the next free place, which counts only when the entry makes sense. */
    struct ps_worker_memory *memory = &rows->names[rows->name_count];
    if (entry->value_size >= sizeof memory->name ||
        !ps_registry_number(ps_bytes_of_text(number), PS_WORKERS_MAX - 1, &memory->rank))
        return;
    memcpy(memory->name, entry->value, entry->value_size);
    rows->name_count++;
}

/* Groups have their numbers in the order of their names. */
static int by_place(const void *left, const void *right)
{
    const struct ps_worker_row *a = left;
    const struct ps_worker_row *b = right;
    /* Ranks are compared within a group. */
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

void ps_worker_rows_release(struct ps_worker_rows *rows)
{
    /* Zeroed, or released before. */
    if (rows->memory != NULL) {
        ps_release(rows->memory, rows->rows);
        ps_release(rows->memory, rows->names);
        ps_release(rows->memory, rows->groups);
    }
    *rows = (struct ps_worker_rows){0};
}

/* ---- What has changed since it was read ---- */

/* Twice the room, so that a thousand who join are copied a few times. The groups stay as they are:
 * there is one. */
static enum ps_status grow(struct ps_worker_rows *rows, struct ps_error *error)
{
    /* At least two: a reading has room for one more than it found. */
    size_t room = 2 * rows->room;
    struct ps_worker_row *more = ps_zeroed_array(rows->memory, room, sizeof *more);
    struct ps_worker_memory *names = ps_zeroed_array(rows->memory, room, sizeof *names);
    if (more == NULL || names == NULL) {
        ps_release(rows->memory, more);
        ps_release(rows->memory, names);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu workers", room);
    }
    memcpy(more, rows->rows, rows->row_count * sizeof *more);
    memcpy(names, rows->names, rows->name_count * sizeof *names);
    ps_release(rows->memory, rows->rows);
    ps_release(rows->memory, rows->names);
    rows->rows = more;
    rows->names = names;
    rows->room = room;
    return PS_OK;
}

/* As the key of the rank's name: put, put anew, or taken away. */
static void note_name(struct ps_worker_rows *rows, uint32_t rank, const char *name)
{
    size_t i = 0;
    while (i < rows->name_count && rows->names[i].rank != rank)
        i++;
    /* The order of names is none that anybody relies on. */
    bool is_new = i == rows->name_count;
    if (name[0] == '\0' && !is_new)
        rows->names[i] = rows->names[--rows->name_count];
    if (name[0] == '\0')
        return;
    PS_ASSERT(i < rows->room);
    rows->names[i].rank = rank;
    (void)snprintf(rows->names[i].name, sizeof rows->names[i].name, "%s", name);
    rows->name_count += is_new ? 1 : 0;
}

/* At its place among the ranks. The transaction that put the row has put the size, too. */
enum ps_status ps_worker_rows_add(struct ps_worker_rows *rows, const struct ps_worker_row *row,
                                  uint32_t size, struct ps_error *error)
{
    /* Before the first of a higher rank. */
    size_t at = 0;
    PS_ASSERT(rows->group_count == 1 && row->group == 0);
    /* Before anything is changed. */
    if (rows->row_count == rows->room || rows->name_count == rows->room)
        PS_TRY(grow(rows, error));
    while (at < rows->row_count && rows->rows[at].rank < row->rank)
        at++;
    PS_ASSERT(at == rows->row_count || rows->rows[at].rank > row->rank);
    /* The ranks behind it make room. */
    memmove(&rows->rows[at + 1], &rows->rows[at], (rows->row_count - at) * sizeof *rows->rows);
    rows->rows[at] = *row;
    rows->row_count++;
    note_name(rows, row->rank, row->worker.name);
    rows->groups[0].size = size;
    rows->groups[0].revision = row->incarnation;
    return PS_OK;
}

/* The name stays, as in the store. */
void ps_worker_rows_remove(struct ps_worker_rows *rows, size_t index)
{
    PS_ASSERT(index < rows->row_count);
    /* The size and its revision stay, as in the store: only who joins changes them. */
    rows->row_count--;
    memmove(&rows->rows[index], &rows->rows[index + 1],
            (rows->row_count - index) * sizeof *rows->rows);
}

/* ---- A row as text: words of the form field=value, of which unknown ones are passed over ---- */

/* The value of a field, in `to`; false when there is none or it is too long. */
static bool find_word(const char *text, const char *field, char *to, size_t size)
{
    size_t field_size = strlen(field);
    /* Words are apart by spaces, which no value has. */
    for (const char *word = text; *word != '\0'; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        /* The whole field name, up to the sign: "name" is not found in "names=". */
        bool found = length > field_size && strncmp(word, field, field_size) == 0 &&
                     word[field_size] == '=' && length - field_size - 1 < size;
        if (found) {
            memcpy(to, word + field_size + 1, length - field_size - 1);
            to[length - field_size - 1] = '\0';
            return true;
        }
        word += length;
    }
    to[0] = '\0';
    return false;
}

/* A number that is missing or makes no sense is 0, which no field means. */
static uint64_t find_number(const char *text, const char *field, int base)
{
    /* Digits of the largest number, and its end. */
    char word[24];
    return find_word(text, field, word, sizeof word) ? strtoull(word, NULL, base) : 0;
}

/* A worker without a client's number would be kept by nobody. */
static bool read_worker(const char *text, struct ps_worker *worker)
{
    *worker = (struct ps_worker){.client = find_number(text, "client", 16),
                                 .ttl_ms = find_number(text, "ttl_ms", 10),
                                 .joined_unix_ms = find_number(text, "joined_ms", 10)};
    /* Words that are missing are empty. */
    (void)find_word(text, "name", worker->name, sizeof worker->name);
    (void)find_word(text, "role", worker->role, sizeof worker->role);
    (void)find_word(text, "host", worker->host, sizeof worker->host);
    return worker->client != 0 && is_word(worker->name) && is_word(worker->role) &&
           is_word(worker->host);
}

/* Empty words are left out: a field without a value would be read as one of another length. */
static void write_worker(const struct ps_worker *worker, char text[VALUE_BYTES])
{
    /* The buffer has room for the longest words. */
    struct ps_buffer line;
    ps_buffer_init_fixed(&line, text, VALUE_BYTES);
    ps_buffer_append_format(&line, "client=%016" PRIx64 " ttl_ms=%" PRIu64 " joined_ms=%" PRIu64,
                            worker->client, worker->ttl_ms, worker->joined_unix_ms);
    if (worker->name[0] != '\0')
        ps_buffer_append_format(&line, " name=%s", worker->name);
    if (worker->role[0] != '\0')
        ps_buffer_append_format(&line, " role=%s", worker->role);
    if (worker->host[0] != '\0')
        ps_buffer_append_format(&line, " host=%s", worker->host);
    PS_ASSERT(!line.failed);
}

/* ---- Changing ---- */

/* The lease is the row's alone: what the rank's last name was outlives it. */
enum ps_status ps_registry_put_worker(struct ps_registry *registry,
                                      const struct ps_worker_group *group, uint32_t rank,
                                      const struct ps_worker *worker, struct ps_kv_lease lease,
                                      uint64_t deadline_ms, bool *done, int64_t *incarnation,
                                      struct ps_error *error)
{
    PS_ASSERT(rank < PS_WORKERS_MAX && lease.id != 0);
    PS_ASSERT(ps_worker_group_check(group->name, NULL) == PS_OK);
    PS_ASSERT(ps_worker_check(worker, NULL) == PS_OK);
    struct ps_registry_key size = group_key(registry, group->name, "size");
    struct ps_registry_key row =
        ps_registry_key(registry, "/workers/%.64s/ranks/%" PRIu32, group->name, rank);
    struct ps_registry_key name =
        ps_registry_key(registry, "/workers/%.64s/names/%" PRIu32, group->name, rank);
    /* The values of the three keys. */
    char number[16];
    char text[VALUE_BYTES];
    /* Put also when it is the same: the new revision is what the next who joins has to know. */
    (void)snprintf(number, sizeof number, "%" PRIu32, group->size);
    write_worker(worker, text);
    const struct ps_kv_compare compares[] = {{size.text, PS_KV_MODIFIED_AT, group->revision},
                                             {row.text, PS_KV_CREATED_AT, 0}};
    struct ps_kv_change changes[] = {
        {PS_KV_PUT, size.text, ps_bytes_of_text(number), {0}},
        {PS_KV_PUT, row.text, ps_bytes_of_text(text), lease},
        {PS_KV_PUT, name.text, ps_bytes_of_text(worker->name), {0}},
    };
    /* Whoever takes a rank without a name ends the memory of it. */
    if (worker->name[0] == '\0')
        changes[2] = (struct ps_kv_change){PS_KV_DELETE, name.text, {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {compares, 2, changes, 3};
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, incarnation, error);
}

/* Said of a row that is gone, of one that another client has, and of one that this client has taken
 * anew: for whoever kept the place all three are the same. */
static enum ps_status no_place(const char *group, uint32_t rank, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_STALE_EPOCH,
                   "rank %" PRIu32 " of group %.64s is not this client's any more", rank, group);
}

/* The row first: the lease's id never comes from outside, and a lease that is kept for somebody
 * else's row would never end. */
enum ps_status ps_registry_keep_worker(struct ps_registry *registry, const char *group,
                                       uint32_t rank, uint64_t client, int64_t incarnation,
                                       uint64_t deadline_ms, struct ps_error *error)
{
    /* One key, whatever the size of the group: this is what workers ask for all the time. */
    struct ps_registry_key key =
        ps_registry_key(registry, "/workers/%.64s/ranks/%" PRIu32, group, rank);
    struct ps_worker worker = {0};
    struct ps_kv_lease lease = {0};
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &entries, error));
    /* By the number as well as the incarnation: the incarnation is in every list of workers, and
     * the number nowhere. */
    bool ours = entries.count > 0 && entries.entries[0].create_revision == incarnation &&
                read_worker((const char *)entries.entries[0].value, &worker) &&
                worker.client == client;
    if (ours)
        lease = entries.entries[0].lease;
    ps_kv_entries_release(&entries);
    enum ps_status status =
        ours ? ps_kv_lease_keep(registry->kv, lease, deadline_ms, error) : PS_ERR_LEASE_LOST;
    return status == PS_ERR_LEASE_LOST ? no_place(group, rank, error) : status;
}

/* Revoking the lease takes the row away, too, but is no transaction: the row goes while it is this
 * one, and then the lease, which nobody would keep. */
enum ps_status ps_registry_drop_worker(struct ps_registry *registry, const char *group,
                                       const struct ps_worker_row *row, uint64_t deadline_ms,
                                       struct ps_error *error)
{
    struct ps_registry_key key =
        ps_registry_key(registry, "/workers/%.64s/ranks/%" PRIu32, group, row->rank);
    const struct ps_kv_compare ours = {key.text, PS_KV_CREATED_AT, row->incarnation};
    const struct ps_kv_change gone = {PS_KV_DELETE, key.text, {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {&ours, 1, &gone, 1};
    /* Not done is as good: the row is gone, or another one stands in its place. */
    bool done = false;
    int64_t revision = 0;
    PS_TRY(ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error));
    return ps_kv_lease_revoke(registry->kv, row->lease, deadline_ms, error);
}

/* The size goes last, so that what is left over after a failure is found again by it. */
enum ps_status ps_registry_forget_group(struct ps_registry *registry,
                                        const struct ps_worker_group *group, uint64_t deadline_ms,
                                        struct ps_error *error)
{
    struct ps_registry_key size = group_key(registry, group->name, "size");
    /* The rows are gone by themselves, each with its lease. */
    struct ps_registry_key prefix = group_key(registry, group->name, "names/");
    const struct ps_kv_compare unchanged = {size.text, PS_KV_MODIFIED_AT, group->revision};
    struct ps_kv_entries names;
    bool done = true;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &names, error));
    enum ps_status status = PS_OK;
    /* One by one: nobody waits for this, and a group has few names. */
    for (size_t i = 0; status == PS_OK && done && i <= names.count; i++) {
        const char *key = i < names.count ? names.entries[i].key : size.text;
        const struct ps_kv_change gone = {PS_KV_DELETE, key, {NULL, 0}, {0}};
        const struct ps_kv_transaction transaction = {&unchanged, 1, &gone, 1};
        int64_t revision = 0;
        status = ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error);
    }
    ps_kv_entries_release(&names);
    return status;
}

enum ps_status ps_registry_watch_workers(struct ps_registry *registry, int64_t revision,
                                         uint64_t deadline_ms, struct ps_error *error)
{
    /* All groups: a client waits for one of them, and another for all. */
    struct ps_registry_key prefix = ps_registry_key(registry, "/workers/");
    return ps_kv_watch_open(registry->kv, prefix.text, revision, deadline_ms, error);
}
