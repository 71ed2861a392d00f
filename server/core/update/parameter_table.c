/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table over uthash, which appears nowhere else. The table keeps sums of what its parameters
 * take, so that limits and metrics never walk over all of them; ps_parameter_table_check adds them
 * up again and compares. */
#include "server/core/update/parameter_table.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "server/core/update/parameter_rows.h"

/* uthash takes its memory from the table's allocator, and a refusal leaves the table as it was. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(table->memory, (size))
#define uthash_free(pointer, size) ps_release(table->memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

struct ps_parameter_entry {
    struct ps_parameter *parameter; /* owned */
    UT_hash_handle hh;
};

static void count_parameter(struct ps_parameter_table *table, const struct ps_parameter *parameter);
static void uncount_parameter(struct ps_parameter_table *table,
                              const struct ps_parameter *parameter);
static struct ps_parameter_entry *find_entry(const struct ps_parameter_table *table,
                                             struct ps_bytes name);
struct expected;
static void expect_parameters(const struct expected *expected, size_t count, ptrdiff_t offset);

/* No memory before the first parameter. */
void ps_parameter_table_init(struct ps_parameter_table *table, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    *table = (struct ps_parameter_table){.memory = memory};
}

/* Left as init left it: a shard that is lost begins again with the same table. */
void ps_parameter_table_fini(struct ps_parameter_table *table)
{
    struct ps_parameter_entry *entry;
    struct ps_parameter_entry *following;
    HASH_ITER(hh, table->entries, entry, following)
    {
        /* Out of the table first: the key lies in the parameter. */
        HASH_DEL(table->entries, entry);
        ps_parameter_destroy(entry->parameter);
        ps_release(table->memory, entry);
    }
    /* The sums are 0 again, as they have to be without parameters. */
    ps_parameter_table_init(table, table->memory);
}

/* A reference into the table: the caller holds the cut for as long as it uses the parameter. */
struct ps_parameter *ps_parameter_table_find(const struct ps_parameter_table *table,
                                             struct ps_bytes name)
{
    struct ps_parameter_entry *entry = find_entry(table, name);
    PS_ASSERT(entry == NULL || entry->parameter != NULL);
    return entry != NULL ? entry->parameter : NULL;
}

static struct ps_parameter_entry *find_entry(const struct ps_parameter_table *table,
                                             struct ps_bytes name)
{
    struct ps_parameter_entry *entry;
    HASH_FIND(hh, table->entries, name.data, name.size, entry);
    return entry;
}

/* ---- Looking ahead in steps, each for all names, on lines that the one before has fetched ---- */

enum { CACHE_LINE_BYTES = 64 };

/* Asks for the lines and does not wait; an address that is not there costs nothing but the
 * asking. */
static void fetch(const void *memory, size_t size)
{
    for (size_t i = 0; i < size; i += CACHE_LINE_BYTES)
        PS_PREFETCH((const uint8_t *)memory + i);
}

/* Where to look for a name. */
struct expected {
    unsigned hash;
    const UT_hash_bucket *bucket;
    const UT_hash_handle *handle; /* NULL: there is none */
};

/* The next handle, unless this is (most likely) the right one already: names are not compared here,
 * which would wait for their bytes. */
static void follow(struct expected *name)
{
    if (name->handle == NULL || name->handle->hashv == name->hash)
        return;
    name->handle = name->handle->hh_next;
    PS_PREFETCH(name->handle);
}

/* Few chains are longer than this; who stands behind is found all the same, later. */
enum { FOLLOWED = 3 };

/* A lookup is a chain of reads, each of whose addresses the one before has brought: bucket, handle,
 * parameter, spec, name. One after the other they wait for memory five times for each name. Here
 * every link of the chain is asked for all names before the next link is, so the waits of all of
 * them overlap; the lookups behind it then find everything in the cache. */
void ps_parameter_table_expect(const struct ps_parameter_table *table, const struct ps_bytes *names,
                               size_t count)
{
    struct expected expected[PS_EXPECTED_NAMES_MAX];
    PS_ASSERT(count <= PS_EXPECTED_NAMES_MAX);
    if (table->entries == NULL)
        return;
    /* The hash is computed with uthash's own macros: it has to be the one of the lookup to come. */
    const UT_hash_table *index = table->entries->hh.tbl;
    PS_ASSERT(index->num_buckets > 0);
    for (size_t i = 0; i < count; i++) {
        unsigned place;
        HASH_VALUE(names[i].data, names[i].size, expected[i].hash);
        HASH_TO_BKT(expected[i].hash, index->num_buckets, place);
        expected[i].bucket = &index->buckets[place];
        PS_PREFETCH(expected[i].bucket);
    }
    for (size_t i = 0; i < count; i++) {
        expected[i].handle = expected[i].bucket->hh_head;
        PS_PREFETCH(expected[i].handle);
    }
    for (size_t step = 0; step < FOLLOWED; step++)
        for (size_t i = 0; i < count; i++)
            follow(&expected[i]);
    expect_parameters(expected, count, index->hho);
}

/* The last two links: the parameter with its lock, then the spec and the name, which the lookup
 * compares and the push reads. A wrong guess (two names of one hash) fetches what nobody needs. */
static void expect_parameters(const struct expected *expected, size_t count, ptrdiff_t offset)
{
    const struct ps_parameter *parameters[PS_EXPECTED_NAMES_MAX];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const UT_hash_handle *handle = expected[i].handle;
        if (handle == NULL || handle->hashv != expected[i].hash)
            continue;
        /* A handle lies within its entry, at an offset that uthash knows. */
        const void *entry = (const uint8_t *)handle - offset;
        parameters[found] = ((const struct ps_parameter_entry *)entry)->parameter;
        PS_ASSERT(parameters[found] != NULL);
        fetch(parameters[found++], sizeof(struct ps_parameter));
    }
    PS_ASSERT(found <= count);
    for (size_t i = 0; i < found; i++)
        fetch(parameters[i]->spec, sizeof *parameters[i]->spec + CACHE_LINE_BYTES); /* the name */
}

/* A parameter that was initialised twice replaces the first in its place: the order of insertion is
 * the order in which checkpoints list parameters, and a repeat does not change it. The old one is
 * handed back and not destroyed here, since the caller holds the cut, and freeing blocks takes
 * time. */
enum ps_status ps_parameter_table_insert(struct ps_parameter_table *table,
                                         struct ps_parameter *parameter,
                                         struct ps_parameter **replaced)
{
    struct ps_bytes name = parameter->spec->name;
    struct ps_parameter_entry *old = find_entry(table, name);
    *replaced = NULL;
    if (old != NULL) {
        /* The sums first: they are taken from the old parameter while it is still there. */
        *replaced = old->parameter;
        uncount_parameter(table, old->parameter);
        /* The entry stays, and with it its place in the order. */
        old->parameter = parameter;
        /* uthash keeps a pointer to the key, which lives in the parameter. */
        old->hh.key = name.data;
        count_parameter(table, parameter);
        return PS_OK;
    }

    struct ps_parameter_entry *fresh = ps_zeroed(table->memory, sizeof *fresh);
    if (fresh == NULL)
        return PS_ERR_NO_MEMORY;
    fresh->parameter = parameter;
    /* uthash says by this flag that memory was refused (uthash_nonfatal_oom above). */
    bool refused = false;
    HASH_ADD_KEYPTR(hh, table->entries, name.data, name.size, fresh);
    if (refused) {
        ps_release(table->memory, fresh);
        return PS_ERR_NO_MEMORY;
    }
    count_parameter(table, parameter);
    return PS_OK;
}

/* Handed back and not destroyed here, for the same reason. */
struct ps_parameter *ps_parameter_table_remove(struct ps_parameter_table *table,
                                               struct ps_bytes name)
{
    struct ps_parameter_entry *entry = find_entry(table, name);
    if (entry == NULL)
        return NULL;
    struct ps_parameter *parameter = entry->parameter;
    /* The sums while the parameter is still whole; then the key goes, which lies in it. */
    uncount_parameter(table, parameter);
    PS_ASSERT(ps_bytes_equal(parameter->spec->name, name));
    HASH_DEL(table->entries, entry);
    ps_release(table->memory, entry);
    return parameter;
}

/* The key lies in the spec, and the sums count the length of the configuration: both change with
 * it. The parameter's own lock need not be held, since nobody has the parameter while the cut is
 * held alone. */
struct ps_parameter_spec *ps_parameter_table_configure(struct ps_parameter_table *table,
                                                       struct ps_parameter *parameter,
                                                       struct ps_parameter_spec *spec)
{
    struct ps_parameter_spec *former = parameter->spec;
    struct ps_parameter_entry *entry = find_entry(table, former->name);
    PS_ASSERT(entry != NULL && entry->parameter == parameter);
    PS_ASSERT(ps_parameter_spec_is_same(former, spec));
    uncount_parameter(table, parameter);
    parameter->spec = spec;
    entry->hh.key = spec->name.data;
    count_parameter(table, parameter);
    return former;
}

/* Rows of a table come and go without the table of names: they count in row_room.h. */
static size_t array_bytes(const struct ps_parameter *parameter)
{
    PS_ASSERT(parameter->spec->count > 0);
    return parameter->rows != NULL ? 0 : ps_parameter_spec_bytes(parameter->spec);
}

/* Both functions touch the same sums in the same order: a sum is added to one of them only together
 * with the other. */
static void count_parameter(struct ps_parameter_table *table, const struct ps_parameter *parameter)
{
    size_t bytes = array_bytes(parameter);
    table->count++;
    table->value_bytes += bytes;
    table->state_bytes += bytes * ps_parameter_state_count(parameter);
    table->host_bytes += ps_parameter_host_bytes(parameter);
    table->resident_count += ps_parameter_on_device(parameter);
    table->expiring_count += ps_parameter_rows_expire(parameter);
    table->header_bytes += parameter->spec->header_bytes;
}

static void uncount_parameter(struct ps_parameter_table *table,
                              const struct ps_parameter *parameter)
{
    size_t bytes = array_bytes(parameter);
    PS_ASSERT(table->count > 0);
    PS_ASSERT(table->value_bytes >= bytes);
    table->count--;
    table->value_bytes -= bytes;
    table->state_bytes -= bytes * ps_parameter_state_count(parameter);
    table->host_bytes -= ps_parameter_host_bytes(parameter);
    table->resident_count -= ps_parameter_on_device(parameter);
    table->expiring_count -= ps_parameter_rows_expire(parameter);
    table->header_bytes -= parameter->spec->header_bytes;
}

/* uthash keeps its entries in the order of insertion, as a list; that is the order of a walk. */
struct ps_parameter_entry *ps_parameter_table_first(const struct ps_parameter_table *table)
{
    return table->entries;
}

struct ps_parameter_entry *ps_parameter_table_next(const struct ps_parameter_entry *entry)
{
    return entry->hh.next;
}

struct ps_parameter *ps_parameter_entry_parameter(const struct ps_parameter_entry *entry)
{
    PS_ASSERT(entry->parameter != NULL);
    return entry->parameter;
}

/* The sums again from nothing, and every parameter by its name: after a replacement the key must be
 * that of the new parameter, whose memory lives on. */
void ps_parameter_table_check(const struct ps_parameter_table *table)
{
    PS_ASSERT(table->count == HASH_COUNT(table->entries));
    uint64_t value_bytes = 0;
    uint64_t state_bytes = 0;
    uint64_t host_bytes = 0;
    for (struct ps_parameter_entry *entry = table->entries; entry != NULL; entry = entry->hh.next) {
        struct ps_parameter *parameter = entry->parameter;
        ps_parameter_check(parameter);
        PS_ASSERT(ps_parameter_table_find(table, parameter->spec->name) == parameter);
        value_bytes += array_bytes(parameter);
        state_bytes += array_bytes(parameter) * ps_parameter_state_count(parameter);
        host_bytes += ps_parameter_host_bytes(parameter);
    }
    PS_ASSERT(table->value_bytes == value_bytes);
    PS_ASSERT(table->state_bytes == state_bytes);
    PS_ASSERT(table->host_bytes == host_bytes);
}
