/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: rows of tables that are read and added to. Reading and adding alone are the same
 * call with one half of it empty: whatever holds for one of the three holds for the others.
 *
 * Where a table keeps rows (psclient_table_cache), a call goes around its messages in three steps:
 * keys that are added to leave the cache, the messages go and are answered, and what was read is
 * kept. The lock is held in the first step and the last, never while a server is waited for. */
#include "client/psclient.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "client/status_map.h"
#include "client/table_call.h"

#include <string.h>

/* Rows of a read that were not in the cache, in the order of the caller's keys: they are asked of
 * the servers as a list of their own, and put to their places when they have come. The ticket says
 * whether an addition of another thread came meanwhile: such rows are not kept. */
struct missing {
    size_t *places; /* owned; among the caller's */
    uint64_t *keys; /* owned */
    uint8_t *rows;  /* owned */
    size_t count;
    uint64_t ticket;
};

static int read_cached(const struct ps_table_call *call, const struct ps_table_rows *gets,
                       struct psclient_error *error);

/* An addition is around its push for the cache, whatever becomes of it: also one that failed may
 * have been applied, or may be a moment later. */
static int run_cached(const struct ps_table_call *call, const struct ps_table_rows *adds,
                      const struct ps_table_rows *gets, struct psclient_error *error)
{
    static const struct ps_table_rows none = {.count = 0};
    struct psclient_table *table = call->table;
    /* Only reads at clocks say how old a row may be. */
    bool is_cached = call->worker != 0 && gets->count > 0;
    PS_ASSERT(table->cache != NULL);
    /* Before the push leaves: from here on no other thread may read what is kept of these keys, or
     * it would see the row without what this one has said it adds. */
    if (adds->count > 0) {
        ps_mutex_lock(&table->mutex);
        ps_row_cache_add_begin(table->cache, adds->keys, adds->count);
        ps_mutex_unlock(&table->mutex);
    }
    /* A read at a clock is made behind the push in any case, so that nothing is lost by splitting
     * the call here. */
    int result = ps_table_call_run(call, adds, is_cached ? &none : gets, error);
    if (adds->count > 0) {
        ps_mutex_lock(&table->mutex);
        ps_row_cache_add_end(table->cache);
        ps_mutex_unlock(&table->mutex);
    }
    return result == PSCLIENT_OK && is_cached ? read_cached(call, gets, error) : result;
}

/* What is there goes to the caller at once. False: there was no memory for the others. */
static bool find_cached(const struct ps_table_call *call, const struct ps_table_rows *gets,
                        struct missing *missing)
{
    struct psclient_table *table = call->table;
    const struct ps_allocator *memory = call->client->memory;
    uint8_t *rows = gets->rows;
    missing->places = ps_plain(memory, gets->count * sizeof *missing->places);
    /* As long as all keys, since nobody knows yet how many are missing. */
    if (missing->places == NULL)
        return false;
    /* The ticket is of before the question: an addition that begins later makes it worthless. */
    ps_mutex_lock(&table->mutex);
    missing->ticket = ps_row_cache_begin(table->cache);
    for (size_t i = 0; i < gets->count; i++)
        if (!ps_row_cache_find(table->cache, gets->keys[i], call->clock,
                               rows + i * table->row_bytes))
            missing->places[missing->count++] = i;
    ps_mutex_unlock(&table->mutex);
    /* Of those alone: mostly they are few, which is what a cache is for. */
    missing->keys = ps_plain(memory, missing->count * sizeof *missing->keys);
    missing->rows = ps_plain(memory, missing->count * table->row_bytes);
    if (missing->keys == NULL || missing->rows == NULL)
        return false;
    for (size_t i = 0; i < missing->count; i++)
        missing->keys[i] = gets->keys[missing->places[i]];
    return true;
}

/* The clock is that of the question: the rows are of no earlier one. They may be of a later one,
 * which serves longer than it is used here. */
static void keep(const struct ps_table_call *call, const struct ps_table_rows *gets,
                 const struct missing *missing)
{
    struct psclient_table *table = call->table;
    uint8_t *rows = gets->rows;
    ps_mutex_lock(&table->mutex);
    for (size_t i = 0; i < missing->count; i++) {
        /* To the caller in any case, and into the cache if it takes the row. */
        const uint8_t *row = missing->rows + i * table->row_bytes;
        memcpy(rows + missing->places[i] * table->row_bytes, row, table->row_bytes);
        ps_row_cache_keep(table->cache, missing->ticket, missing->keys[i], call->clock, row);
    }
    ps_mutex_unlock(&table->mutex);
}

/* A read that finds everything asks nobody, and so waits for no clock. */
static int read_cached(const struct ps_table_call *call, const struct ps_table_rows *gets,
                       struct psclient_error *error)
{
    const struct ps_allocator *memory = call->client->memory;
    const struct ps_table_rows none = {.count = 0};
    /* Released whatever came of it, and zero where nothing was had. */
    struct missing missing = {0};
    int result = find_cached(call, gets, &missing)
                     ? PSCLIENT_OK
                     : ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for the rows of a read");
    const struct ps_table_rows asked = {
        .keys = missing.keys, .count = missing.count, .rows = missing.rows};
    if (result == PSCLIENT_OK)
        result = ps_table_call_run(call, &none, &asked, error);
    /* Of a read that failed nothing is kept: which of its rows came, nobody knows. */
    if (result == PSCLIENT_OK)
        keep(call, gets, &missing);
    ps_release(memory, missing.rows);
    ps_release(memory, missing.keys);
    ps_release(memory, missing.places);
    return result;
}

/* One deadline for all that the call sends. */
static int run(struct psclient_table *table, const struct ps_table_rows *adds,
               const struct ps_table_rows *gets, uint64_t timeout_ms, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct ps_table_call call;
    enum ps_status status = ps_table_call_begin(table, timeout_ms, &call, &why);
    /* A child of a fork, whose parent may have held the lock at that moment. */
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    /* Whether there is a cache changes only while no call runs. */
    return table->cache != NULL ? run_cached(&call, adds, gets, error)
                                : ps_table_call_run(&call, adds, gets, error);
}

/* What is read is whatever the servers have when they are asked, or what the clocks allow. */
PS_EXPORT int psclient_table_get(struct psclient_table *table, const uint64_t *keys, size_t count,
                                 void *rows, uint64_t timeout_ms, struct psclient_error *error)
{
    const struct ps_table_rows adds = {.count = 0};
    const struct ps_table_rows gets = {.keys = keys, .count = count, .rows = rows};
    return run(table, &adds, &gets, timeout_ms, error);
}

/* Applied when this returns; how safely is the client's `ack`, as of every push. */
PS_EXPORT int psclient_table_add(struct psclient_table *table, const uint64_t *keys, size_t count,
                                 const void *gradients, uint64_t timeout_ms,
                                 struct psclient_error *error)
{
    const struct ps_table_rows adds = {.keys = keys, .count = count, .gradients = gradients};
    const struct ps_table_rows gets = {.count = 0};
    return run(table, &adds, &gets, timeout_ms, error);
}

/* The keys of the two halves have nothing to do with each other: a trainer adds the gradients of
 * one batch and reads the rows of the next one. The read sees what the call has added, where both
 * have the same key. */
PS_EXPORT int psclient_table_add_get(struct psclient_table *table, const uint64_t *add_keys,
                                     size_t add_count, const void *gradients,
                                     const uint64_t *get_keys, size_t get_count, void *rows,
                                     uint64_t timeout_ms, struct psclient_error *error)
{
    const struct ps_table_rows adds = {
        .keys = add_keys, .count = add_count, .gradients = gradients};
    const struct ps_table_rows gets = {.keys = get_keys, .count = get_count, .rows = rows};
    return run(table, &adds, &gets, timeout_ms, error);
}

/* The old rows go in any case: what is kept from now on has another bound. */
PS_EXPORT int psclient_table_cache(struct psclient_table *table, uint64_t rows_max,
                                   uint64_t staleness, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = PS_OK;
    ps_row_cache_destroy(table->cache);
    table->cache = NULL;
    if (rows_max > 0)
        status = ps_row_cache_create(table->client->memory, rows_max, table->row_bytes, staleness,
                                     &table->cache, &why);
    if (table->cache != NULL && table->worker != 0)
        ps_row_cache_at(table->cache, table->clocks, table->worker, table->clock);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* Zeros where nothing is kept. */
PS_EXPORT void psclient_table_get_cached(struct psclient_table *table,
                                         struct psclient_table_cached *cached)
{
    struct ps_row_cache_counts counts = {0};
    ps_mutex_lock(&table->mutex);
    if (table->cache != NULL)
        counts = ps_row_cache_counts(table->cache);
    ps_mutex_unlock(&table->mutex);
    *cached = (struct psclient_table_cached){counts.rows, counts.found, counts.missed};
}
