/* SPDX-License-Identifier: Apache-2.0 */
/* Keys with revisions, transactions on them, and the history that watches look at: what etcd does
 * with its data, for the two stores that are not etcd.
 *
 * Entries are an array sorted by key, searched by halves. The store holds some thousand keys at
 * most, so moving the tail of an array at an insertion is cheaper than any tree would be to get
 * right. A transaction happens in full or not at all: everything that can fail (copies, room,
 * leases) is done before the first change. */
#include "etcd/kv_table.h"

#include "etcd/kv_entries.h"

#include "base/assert.h"

#include <string.h>

/* What a transaction needs, allocated before the first change, so that changing cannot fail. The
 * history keeps keys of its own, because an entry may go before its event does. */
struct prepared {
    struct ps_kv_entry fresh[PS_KV_CHANGES_MAX]; /* of puts */
    char *event_keys[PS_KV_CHANGES_MAX];         /* of puts */
};

static enum ps_status prepare(struct ps_kv_table *table,
                              const struct ps_kv_transaction *transaction,
                              struct prepared *prepared, struct ps_error *error);
static enum ps_status prepare_put(struct ps_kv_table *table, const struct ps_kv_change *change,
                                  struct ps_kv_entry *fresh, char **event_key,
                                  struct ps_error *error);
static void release_prepared(struct ps_kv_table *table, struct prepared *prepared);
static void apply(struct ps_kv_table *table, const struct ps_kv_transaction *transaction,
                  struct prepared *prepared);
static void put(struct ps_kv_table *table, struct ps_kv_entry fresh, char *event_key,
                int64_t revision);
static void delete_at(struct ps_kv_table *table, size_t place, int64_t revision);
static bool compares_hold(const struct ps_kv_table *table,
                          const struct ps_kv_transaction *transaction);
static enum ps_status reserve(struct ps_kv_table *table, size_t more, struct ps_error *error);
static size_t lower_bound(const struct ps_kv_table *table, const char *key);
static bool found_at(const struct ps_kv_table *table, size_t place, const char *key);
static bool starts_with(const char *key, const char *prefix);
static void remember(struct ps_kv_table *table, char *key, int64_t revision);

void ps_kv_table_init(struct ps_kv_table *table, const struct ps_allocator *memory)
{
    memset(table, 0, sizeof *table);
    table->memory = memory;
    /* As an etcd that was just started: revision 0 means "absent" everywhere. */
    table->revision = 1;
}

/* All of the ring is walked: places without an event hold NULL, which may be released. */
void ps_kv_table_fini(struct ps_kv_table *table)
{
    if (table->memory == NULL)
        return;
    for (size_t i = 0; i < table->entry_count; i++) {
        ps_release(table->memory, table->entries[i].key);
        ps_release(table->memory, table->entries[i].value);
    }
    for (size_t i = 0; i < PS_KV_TABLE_HISTORY_MAX; i++)
        ps_release(table->memory, table->history[i].key);
    ps_release(table->memory, table->entries);
    ps_release(table->memory, table->leases);
    memset(table, 0, sizeof *table);
}

/* All invariants, each of which some function here relies on. Called by tests after each step and
 * by the file store around each reading and writing. */
void ps_kv_table_check(const struct ps_kv_table *table)
{
    PS_ASSERT(table->entry_count <= table->entry_capacity);
    PS_ASSERT(table->lease_count <= table->lease_capacity);
    PS_ASSERT(table->history_count <= PS_KV_TABLE_HISTORY_MAX);
    PS_ASSERT(table->compacted_revision <= table->revision);
    for (size_t i = 0; i < table->entry_count; i++) {
        const struct ps_kv_entry *entry = &table->entries[i];
        PS_ASSERT(i == 0 || strcmp(table->entries[i - 1].key, entry->key) < 0);
        PS_ASSERT(entry->create_revision <= entry->modify_revision);
        PS_ASSERT(entry->modify_revision <= table->revision);
        PS_ASSERT(entry->lease.id == 0 || ps_kv_table_find_lease(table, entry->lease) != NULL);
    }
    for (size_t i = 1; i < table->lease_count; i++)
        PS_ASSERT(table->leases[i - 1].id < table->leases[i].id);
}

enum ps_status ps_kv_table_read(const struct ps_kv_table *table, const char *key, bool prefix,
                                const struct ps_allocator *memory, struct ps_kv_entries *entries,
                                struct ps_error *error)
{
    /* Keys with one prefix stand side by side, beginning at the place of the prefix itself. */
    size_t first = lower_bound(table, key);
    size_t end = first;
    while (end < table->entry_count && (prefix ? starts_with(table->entries[end].key, key)
                                               : strcmp(table->entries[end].key, key) == 0))
        end++;

    /* A copy of everything: the caller may hold it while the table changes. */
    struct ps_kv_entries result;
    PS_TRY(ps_kv_entries_make(&result, memory, end - first, error));
    /* All entries of the result are of this moment; a watch goes on from the next revision. */
    result.revision = table->revision;
    for (size_t i = first; i < end; i++) {
        const struct ps_kv_entry *entry = &table->entries[i];
        struct ps_bytes value = {entry->value, entry->value_size};
        enum ps_status status =
            ps_kv_entries_add(&result, ps_bytes_of_text(entry->key), value, *entry, error);
        if (status != PS_OK) {
            ps_kv_entries_release(&result);
            return status;
        }
    }
    *entries = result;
    return PS_OK;
}

/* The compares are all made on one state, and nothing intervenes: both stores call this under their
 * lock. */
enum ps_status ps_kv_table_commit(struct ps_kv_table *table,
                                  const struct ps_kv_transaction *transaction, bool *done,
                                  int64_t *revision, struct ps_error *error)
{
    bool hold = compares_hold(table, transaction);
    /* Compares that do not hold are an answer, not an error: PS_OK with *done false. */
    if (hold) {
        struct prepared prepared = {0};
        enum ps_status status = prepare(table, transaction, &prepared, error);
        if (status != PS_OK) {
            release_prepared(table, &prepared);
            return status;
        }
        apply(table, transaction, &prepared);
    }
    /* A transaction that did not hold has a revision, too: the one at which it was judged. */
    *done = hold;
    *revision = table->revision;
    return PS_OK;
}

static bool compares_hold(const struct ps_kv_table *table,
                          const struct ps_kv_transaction *transaction)
{
    /* All of them must hold; the first that does not ends the search. */
    for (size_t i = 0; i < transaction->compare_count; i++) {
        const struct ps_kv_compare *compare = &transaction->compares[i];
        size_t place = lower_bound(table, compare->key);
        /* An absent key compares as revision 0. */
        int64_t revision = 0;
        if (found_at(table, place, compare->key))
            revision = compare->kind == PS_KV_CREATED_AT ? table->entries[place].create_revision
                                                         : table->entries[place].modify_revision;
        if (revision != compare->revision)
            return false;
    }
    return true;
}

/* A lease that is gone fails the whole transaction before anything changed, as in etcd. */
static enum ps_status prepare(struct ps_kv_table *table,
                              const struct ps_kv_transaction *transaction,
                              struct prepared *prepared, struct ps_error *error)
{
    /* kv.c has checked it; `prepared` has no more room. */
    PS_ASSERT(transaction->change_count <= PS_KV_CHANGES_MAX);
    for (size_t i = 0; i < transaction->change_count; i++)
        if (transaction->changes[i].kind == PS_KV_PUT)
            PS_TRY(prepare_put(table, &transaction->changes[i], &prepared->fresh[i],
                               &prepared->event_keys[i], error));
    /* Reserving is the last step that may fail. */
    return reserve(table, transaction->change_count, error);
}

/* Whatever was copied before a failure is found in `fresh` and `event_key` by release_prepared. */
static enum ps_status prepare_put(struct ps_kv_table *table, const struct ps_kv_change *change,
                                  struct ps_kv_entry *fresh, char **event_key,
                                  struct ps_error *error)
{
    if (change->lease.id != 0 && ps_kv_table_find_lease(table, change->lease) == NULL)
        return ps_fail(error, PS_ERR_LEASE_LOST, "%s: the lease is gone", change->key);
    size_t key_size = strlen(change->key);
    fresh->key = ps_copy_text(table->memory, change->key, key_size);
    fresh->value = (uint8_t *)ps_copy_text(table->memory, change->value.data, change->value.size);
    fresh->value_size = change->value.size;
    /* A put without a lease takes the key off the lease that it had, as in etcd. */
    fresh->lease = change->lease;
    *event_key = ps_copy_text(table->memory, change->key, key_size);
    if (fresh->key == NULL || fresh->value == NULL || *event_key == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for %s", change->key);
    return PS_OK;
}

/* Only after a failure; what was applied belongs to the table. */
static void release_prepared(struct ps_kv_table *table, struct prepared *prepared)
{
    for (size_t i = 0; i < PS_KV_CHANGES_MAX; i++) {
        ps_release(table->memory, prepared->fresh[i].key);
        ps_release(table->memory, prepared->fresh[i].value);
        ps_release(table->memory, prepared->event_keys[i]);
    }
}

static enum ps_status reserve(struct ps_kv_table *table, size_t more, struct ps_error *error)
{
    /* As if every change were a new key; a few entries too many do no harm. */
    size_t needed = table->entry_count + more;
    if (needed <= table->entry_capacity)
        return PS_OK;
    /* BUSY and not NO_MEMORY: the store as a whole is full, and waiting for memory would not
     * help. */
    if (needed > PS_KV_TABLE_KEYS_MAX)
        return ps_fail(error, PS_ERR_BUSY, "the store holds %zu keys, its limit",
                       table->entry_count);
    size_t capacity = needed * 2 < 16 ? 16 : needed * 2;
    struct ps_kv_entry *larger = ps_zeroed_array(table->memory, capacity, sizeof *larger);
    if (larger == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for %zu keys", capacity);
    if (table->entry_count > 0)
        memcpy(larger, table->entries, table->entry_count * sizeof *larger);
    ps_release(table->memory, table->entries);
    table->entries = larger;
    table->entry_capacity = capacity;
    return PS_OK;
}

/* All changes of a transaction have one revision. One that changes nothing (deletes what is not
 * there) leaves the revision where it is, as etcd does: watches must not wake for nothing. */
static void apply(struct ps_kv_table *table, const struct ps_kv_transaction *transaction,
                  struct prepared *prepared)
{
    int64_t revision = table->revision + 1;
    bool changed = false;
    for (size_t i = 0; i < transaction->change_count; i++) {
        const struct ps_kv_change *change = &transaction->changes[i];
        /* Searched again for each change: an earlier one of the same transaction may have moved the
         * place. */
        size_t place = lower_bound(table, change->key);
        if (change->kind == PS_KV_PUT)
            put(table, prepared->fresh[i], prepared->event_keys[i], revision);
        else if (found_at(table, place, change->key))
            delete_at(table, place, revision);
        else
            continue;
        changed = true;
    }
    if (changed)
        table->revision = revision;
}

/* Takes what `fresh` points to and `event_key`. Putting over an entry keeps its create revision,
 * which is how an owner's epoch survives the publishing of its address. */
static void put(struct ps_kv_table *table, struct ps_kv_entry fresh, char *event_key,
                int64_t revision)
{
    size_t place = lower_bound(table, fresh.key);
    struct ps_kv_entry *entry = &table->entries[place];
    /* The revision is the transaction's, the same for all its changes. */
    fresh.modify_revision = revision;
    if (found_at(table, place, fresh.key)) {
        fresh.create_revision = entry->create_revision;
        /* The old key is the same text; the new one is kept since it is the entry's from here
         * on. */
        ps_release(table->memory, entry->key);
        ps_release(table->memory, entry->value);
    } else {
        fresh.create_revision = revision;
        /* `reserve` has made room for one more. */
        memmove(entry + 1, entry, (table->entry_count - place) * sizeof *entry);
        table->entry_count++;
        PS_ASSERT(table->entry_count <= table->entry_capacity);
    }
    *entry = fresh;
    remember(table, event_key, revision);
}

/* The key's memory goes into the history: deleting needs none of its own and therefore cannot fail,
 * which the end of a lease relies on. */
static void delete_at(struct ps_kv_table *table, size_t place, int64_t revision)
{
    struct ps_kv_entry *entry = &table->entries[place];
    remember(table, entry->key, revision);
    ps_release(table->memory, entry->value);
    table->entry_count--;
    memmove(entry, entry + 1, (table->entry_count - place) * sizeof *entry);
}

/* All keys of the lease go at one revision. From the end, since deleting moves what stands
 * behind. */
void ps_kv_table_delete_leased(struct ps_kv_table *table, struct ps_kv_lease lease)
{
    int64_t revision = table->revision + 1;
    for (size_t i = table->entry_count; i > 0; i--) {
        if (table->entries[i - 1].lease.id != lease.id)
            continue;
        delete_at(table, i - 1, revision);
        table->revision = revision;
    }
}

/* Takes `key`. The history is a ring: when it is full the oldest event is forgotten, and a watch
 * that would need it is told that its revision is compacted, as by an etcd that has compacted. That
 * case is rare in practice and frequent in simulations, on purpose. */
static void remember(struct ps_kv_table *table, char *key, int64_t revision)
{
    if (table->history_count == PS_KV_TABLE_HISTORY_MAX) {
        struct ps_kv_table_event *oldest = &table->history[table->history_first];
        /* Everything up to here may be incomplete now: events of one revision may be split by the
         * ring's end. */
        table->compacted_revision = oldest->revision;
        ps_release(table->memory, oldest->key);
        *oldest = (struct ps_kv_table_event){0};
        table->history_first = (table->history_first + 1) % PS_KV_TABLE_HISTORY_MAX;
        table->history_count--;
    }
    size_t place = (table->history_first + table->history_count) % PS_KV_TABLE_HISTORY_MAX;
    table->history[place] = (struct ps_kv_table_event){revision, key};
    table->history_count++;
}

enum ps_status ps_kv_table_changed(const struct ps_kv_table *table, const char *prefix,
                                   int64_t revision, bool *changed, struct ps_error *error)
{
    /* Something at that revision may have been forgotten; "no change" would be a guess. */
    if (revision <= table->compacted_revision)
        return ps_fail(error, PS_ERR_CONFLICT, "revision %lld is compacted", (long long)revision);
    /* From the oldest event on; the first one that fits is enough, since a watch only says
     * "changed". */
    bool found = false;
    for (size_t i = 0; i < table->history_count && !found; i++) {
        size_t place = (table->history_first + i) % PS_KV_TABLE_HISTORY_MAX;
        const struct ps_kv_table_event *event = &table->history[place];
        /* An empty prefix is never asked for (kv.c), but would match every key. */
        found = event->revision >= revision && starts_with(event->key, prefix);
    }
    *changed = found;
    return PS_OK;
}

/* Appended at the end: the reader has checked that keys come in order. */
enum ps_status ps_kv_table_restore_entry(struct ps_kv_table *table, struct ps_bytes key,
                                         struct ps_bytes value, struct ps_kv_entry facts,
                                         struct ps_error *error)
{
    PS_TRY(reserve(table, 1, error));
    facts.key = ps_copy_text(table->memory, key.data, key.size);
    facts.value = (uint8_t *)ps_copy_text(table->memory, value.data, value.size);
    facts.value_size = value.size;
    if (facts.key == NULL || facts.value == NULL) {
        ps_release(table->memory, facts.key);
        ps_release(table->memory, facts.value);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for a key");
    }
    table->entries[table->entry_count++] = facts;
    return PS_OK;
}

/* History comes in the order in which it happened. */
enum ps_status ps_kv_table_restore_event(struct ps_kv_table *table, struct ps_bytes key,
                                         int64_t revision, struct ps_error *error)
{
    char *copy = ps_copy_text(table->memory, key.data, key.size);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for an event");
    remember(table, copy, revision);
    return PS_OK;
}

/* The place of the first key that is not before `key`: where it stands, or where it would have to
 * stand. */
static size_t lower_bound(const struct ps_kv_table *table, const char *key)
{
    size_t low = 0;
    size_t high = table->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(table->entries[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool found_at(const struct ps_kv_table *table, size_t place, const char *key)
{
    return place < table->entry_count && strcmp(table->entries[place].key, key) == 0;
}

/* Byte by byte; strings of UTF-8 compare as their bytes do. */
static bool starts_with(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}
