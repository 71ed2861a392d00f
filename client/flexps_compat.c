/* SPDX-License-Identifier: Apache-2.0 */
/* FlexPS's tables on top of the public functions: no rule of the client lives here. A handle knows
 * its worker and its clock, as one in FlexPS does. */
#include "client/flexps_compat.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "base/buffer.h"
#include "client/status_map.h"
#include "proto/optimizer_config.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <string.h>

enum { TIMEOUT_MS = 600000, CONFIG_BYTES = 256 };

/* Adds of one iteration, one behind the other. */
struct ps_kv_adds {
    uint64_t *keys; /* owned, as the rows are */
    char *rows;
    size_t count, room;
};

struct ps_kv_table {
    struct psclient *client; /* borrowed */
    struct psclient_table *rows;
    char name[65];
    uint32_t worker; /* 1 + its rank */
    uint64_t task;
    uint64_t clock;
    uint64_t timeout_ms;
    /* Under BSP: what is added in this iteration, and does the next Get wait for its end? */
    bool is_bsp, is_open;
    struct ps_kv_adds adds;
};

struct ps_sparse_kv_table {
    struct ps_kv_table *table;
    const struct ps_kv_keys *sets; /* borrowed */
    size_t set_count;
    uint32_t speculation;
    size_t gets;
    size_t adds;
    struct psclient_rows_ahead **reads; /* of the sets, in their order; NULL: not on its way */
    float **rows;                       /* where they go */
};

static uint64_t timeout_of(const struct ps_kv_table_options *options)
{
    return options->timeout_ms == 0 ? TIMEOUT_MS : options->timeout_ms;
}

/* The field of an OptimizerConfig that says it, for a change: zeros are written, too, and take the
 * place of what a table of an earlier task has. No workers: no rounds. */
static int set_rounds(struct psclient *client, const struct ps_kv_table_options *options,
                      struct psclient_error *error)
{
    enum { ROUNDS_FIELD = 210, WORKERS = 1 << 3, QUORUM = 2 << 3, COMBINE = 4 << 3, SUM = 1 };
    const uint8_t none[] = {WORKERS, 0, QUORUM, 0};
    const uint8_t sums[] = {QUORUM, 0, COMBINE, SUM};
    const char *const names[] = {options->name};
    bool is_bsp = options->model == PSCLIENT_BSP;
    /* Where the table has these already nothing changes, so that every worker may say so. */
    char rounds_room[32], change_room[48];
    struct ps_buffer rounds, change;
    ps_buffer_init_fixed(&rounds, rounds_room, sizeof rounds_room);
    ps_buffer_init_fixed(&change, change_room, sizeof change_room);
    if (is_bsp)
        ps_wire_put_uint(&rounds, WORKERS >> 3, options->workers);
    ps_buffer_append(&rounds, is_bsp ? (struct ps_bytes){sums, sizeof sums}
                                     : (struct ps_bytes){none, sizeof none});
    ps_wire_put_bytes(&change, ROUNDS_FIELD,
                      (struct ps_bytes){(const uint8_t *)rounds.text, rounds.size});
    PS_ASSERT(!rounds.failed && !change.failed);
    return psclient_configure(client, names, 1, change.text, change.size, timeout_of(options), NULL,
                              NULL, error);
}

/* The table first: clocks without it would let workers begin that find nothing. */
PS_EXPORT int ps_kv_table_define(struct psclient *client, const struct ps_kv_table_options *options,
                                 struct psclient_error *error)
{
    char room[CONFIG_BYTES];
    struct ps_buffer config;
    const struct ps_optimizer_config adding = {.optimizer = "add"};
    const struct psclient_clocks clocks = {.workers = options->workers,
                                           .consistency = options->model,
                                           .staleness = options->staleness,
                                           .speculation = options->speculation,
                                           .task = options->task};
    ps_buffer_init_fixed(&config, room, sizeof room);
    ps_optimizer_config_encode(&adding, &config);
    PS_ASSERT(config.size > 0 && config.size <= sizeof room);
    const struct psclient_table_options table = {
        .name = options->name,
        .type = PSCLIENT_FLOAT32,
        .width = options->chunk_size == 0 ? 1 : options->chunk_size,
        .config = config.text,
        .config_size = config.size};
    struct psclient_table *rows = NULL;
    int status = psclient_table_define(client, &table, timeout_of(options), &rows, error);
    psclient_table_close(rows);
    if (status == PSCLIENT_OK)
        status = set_rounds(client, options, error);
    if (status != PSCLIENT_OK)
        return status;
    return psclient_set_clocks(client, options->name, &clocks, timeout_of(options), error);
}

/* A worker of a task that begins stands at clock 0, and reads there at once. */
PS_EXPORT int ps_kv_table_create(struct psclient *client, const struct ps_kv_table_options *options,
                                 uint32_t worker, struct ps_kv_table **out,
                                 struct psclient_error *error)
{
    struct ps_kv_table *table = NULL;
    if (strlen(options->name) >= sizeof table->name)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the name is longer than that of clocks");
    table = ps_zeroed(ps_allocator_heap(), sizeof *table);
    if (table == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    /* The options are the caller's, and may be gone by the next call. */
    table->client = client;
    memcpy(table->name, options->name, strlen(options->name) + 1);
    table->worker = worker + 1;
    table->task = options->task;
    table->timeout_ms = timeout_of(options);
    table->is_bsp = options->model == PSCLIENT_BSP;
    int status = psclient_table_open(client, options->name, table->timeout_ms, &table->rows, error);
    /* The rounds say when a Get of BSP may be answered. */
    if (status == PSCLIENT_OK && !table->is_bsp)
        status = psclient_table_at(table->rows, table->name, table->worker, 0, error);
    if (status != PSCLIENT_OK) {
        ps_kv_table_destroy(table);
        return status;
    }
    *out = table;
    return PSCLIENT_OK;
}

/* The rows stay at the servers. */
PS_EXPORT void ps_kv_table_destroy(struct ps_kv_table *table)
{
    if (table == NULL)
        return;
    psclient_table_close(table->rows);
    /* What was added since the last clock goes with the handle. */
    ps_release(ps_allocator_heap(), table->adds.keys);
    ps_release(ps_allocator_heap(), table->adds.rows);
    ps_release(ps_allocator_heap(), table);
}

/* When it may be answered is for the clocks to say, which the table was put at; under BSP for the
 * round that this worker's last Clock was a part of. */
static int get(struct ps_kv_table *table, const uint64_t *keys, size_t count, void *values,
               struct psclient_error *error)
{
    /* Once for each clock: until the next one nothing changes, whoever asks. */
    if (!table->is_open)
        return psclient_table_get(table->rows, keys, count, values, table->timeout_ms, error);
    int status = psclient_table_await(table->rows, keys, count, values, table->timeout_ms, error);
    table->is_open = status != PSCLIENT_OK;
    return status;
}

/* Of elements where a chunk has one. */
PS_EXPORT int ps_kv_table_get(struct ps_kv_table *table, const uint64_t *keys, size_t count,
                              float *values, struct psclient_error *error)
{
    return get(table, keys, count, values, error);
}

/* Nothing of it is known to a server before the clock: a worker that dies in the middle of an
 * iteration has added nothing, and does all of it again.
 *
 * Doubled when it is full: an iteration has about as many adds as the one before. */
static bool make_room(struct ps_kv_adds *adds, size_t more, size_t row_bytes)
{
    size_t room = adds->room;
    if (more <= room - adds->count)
        return true;
    while (room < adds->count + more)
        room = 2 * room + 64;
    /* Both or none: what was there before stays as it is. */
    uint64_t *keys = ps_plain(ps_allocator_heap(), room * sizeof *keys);
    char *rows = ps_plain(ps_allocator_heap(), room * row_bytes);
    if (keys == NULL || rows == NULL) {
        ps_release(ps_allocator_heap(), keys);
        ps_release(ps_allocator_heap(), rows);
        return false;
    }
    if (adds->count > 0) {
        memcpy(keys, adds->keys, adds->count * sizeof *keys);
        memcpy(rows, adds->rows, adds->count * row_bytes);
    }
    ps_release(ps_allocator_heap(), adds->keys);
    ps_release(ps_allocator_heap(), adds->rows);
    *adds = (struct ps_kv_adds){keys, rows, adds->count, room};
    return true;
}

/* Kept until the clock. Those of one key are summed by whoever gets them, in their order. */
static int add(struct ps_kv_table *table, const uint64_t *keys, size_t count, const void *values,
               struct psclient_error *error)
{
    struct ps_kv_adds *adds = &table->adds;
    size_t bytes = psclient_table_row_bytes(table->rows);
    /* Under the other models updates count as they come. */
    if (!table->is_bsp)
        return psclient_table_add(table->rows, keys, count, values, table->timeout_ms, error);
    if (!make_room(adds, count, bytes))
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for the adds of an iteration");
    if (count > 0) {
        memcpy(adds->keys + adds->count, keys, count * sizeof *keys);
        memcpy(adds->rows + adds->count * bytes, values, count * bytes);
    }
    adds->count += count;
    return ps_client_succeed(error);
}

/* Acknowledged when this returns: a clock that follows comes behind it at every server. */
PS_EXPORT int ps_kv_table_add(struct ps_kv_table *table, const uint64_t *keys, size_t count,
                              const float *values, struct psclient_error *error)
{
    return add(table, keys, count, values, error);
}

/* FlexPS has one vector for each chunk, and a message has one run of them all. */
PS_EXPORT int ps_kv_table_get_chunk(struct ps_kv_table *table, const uint64_t *chunks, size_t count,
                                    float *const *values, struct psclient_error *error)
{
    size_t bytes = psclient_table_row_bytes(table->rows);
    char *together = ps_zeroed_array(ps_allocator_heap(), count, bytes);
    if (together == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for chunks");
    int status = get(table, chunks, count, together, error);
    for (size_t i = 0; status == PSCLIENT_OK && i < count; i++)
        memcpy(values[i], together + i * bytes, bytes);
    ps_release(ps_allocator_heap(), together);
    return status;
}

/* As if the chunks had been given together: a chunk that is given twice is added once, as the sum
 * of both. */
PS_EXPORT int ps_kv_table_add_chunk(struct ps_kv_table *table, const uint64_t *chunks, size_t count,
                                    const float *const *values, struct psclient_error *error)
{
    size_t bytes = psclient_table_row_bytes(table->rows);
    char *together = ps_zeroed_array(ps_allocator_heap(), count, bytes);
    if (together == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for chunks");
    for (size_t i = 0; i < count; i++)
        memcpy(together + i * bytes, values[i], bytes);
    int status = add(table, chunks, count, together, error);
    ps_release(ps_allocator_heap(), together);
    return status;
}

/* Everything that was added in the iteration goes as one contribution to its round. Whoever did not
 * read since the last one waits here for its end: a worker is in one round at a time. */
static int end_iteration(struct ps_kv_table *table, struct psclient_error *error)
{
    const struct psclient_table_step step = {.keys = table->adds.keys,
                                             .count = table->adds.count,
                                             .gradients = table->adds.rows,
                                             .worker = table->worker};
    int status = table->is_open ? get(table, NULL, 0, NULL, error) : PSCLIENT_OK;
    if (status == PSCLIENT_OK)
        status = psclient_table_contribute(table->rows, &step, table->timeout_ms, NULL, error);
    if (status != PSCLIENT_OK)
        return status;
    /* The memory stays, for the next iteration. */
    table->adds.count = 0;
    table->is_open = true;
    return PSCLIENT_OK;
}

/* A worker that comes back behind the others goes on from where they are. Under BSP the clocks are
 * told as well, for who watches them. */
PS_EXPORT int ps_kv_table_clock(struct ps_kv_table *table, struct psclient_error *error)
{
    uint64_t now = 0;
    /* First: a clock that was told says that everything of the iteration is at the servers. */
    int status = table->is_bsp ? end_iteration(table, error) : PSCLIENT_OK;
    if (status != PSCLIENT_OK)
        return status;
    status = psclient_clock_in_task(table->client, table->name, table->task, table->worker,
                                    table->clock + 1, table->timeout_ms, &now, error);
    if (status != PSCLIENT_OK)
        return status;
    table->clock = now;
    if (table->is_bsp)
        return PSCLIENT_OK;
    return psclient_table_at(table->rows, table->name, table->worker, now, error);
}

/* ---- Sparse ---- */

/* Nothing is announced before the first Get: whoever has a handle may still find that its task is
 * over. The arrays are as long as the sets, since most programs have few thousand iterations. */
PS_EXPORT int ps_sparse_kv_table_create(struct psclient *client,
                                        const struct ps_kv_table_options *options, uint32_t worker,
                                        const struct ps_kv_keys *sets, size_t count,
                                        struct ps_sparse_kv_table **out,
                                        struct psclient_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    struct ps_sparse_kv_table *sparse = ps_zeroed(memory, sizeof *sparse);
    if (sparse == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    sparse->sets = sets;
    sparse->set_count = count;
    sparse->speculation = options->speculation;
    sparse->reads = ps_zeroed_array(memory, count, sizeof *sparse->reads);
    sparse->rows = ps_zeroed_array(memory, count, sizeof *sparse->rows);
    int status = PSCLIENT_OK;
    if (sparse->reads == NULL || sparse->rows == NULL)
        status = ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    if (status == PSCLIENT_OK)
        status = ps_kv_table_create(client, options, worker, &sparse->table, error);
    if (status != PSCLIENT_OK) {
        ps_sparse_kv_table_destroy(sparse);
        return status;
    }
    *out = sparse;
    return PSCLIENT_OK;
}

/* Reads that were announced and are never asked for end here. */
PS_EXPORT void ps_sparse_kv_table_destroy(struct ps_sparse_kv_table *sparse)
{
    if (sparse == NULL)
        return;
    /* Without the arrays nothing was announced. */
    bool has_sets = sparse->reads != NULL && sparse->rows != NULL;
    for (size_t i = 0; has_sets && i < sparse->set_count; i++) {
        psclient_rows_ahead_cancel(sparse->reads[i]);
        ps_release(ps_allocator_heap(), sparse->rows[i]);
    }
    ps_kv_table_destroy(sparse->table);
    ps_release(ps_allocator_heap(), sparse->reads);
    ps_release(ps_allocator_heap(), sparse->rows);
    ps_release(ps_allocator_heap(), sparse);
}

/* A set is announced, at the clock that is its number; also once more, when its read has failed. */
static int announce(struct ps_sparse_kv_table *sparse, size_t i, struct psclient_error *error)
{
    struct psclient_table *rows = sparse->table->rows;
    const struct ps_kv_keys *set = &sparse->sets[i];
    PS_ASSERT(i < sparse->set_count && sparse->reads[i] == NULL);
    if (sparse->rows[i] == NULL)
        sparse->rows[i] =
            ps_zeroed_array(ps_allocator_heap(), set->count, psclient_table_row_bytes(rows));
    if (sparse->rows[i] == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for rows");
    return psclient_rows_ahead_begin(rows, i, set->keys, set->count, sparse->rows[i],
                                     sparse->table->timeout_ms, &sparse->reads[i], error);
}

/* The clock of the iteration before, and the announcement that takes its place: in FlexPS their
 * order on one connection matters, here it does not. */
PS_EXPORT int ps_sparse_kv_table_get(struct ps_sparse_kv_table *sparse, float *values,
                                     struct psclient_error *error)
{
    size_t i = sparse->gets;
    int status = PSCLIENT_OK;
    if (sparse->adds != i)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "Get and Add take turns");
    if (i + sparse->speculation >= sparse->set_count)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "there are no more sets of keys");
    /* A worker that was away may have been put further by its last clock. */
    if (i > 0 && sparse->table->clock < i)
        status = ps_kv_table_clock(sparse->table, error);
    for (size_t next = i; status == PSCLIENT_OK && next <= i + sparse->speculation; next++)
        if (sparse->reads[next] == NULL)
            status = announce(sparse, next, error);
    if (status != PSCLIENT_OK)
        return status;
    /* Gone in any case: a read that failed is begun again by the next Get. */
    struct psclient_rows_ahead *read = sparse->reads[i];
    sparse->reads[i] = NULL;
    status = psclient_rows_ahead_end(read, error);
    if (status != PSCLIENT_OK)
        return status;
    memcpy(values, sparse->rows[i],
           sparse->sets[i].count * psclient_table_row_bytes(sparse->table->rows));
    sparse->gets++;
    return PSCLIENT_OK;
}

/* Of the keys of the last Get, which are those that others know of. */
PS_EXPORT int ps_sparse_kv_table_add(struct ps_sparse_kv_table *sparse, const float *values,
                                     struct psclient_error *error)
{
    size_t i = sparse->adds;
    if (sparse->gets != i + 1)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "Get and Add take turns");
    int status =
        ps_kv_table_add(sparse->table, sparse->sets[i].keys, sparse->sets[i].count, values, error);
    if (status == PSCLIENT_OK)
        sparse->adds++;
    return status;
}
