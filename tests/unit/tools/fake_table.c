/* SPDX-License-Identifier: Apache-2.0 */
/* One lock for everything; whoever waits for a clock is woken by every clock. */
#include "fake_table.h"

#include "base/clock.h"
#include "base/thread.h"
#include "client/psclient.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

struct psclient {
    int opened;
};

/* A handle of one worker. */
struct psclient_table {
    bool waits;
    uint64_t clock;
};

struct fake_table fake_table;
static struct psclient the_client;
static struct psclient_table handles[64];
static struct ps_mutex mutex;
static struct ps_condition moved;

void fake_table_begin(float rate)
{
    memset(&fake_table, 0, sizeof fake_table);
    memset(handles, 0, sizeof handles);
    fake_table.rate = rate;
    the_client.opened = 0;
    ps_mutex_init(&mutex, PS_RANK_LEAF);
    ps_condition_init(&moved);
}

static int say(struct psclient_error *error, enum psclient_status status)
{
    error->status = status;
    (void)snprintf(error->text, sizeof error->text, "as told");
    return (int)status;
}

int psclient_open_sized(const struct psclient_options *options, const struct psclient_sizes *sizes,
                        struct psclient **client, struct psclient_error *error)
{
    (void)options, (void)sizes, (void)error;
    the_client.opened++;
    *client = &the_client;
    return PSCLIENT_OK;
}

void psclient_close(struct psclient *client)
{
    ck_assert_ptr_eq(client, &the_client);
    ck_assert_int_eq(fake_table.handles, 0);
}

uint64_t psclient_retries(const struct psclient *client)
{
    ck_assert_ptr_eq(client, &the_client);
    return 3;
}

const char *psclient_status_name(enum psclient_status status)
{
    return status == PSCLIENT_OK ? "ok" : "not ok";
}

int psclient_begin_init(struct psclient *client, uint64_t timeout_ms, int *selected,
                        struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    *selected = fake_table.initialised ? 0 : 1;
    return PSCLIENT_OK;
}

int psclient_finish_init(struct psclient *client, uint64_t timeout_ms, struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    ck_assert(fake_table.defined);
    fake_table.initialised = true;
    return PSCLIENT_OK;
}

int psclient_table_define(struct psclient *client, const struct psclient_table_options *options,
                          uint64_t timeout_ms, struct psclient_table **table,
                          struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    ps_mutex_lock(&mutex);
    fake_table.definitions++;
    fake_table.defined = true;
    fake_table.width = options->width;
    ck_assert_int_lt(fake_table.handles, 64);
    fake_table.handles++;
    *table = &handles[fake_table.definitions % 64];
    **table = (struct psclient_table){.waits = false};
    ps_mutex_unlock(&mutex);
    return PSCLIENT_OK;
}

void psclient_table_close(struct psclient_table *table)
{
    ps_mutex_lock(&mutex);
    fake_table.handles -= table != NULL ? 1 : 0;
    ps_mutex_unlock(&mutex);
}

int psclient_table_at(struct psclient_table *table, const char *clocks, uint32_t worker,
                      uint64_t clock, struct psclient_error *error)
{
    (void)error;
    ck_assert(clocks == NULL || (worker > 0 && worker <= fake_table.clock_workers));
    table->waits = clocks != NULL;
    table->clock = clock;
    return PSCLIENT_OK;
}

int psclient_set_clocks(struct psclient *client, const char *name,
                        const struct psclient_clocks *clocks, uint64_t timeout_ms,
                        struct psclient_error *error)
{
    (void)client, (void)name, (void)timeout_ms, (void)error;
    ck_assert_uint_le(clocks->workers, FAKE_WORKERS_MAX);
    ps_mutex_lock(&mutex);
    fake_table.clock_workers = clocks->workers;
    fake_table.staleness = clocks->consistency == PSCLIENT_SSP ? clocks->staleness : 0;
    ps_mutex_unlock(&mutex);
    return PSCLIENT_OK;
}

int psclient_clock(struct psclient *client, const char *name, uint32_t worker, uint64_t clock,
                   uint64_t timeout_ms, uint64_t *now, struct psclient_error *error)
{
    (void)client, (void)name, (void)timeout_ms;
    ps_mutex_lock(&mutex);
    if (++fake_table.clock_calls == fake_table.clocks_lost_at) {
        ps_mutex_unlock(&mutex);
        return say(error, PSCLIENT_NOT_FOUND);
    }
    uint64_t *its = &fake_table.clocks[worker - 1];
    *its = clock > *its ? clock : *its;
    *now = *its;
    ps_condition_signal_all(&moved);
    ps_mutex_unlock(&mutex);
    return PSCLIENT_OK;
}

static uint64_t slowest(void)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < fake_table.clock_workers; i++)
        lowest = fake_table.clocks[i] < lowest ? fake_table.clocks[i] : lowest;
    return lowest;
}

static float *find(uint64_t key, bool make)
{
    for (size_t i = 0; i < fake_table.row_count; i++) {
        if (fake_table.keys[i] == key)
            return fake_table.rows[i];
    }
    if (!make)
        return NULL;
    ck_assert_uint_lt(fake_table.row_count, FAKE_ROWS_MAX);
    fake_table.keys[fake_table.row_count] = key;
    memset(fake_table.rows[fake_table.row_count], 0, sizeof fake_table.rows[0]);
    return fake_table.rows[fake_table.row_count++];
}

int psclient_table_get(struct psclient_table *table, const uint64_t *keys, size_t count, void *rows,
                       uint64_t timeout_ms, struct psclient_error *error)
{
    (void)timeout_ms;
    size_t size = fake_table.width * sizeof(float);
    ps_mutex_lock(&mutex);
    fake_table.reads++;
    while (table->waits && table->clock > slowest() + fake_table.staleness)
        (void)ps_condition_wait(&moved, &mutex, PS_DEADLINE_NEVER);
    if (table->waits && table->clock > slowest() + fake_table.ahead_max)
        fake_table.ahead_max = table->clock - slowest();
    if (table->waits && table->clock > fake_table.read_at_max)
        fake_table.read_at_max = table->clock;
    bool held = fake_table.reads_held > 0;
    fake_table.reads_held -= held ? 1 : 0;
    bool there = fake_table.defined && !held;
    for (size_t i = 0; i < count && there; i++) {
        const float *row = find(keys[i], false);
        memset((char *)rows + i * size, 0, size);
        if (row != NULL)
            memcpy((char *)rows + i * size, row, size);
    }
    ps_mutex_unlock(&mutex);
    if (held)
        return say(error, PSCLIENT_UNAVAILABLE);
    return there ? PSCLIENT_OK : say(error, PSCLIENT_NOT_INITIALIZED);
}

static void apply(const uint64_t *keys, size_t count, const float *gradients)
{
    for (size_t i = 0; i < count; i++) {
        float *row = find(keys[i], true);
        for (uint32_t k = 0; k < fake_table.width; k++)
            row[k] -= fake_table.rate * gradients[i * fake_table.width + k];
    }
}

int psclient_table_add(struct psclient_table *table, const uint64_t *keys, size_t count,
                       const void *gradients, uint64_t timeout_ms, struct psclient_error *error)
{
    (void)table, (void)timeout_ms;
    ps_mutex_lock(&mutex);
    ck_assert_uint_lt(fake_table.pushes, 256);
    enum fake_table_fate fate = fake_table.fates[fake_table.pushes++];
    if (fate == FAKE_TABLE_LOST) {
        fake_table.initialised = false;
        fake_table.defined = false;
        fake_table.row_count = 0;
        fake_table.version = 0;
        fake_table.has_rounds = false;
    }
    if (fate == FAKE_TABLE_OK || fate == FAKE_TABLE_UNKNOWN)
        apply(keys, count, gradients);
    ps_mutex_unlock(&mutex);
    static const enum psclient_status statuses[] = {
        [FAKE_TABLE_OK] = PSCLIENT_OK,
        [FAKE_TABLE_UNKNOWN] = PSCLIENT_UNKNOWN,
        [FAKE_TABLE_LOST] = PSCLIENT_NOT_INITIALIZED,
        [FAKE_TABLE_REFUSED] = PSCLIENT_INVALID,
    };
    return fate == FAKE_TABLE_OK ? PSCLIENT_OK : say(error, statuses[fate]);
}

/* Rounds of one worker: each contribution is a version. */
int psclient_table_step(struct psclient_table *table, const struct psclient_table_step *step,
                        uint64_t timeout_ms, struct psclient_table_stepped *stepped,
                        struct psclient_error *error)
{
    ck_assert(fake_table.has_rounds && step->worker == 1);
    *stepped = (struct psclient_table_stepped){0};
    int status =
        psclient_table_add(table, step->keys, step->count, step->gradients, timeout_ms, error);
    if (status != PSCLIENT_OK)
        return status;
    stepped->version = ++fake_table.version;
    if (step->get_count == 0)
        return PSCLIENT_OK;
    return psclient_table_get(table, step->get_keys, step->get_count, step->rows, timeout_ms,
                              error);
}

int psclient_table_version(struct psclient_table *table, uint64_t timeout_ms, uint64_t *version,
                           struct psclient_error *error)
{
    (void)table, (void)timeout_ms, (void)error;
    *version = fake_table.version;
    return PSCLIENT_OK;
}

int psclient_configure(struct psclient *client, const char *const *names, size_t count,
                       const void *change, size_t change_size, uint64_t timeout_ms,
                       struct psclient_result *results, struct psclient_config *configs,
                       struct psclient_error *error)
{
    (void)client, (void)names, (void)timeout_ms, (void)results, (void)configs, (void)error;
    ck_assert(count == 1 && change != NULL && change_size > 0);
    fake_table.has_rounds = true;
    return PSCLIENT_OK;
}

int psclient_table_add_get(struct psclient_table *table, const uint64_t *add_keys, size_t add_count,
                           const void *gradients, const uint64_t *get_keys, size_t get_count,
                           void *rows, uint64_t timeout_ms, struct psclient_error *error)
{
    int status = psclient_table_add(table, add_keys, add_count, gradients, timeout_ms, error);
    if (status != PSCLIENT_OK)
        return status;
    return psclient_table_get(table, get_keys, get_count, rows, timeout_ms, error);
}
