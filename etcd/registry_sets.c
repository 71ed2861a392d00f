/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of checkpoints: asking, counting rows, marking, taking old ones away. Every change demands
 * that /ps_wanted is as it was seen, so that two askers, a late answer and a set that was given up
 * meanwhile cannot mix the rows of one set with those of another of the same name. */
#include "etcd/registry_sets.h"

#include "base/assert.h"
#include "base/quantity.h"
#include "etcd/registry_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The longest value: two numbers and a name. */
#define VALUE_BYTES 128

static bool parse(const struct ps_kv_entry *entry, struct ps_set *set);
static enum ps_status put_wanted(struct ps_registry *registry, const struct ps_set *wish,
                                 const struct ps_set *before, uint64_t deadline_ms,
                                 struct ps_error *error);

/* A name becomes part of a key, of a file's header and of a command line: so it has no slash, no
 * space, and nothing that a shell would take for its own. */
enum ps_status ps_set_name_check(const char *name, struct ps_error *error)
{
    size_t size = strlen(name);
    bool is_valid = size > 0 && size <= PS_SET_NAME_BYTES_MAX;
    for (size_t i = 0; is_valid && i < size; i++)
        is_valid = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL;
    if (is_valid)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "a set's name is 1 to %d letters, digits, '.', '_' and '-'",
                   PS_SET_NAME_BYTES_MAX);
}

/* Below the prefix "/ps", which the thread that knows the servers watches: what is wanted is heard
 * of without another connection to the store. */
static struct ps_registry_key wanted_key(const struct ps_registry *registry)
{
    return ps_registry_key(registry, "/ps_wanted");
}

/* Marks have a prefix of their own, so that all of them are read without any row. */
static struct ps_registry_key mark_key(const struct ps_registry *registry, const char *name)
{
    return ps_registry_key(registry, "/checkpoints/whole/%s", name);
}

/* ---- Reading ---- */

/* A value that makes no sense has no name, so that no server saves for it and the next asker
 * replaces it. */
static void read_set(const struct ps_kv_entries *entries, struct ps_set *set)
{
    *set = (struct ps_set){0};
    if (entries->count == 0)
        return;
    /* Half of what was parsed would pass for a set. */
    if (!parse(&entries->entries[0], set))
        *set = (struct ps_set){0};
    set->revision = entries->entries[0].modify_revision;
}

/* "<shards> <unix ns> <name>", each in the one form in which it is written. */
static bool parse(const struct ps_kv_entry *entry, struct ps_set *set)
{
    char text[VALUE_BYTES];
    uint64_t shard_count = 0;
    if (entry->value_size >= sizeof text || memchr(entry->value, '\0', entry->value_size) != NULL)
        return false;
    /* The pieces are cut in a copy, since the value belongs to the entry. */
    memcpy(text, entry->value, entry->value_size);
    text[entry->value_size] = '\0';
    char *first = strchr(text, ' ');
    char *second = first != NULL ? strchr(first + 1, ' ') : NULL;
    if (second == NULL)
        return false;
    /* The name is the rest, which may not have a third space. */
    *first = '\0';
    *second = '\0';
    if (!ps_quantity_number(text, &shard_count) || shard_count == 0 ||
        shard_count > PS_SHARDS_MAX || !ps_quantity_number(first + 1, &set->asked_unix_ns) ||
        ps_set_name_check(second + 1, NULL) != PS_OK)
        return false;
    set->shard_count = (uint32_t)shard_count;
    (void)snprintf(set->name, sizeof set->name, "%s", second + 1);
    return true;
}

/* No key is an answer, and not a failure: most of the time nothing is wanted. */
enum ps_status ps_registry_wanted_set(struct ps_registry *registry, uint64_t deadline_ms,
                                      struct ps_set *set, struct ps_error *error)
{
    struct ps_registry_key key = wanted_key(registry);
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &entries, error));
    read_set(&entries, set);
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* The revision of a mark that is written once is its create revision as well. */
enum ps_status ps_registry_whole_set(struct ps_registry *registry, const char *name,
                                     uint64_t deadline_ms, struct ps_set *set,
                                     struct ps_error *error)
{
    struct ps_registry_key key = mark_key(registry, name);
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &entries, error));
    read_set(&entries, set);
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* Sorted while it is read: a handful, which stay in the order of their marks. */
enum ps_status ps_registry_whole_sets(struct ps_registry *registry, uint64_t deadline_ms,
                                      struct ps_set_list *list, struct ps_error *error)
{
    /* An empty name gives what every mark begins with. */
    struct ps_registry_key prefix = mark_key(registry, "");
    struct ps_kv_entries entries;
    list->count = 0;
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &entries, error));
    for (size_t i = 0; i < entries.count; i++) {
        /* Zeroed for each: a value that makes no sense may leave half of it filled. */
        struct ps_set set = {0};
        /* The value names the set as its key does, or somebody else has written it. */
        if (!parse(&entries.entries[i], &set) ||
            strcmp(set.name, entries.entries[i].key + strlen(prefix.text)) != 0)
            continue;
        set.revision = entries.entries[i].create_revision;
        /* Insertion from the end: marks mostly come in the order in which they were put. */
        size_t place = list->count;
        while (place > 0 && list->sets[place - 1].revision < set.revision)
            place--;
        /* Older than all of a list that is full. */
        if (place == PS_ARRAY_COUNT(list->sets))
            continue;
        if (list->count == PS_ARRAY_COUNT(list->sets))
            list->count--;
        memmove(&list->sets[place + 1], &list->sets[place],
                (list->count - place) * sizeof list->sets[0]);
        list->sets[place] = set;
        list->count++;
    }
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* With the slash at the end, so that the rows of "a" are not those of "ab". */
enum ps_status ps_registry_set_rows(struct ps_registry *registry, const char *name,
                                    uint64_t deadline_ms, struct ps_kv_entries *entries,
                                    struct ps_error *error)
{
    struct ps_registry_key prefix = ps_registry_key(registry, "/checkpoints/model/%s/", name);
    return ps_kv_read(registry->kv, prefix.text, true, deadline_ms, entries, error);
}

/* "01" is not 1: each row has one key. */
bool ps_set_row_index(const struct ps_kv_entry *entry, uint32_t shard_count, uint32_t *index)
{
    PS_ASSERT(shard_count > 0);
    /* Names have no slash: the last one of the key stands before the shard. */
    const char *number = strrchr(entry->key, '/');
    return number != NULL &&
           ps_registry_number(ps_bytes_of_text(number + 1), shard_count - 1, index);
}

/* Keys are unique, so that each row is another shard's. */
uint32_t ps_set_rows_count(const struct ps_kv_entries *entries, uint32_t shard_count)
{
    uint32_t count = 0;
    for (size_t i = 0; i < entries->count; i++) {
        uint32_t index = 0;
        count += ps_set_row_index(&entries->entries[i], shard_count, &index);
    }
    return count;
}

/* An absent row is a fact of its own for callers: the shard is not done. */
enum ps_status ps_registry_set_row(struct ps_registry *registry, const char *name, uint32_t index,
                                   uint64_t deadline_ms, struct ps_kv_entries *entries,
                                   struct ps_error *error)
{
    struct ps_registry_key key =
        ps_registry_key(registry, "/checkpoints/model/%s/%" PRIu32, name, index);
    struct ps_kv_entries found;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &found, error));
    /* Released also when it is empty: a read that succeeded owns its array. */
    if (found.count == 0) {
        ps_kv_entries_release(&found);
        return ps_fail(error, PS_ERR_NOT_FOUND, "set %s has no row of shard %" PRIu32, name, index);
    }
    *entries = found;
    return PS_OK;
}

/* ---- Asking ---- */

/* A set that takes so long waits for a shard that has no server, and nobody may wait with it for
 * ever. One that was asked for so long from now is of a wrong clock, by which it would never be
 * old. One of another number of shards is of a job that was resharded since. */
static bool is_given_up(const struct ps_set *wanted, const struct ps_set *wish)
{
    uint64_t then = wanted->asked_unix_ns, now = wish->asked_unix_ns;
    return wanted->name[0] == '\0' || wanted->shard_count != wish->shard_count ||
           (now > then ? now - then : then - now) > PS_SET_PATIENCE_NS;
}

/* Each turn reads what holds; a write whose answer was lost is found by the next one. */
enum ps_status ps_registry_want_set(struct ps_registry *registry, const struct ps_set *wish,
                                    uint64_t deadline_ms, struct ps_set *set, bool *is_whole,
                                    struct ps_error *error)
{
    PS_ASSERT(wish->shard_count > 0 && ps_set_name_check(wish->name, NULL) == PS_OK);
    /* Once a write went unanswered, no later failure may say that nothing was written. */
    bool unknown = false;
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        struct ps_set wanted;
        enum ps_status status =
            ps_registry_whole_set(registry, wish->name, deadline_ms, set, error);
        *is_whole = set->revision != 0;
        if (status == PS_OK && !*is_whole)
            status = ps_registry_wanted_set(registry, deadline_ms, &wanted, error);
        if (status != PS_OK)
            return ps_registry_failed(status, unknown, error);
        /* The caller has the mark's own time, by which a set of yesterday shows. */
        if (*is_whole)
            return PS_OK;
        /* A set that was given up counts as none: the transaction below replaces it. */
        bool is_there = wanted.revision != 0 && !is_given_up(&wanted, wish);
        if (is_there && strcmp(wanted.name, wish->name) == 0) {
            *set = wanted;
            return PS_OK;
        }
        if (is_there)
            return ps_fail(error, PS_ERR_BUSY, "set %s is under way: one at a time", wanted.name);
        status = put_wanted(registry, wish, &wanted, deadline_ms, error);
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = unknown || status == PS_ERR_TIMEOUT;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "set %s could not be asked for", wish->name);
}

/* Takes rows away, as many as one transaction holds, while /ps_wanted is as it was seen. `*done` is
 * false when it is not. */
static enum ps_status delete_rows(struct ps_registry *registry,
                                  const struct ps_kv_compare *condition,
                                  const struct ps_kv_entries *rows, size_t first, size_t count,
                                  uint64_t deadline_ms, bool *done, struct ps_error *error)
{
    PS_ASSERT(count <= PS_KV_CHANGES_MAX && first + count <= rows->count);
    /* Deleting a row that is gone already changes nothing, so that a repeat does no harm. */
    struct ps_kv_change changes[PS_KV_CHANGES_MAX];
    int64_t revision = 0;
    for (size_t i = 0; i < count; i++)
        changes[i] =
            (struct ps_kv_change){.kind = PS_KV_DELETE, .key = rows->entries[first + i].key};
    const struct ps_kv_transaction transaction = {condition, 1, changes, count};
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, done, &revision, error);
}

/* All of them, in as many transactions as that takes: a set has a row for each shard. */
static enum ps_status delete_all(struct ps_registry *registry,
                                 const struct ps_kv_compare *condition,
                                 const struct ps_kv_entries *rows, uint64_t deadline_ms, bool *done,
                                 struct ps_error *error)
{
    /* Also when there is nothing to delete. */
    *done = true;
    for (size_t i = 0; *done && i < rows->count; i += PS_KV_CHANGES_MAX) {
        size_t left = rows->count - i;
        PS_TRY(delete_rows(registry, condition, rows, i,
                           left < PS_KV_CHANGES_MAX ? left : PS_KV_CHANGES_MAX, deadline_ms, done,
                           error));
    }
    return PS_OK;
}

/* The same text under both keys, so that a mark says when its set was asked for. */
static struct ps_bytes value_of(const struct ps_set *set, char text[VALUE_BYTES])
{
    (void)snprintf(text, VALUE_BYTES, "%" PRIu32 " %" PRIu64 " %s", set->shard_count,
                   set->asked_unix_ns, set->name);
    return ps_bytes_of_text(text);
}

/* Rows of a set of the same name that was given up go first: they are of instants before this
 * asking. Whether it was done the caller finds out by reading. */
static enum ps_status put_wanted(struct ps_registry *registry, const struct ps_set *wish,
                                 const struct ps_set *before, uint64_t deadline_ms,
                                 struct ps_error *error)
{
    struct ps_registry_key key = wanted_key(registry);
    struct ps_registry_key mark = mark_key(registry, wish->name);
    const struct ps_kv_compare compares[] = {{key.text, PS_KV_MODIFIED_AT, before->revision},
                                             {mark.text, PS_KV_CREATED_AT, 0}};
    struct ps_kv_entries rows;
    /* Usually there are none, and nothing is deleted. */
    bool done = true;
    PS_TRY(ps_registry_set_rows(registry, wish->name, deadline_ms, &rows, error));
    enum ps_status status = delete_all(registry, compares, &rows, deadline_ms, &done, error);
    ps_kv_entries_release(&rows);
    /* Somebody was quicker: the caller reads what holds now. */
    if (status != PS_OK || !done)
        return status;
    /* Without a lease: whoever asked may be gone, and the servers go on. */
    char text[VALUE_BYTES];
    int64_t revision = 0;
    const struct ps_kv_change put = {PS_KV_PUT, key.text, value_of(wish, text), {0}};
    const struct ps_kv_transaction transaction = {compares, 2, &put, 1};
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error);
}

/* ---- Ending ---- */

/* Counted by reading all rows: whoever puts the last one finds the others there, so that no set is
 * left unmarked, and a mark that another has put meanwhile fails the compare. */
enum ps_status ps_registry_finish_set(struct ps_registry *registry, const struct ps_set *wanted,
                                      uint64_t deadline_ms, bool *is_whole, struct ps_error *error)
{
    PS_ASSERT(wanted->revision != 0 && wanted->name[0] != '\0');
    *is_whole = false;
    /* Of the rows their keys count: what a row says was proved by the transaction that put it. */
    struct ps_kv_entries rows;
    PS_TRY(ps_registry_set_rows(registry, wanted->name, deadline_ms, &rows, error));
    uint32_t count = ps_set_rows_count(&rows, wanted->shard_count);
    ps_kv_entries_release(&rows);
    /* Whoever puts the missing row counts again. */
    if (count < wanted->shard_count)
        return PS_OK;
    struct ps_registry_key key = wanted_key(registry);
    struct ps_registry_key mark = mark_key(registry, wanted->name);
    char text[VALUE_BYTES];
    int64_t revision = 0;
    /* The rows cannot go in between: whoever takes them away changes /ps_wanted before or after. */
    const struct ps_kv_compare compares[] = {{key.text, PS_KV_MODIFIED_AT, wanted->revision},
                                             {mark.text, PS_KV_CREATED_AT, 0}};
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, mark.text, value_of(wanted, text), {0}},
        {PS_KV_DELETE, key.text, {NULL, 0}, {0}},
    };
    const struct ps_kv_transaction transaction = {compares, 2, changes, 2};
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, is_whole, &revision, error);
}

/* Is this row one of a set that stays? By the name in its key, which ends at the next slash. */
static bool stays(const struct ps_kv_entry *row, size_t prefix_size, const struct ps_set_list *list,
                  size_t keep, const struct ps_set *wanted)
{
    /* The key goes on with the set's name and the shard. */
    const char *name = row->key + prefix_size;
    size_t size = strcspn(name, "/");
    for (size_t i = 0; i < list->count && i < keep; i++)
        if (strlen(list->sets[i].name) == size && memcmp(list->sets[i].name, name, size) == 0)
            return true;
    return strlen(wanted->name) == size && memcmp(wanted->name, name, size) == 0;
}

/* Marks go before rows: a set without its mark is not there, and its rows are found by this. */
static enum ps_status delete_marks(struct ps_registry *registry, const struct ps_set_list *list,
                                   size_t keep, const struct ps_kv_compare *condition,
                                   uint64_t deadline_ms, bool *done, struct ps_error *error)
{
    *done = true;
    for (size_t i = keep; *done && i < list->count; i++) {
        /* The list is newest first: from `keep` on they are too many. */
        struct ps_registry_key mark = mark_key(registry, list->sets[i].name);
        const struct ps_kv_change gone = {PS_KV_DELETE, mark.text, {NULL, 0}, {0}};
        const struct ps_kv_transaction transaction = {condition, 1, &gone, 1};
        int64_t revision = 0;
        PS_TRY(ps_kv_commit(registry->kv, &transaction, deadline_ms, done, &revision, error));
    }
    return PS_OK;
}

/* Whatever is asked for meanwhile changes /ps_wanted, and the rest is left to the next sweep. */
enum ps_status ps_registry_sweep_sets(struct ps_registry *registry, size_t keep,
                                      uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(keep > 0);
    struct ps_registry_key key = wanted_key(registry);
    struct ps_registry_key prefix = ps_registry_key(registry, "/checkpoints/model/");
    struct ps_set wanted;
    /* Read before anything is deleted, in the order in which a set comes to be. */
    struct ps_set_list list;
    struct ps_kv_entries rows;
    bool done = false;
    /* The rows of the one under way stay, and every deletion demands that it still is. */
    PS_TRY(ps_registry_wanted_set(registry, deadline_ms, &wanted, error));
    PS_TRY(ps_registry_whole_sets(registry, deadline_ms, &list, error));
    const struct ps_kv_compare unchanged = {key.text, PS_KV_MODIFIED_AT, wanted.revision};
    PS_TRY(delete_marks(registry, &list, keep, &unchanged, deadline_ms, &done, error));
    if (!done)
        return PS_OK;
    /* All sets at once: rows whose set nobody names any more are found in no other way. */
    PS_TRY(ps_kv_read(registry->kv, prefix.text, true, deadline_ms, &rows, error));
    enum ps_status status = PS_OK;
    /* One by one: after the first sweep there is one set of rows to take away, and nobody waits. */
    for (size_t i = 0; status == PS_OK && done && i < rows.count; i++)
        if (!stays(&rows.entries[i], strlen(prefix.text), &list, keep, &wanted))
            status = delete_rows(registry, &unchanged, &rows, i, 1, deadline_ms, &done, error);
    ps_kv_entries_release(&rows);
    return status;
}
