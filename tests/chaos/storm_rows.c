/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are added during a storm. */
#include "tests/chaos/storm_rows.h"

#include "client/psclient.h"
#include "client/psclient_table.h"
#include "tests/chaos/storm_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 4u
#define DIGIT 64u
#define KEYS 4u
#define STEPS_MAX 3000u
#define NEAR_KEYS 32u
#define FAR_KEYS 7u
#define FAR_FIRST 1000u
#define SPREAD 0x9E3779B97F4A7C15u
#define SHARED_EVERY 4u
#define ALL_KEYS (NEAR_KEYS + FAR_KEYS + STEPS_MAX)

static void keys_of(uint64_t step, uint64_t keys[KEYS])
{
    keys[0] = step % NEAR_KEYS;
    keys[1] = FAR_FIRST + step % FAR_KEYS;
    keys[2] = step % NEAR_KEYS;
    keys[3] = step * SPREAD;
}

static bool is_shared(uint64_t step)
{
    return step % SHARED_EVERY == 0;
}

static int define(struct psclient *client, const char *name, uint64_t timeout_ms,
                  struct psclient_table **table, struct psclient_error *error)
{
    const struct psclient_table_options options = {
        .name = name, .type = PSCLIENT_FLOAT32, .width = WIDTH};
    return psclient_table_define(client, &options, timeout_ms, table, error);
}

static int define_own(struct psclient *client, size_t slot, uint64_t timeout_ms,
                      struct psclient_table **table, struct psclient_error *error)
{
    char name[32];
    snprintf(name, sizeof name, "rows/%zu", slot);
    return define(client, name, timeout_ms, table, error);
}

static int define_shared(struct psclient *client, uint64_t timeout_ms,
                         struct psclient_table **table, struct psclient_error *error)
{
    return define(client, "rows/shared", timeout_ms, table, error);
}

static int add(struct psclient_table *table, size_t slot, uint64_t step, const uint64_t *keys,
               size_t count, uint64_t timeout_ms, struct psclient_error *error)
{
    float gradients[KEYS][WIDTH];
    for (size_t i = 0; i < count; i++) {
        gradients[i][0] = -1.0f;
        gradients[i][1] = -(float)(slot + 1);
        gradients[i][2] = -(float)(step / DIGIT);
        gradients[i][3] = -(float)(step % DIGIT);
    }
    return psclient_table_add(table, keys, count, gradients, timeout_ms, error);
}

static int take(struct storm_rows *rows, struct psclient_error *error)
{
    uint64_t keys[KEYS];
    if (rows->table == NULL)
        return define_own(rows->client, rows->slot, rows->timeout_ms, &rows->table, error);
    if (rows->shared == NULL &&
        define_shared(rows->client, rows->timeout_ms, &rows->shared, error) != PSCLIENT_OK)
        return (int)error->status;
    struct psclient_table *table = is_shared(rows->step) ? rows->shared : rows->table;
    keys_of(rows->step, keys);
    return add(table, rows->slot, rows->step, keys, KEYS, rows->timeout_ms, error);
}

void storm_rows_step(struct storm_rows *rows)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    if (rows->failed || rows->step == STEPS_MAX)
        return;
    rows->step++;
    storm_note(rows->record, "T %" PRIu64 " %zu %" PRIu64 "\n", storm_now_ns(), rows->slot,
               rows->step);
    rows->failed = take(rows, &error) != PSCLIENT_OK;
    uint64_t now = storm_now_ns();
    if (rows->failed)
        storm_note(rows->record, "V %" PRIu64 " %zu %" PRIu64 " %s %s\n", now, rows->slot,
                   rows->step, psclient_status_name(error.status), error.text);
    else
        storm_note(rows->record, "U %" PRIu64 " %zu %" PRIu64 "\n", now, rows->slot, rows->step);
}

void storm_rows_close(struct storm_rows *rows)
{
    psclient_table_close(rows->table);
    psclient_table_close(rows->shared);
    rows->table = NULL;
    rows->shared = NULL;
}

/* ---- After the storm ---- */

static int fail(const char *label, const struct psclient_error *error)
{
    fprintf(stderr, "storm_trainer: rows/%s: %s: %s\n", label, psclient_status_name(error->status),
            error->text);
    return 1;
}

static void fill_keys(uint64_t *keys)
{
    size_t count = 0;
    for (uint64_t i = 0; i < NEAR_KEYS; i++)
        keys[count++] = i;
    for (uint64_t i = 0; i < FAR_KEYS; i++)
        keys[count++] = FAR_FIRST + i;
    for (uint64_t i = 1; i <= STEPS_MAX; i++)
        keys[count++] = i * SPREAD;
}

/* Those keys whose rows are not 0; how many. */
static size_t keep_rows(uint64_t *keys, float *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < ALL_KEYS; i++) {
        const float *row = rows + i * WIDTH;
        if (row[0] == 0.0f && row[1] == 0.0f && row[2] == 0.0f && row[3] == 0.0f)
            continue;
        keys[count] = keys[i];
        memmove(rows + count++ * WIDTH, row, WIDTH * sizeof *rows);
    }
    return count;
}

static int settle(struct psclient_table *table, const uint64_t *keys, size_t count,
                  uint64_t timeout_ms, struct psclient_error *error)
{
    float *zeros = calloc(count + 1, WIDTH * sizeof *zeros);
    if (zeros == NULL)
        return PSCLIENT_FAILED;
    int status = psclient_table_add(table, keys, count, zeros, timeout_ms, error);
    free(zeros);
    return status;
}

/* Ends the table. `slot` is NULL of the one that is shared. */
static int dump_table(struct psclient_table *table, const size_t *slot, bool prints,
                      uint64_t timeout_ms)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    uint64_t *keys = calloc(ALL_KEYS, sizeof *keys);
    float *rows = calloc(ALL_KEYS * WIDTH, sizeof *rows);
    char label[24] = "shared";
    int code = 1;
    if (slot != NULL)
        snprintf(label, sizeof label, "%zu", *slot);
    if (keys == NULL || rows == NULL)
        goto out;
    fill_keys(keys);
    int status = psclient_table_get(table, keys, ALL_KEYS, rows, timeout_ms, &error);
    size_t count = status == PSCLIENT_OK ? keep_rows(keys, rows) : 0;
    for (size_t i = 0; i < count && prints; i++)
        printf("%s %" PRIu64 " %.9g %.9g %.9g %.9g\n", label, keys[i], (double)rows[i * WIDTH],
               (double)rows[i * WIDTH + 1], (double)rows[i * WIDTH + 2],
               (double)rows[i * WIDTH + 3]);
    if (status == PSCLIENT_OK && slot == NULL)
        status = settle(table, keys, count, timeout_ms, &error);
    code = status == PSCLIENT_OK ? 0 : fail(label, &error);
out:
    psclient_table_close(table);
    free(keys);
    free(rows);
    return code;
}

static int end_shared(struct psclient *client, bool prints, uint64_t timeout_ms)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    struct psclient_table *table = NULL;
    if (define_shared(client, timeout_ms, &table, &error) != PSCLIENT_OK)
        return fail("shared", &error);
    return dump_table(table, NULL, prints, timeout_ms);
}

int storm_rows_dump(struct psclient *client, size_t slot_count, uint64_t timeout_ms)
{
    int code = 0;
    for (size_t slot = 0; slot < slot_count && code == 0; slot++) {
        struct psclient_error error = {PSCLIENT_OK, ""};
        struct psclient_table *table = NULL;
        if (define_own(client, slot, timeout_ms, &table, &error) != PSCLIENT_OK)
            return fail("slot", &error);
        code = dump_table(table, &slot, true, timeout_ms);
    }
    if (code == 0)
        code = end_shared(client, true, timeout_ms);
    return fflush(stdout) == 0 ? code : 1;
}

static bool read_line(size_t *slot, uint64_t *step, uint64_t keys[KEYS], size_t *count)
{
    if (scanf("%zu %" SCNu64 " %zu", slot, step, count) != 3 || *count > KEYS)
        return false;
    for (size_t i = 0; i < *count; i++)
        if (scanf("%" SCNu64, &keys[i]) != 1)
            return false;
    return true;
}

int storm_rows_replay(struct psclient *client, size_t slot_count, uint64_t timeout_ms)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    struct psclient_table **tables = calloc(slot_count + 1, sizeof(struct psclient_table *));
    struct psclient_table *shared = NULL;
    uint64_t keys[KEYS], step = 0;
    size_t count = 0, slot = 0;
    if (tables == NULL)
        return 1;
    for (size_t i = 0; i < slot_count && error.status == PSCLIENT_OK; i++)
        (void)define_own(client, i, timeout_ms, &tables[i], &error);
    if (error.status == PSCLIENT_OK)
        (void)define_shared(client, timeout_ms, &shared, &error);
    while (error.status == PSCLIENT_OK && read_line(&slot, &step, keys, &count) &&
           slot < slot_count)
        (void)add(is_shared(step) ? shared : tables[slot], slot, step, keys, count, timeout_ms,
                  &error);
    for (size_t i = 0; i < slot_count; i++)
        psclient_table_close(tables[i]);
    psclient_table_close(shared);
    free(tables);
    if (error.status != PSCLIENT_OK)
        return fail("replay", &error);
    return feof(stdin) ? end_shared(client, false, timeout_ms) : 1;
}
