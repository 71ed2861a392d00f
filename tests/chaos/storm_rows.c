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
#define ALL_KEYS (NEAR_KEYS + FAR_KEYS + STEPS_MAX)

static void keys_of(uint64_t step, uint64_t keys[KEYS])
{
    keys[0] = step % NEAR_KEYS;
    keys[1] = FAR_FIRST + step % FAR_KEYS;
    keys[2] = step % NEAR_KEYS;
    keys[3] = step * SPREAD;
}

static int define(struct psclient *client, size_t slot, uint64_t timeout_ms,
                  struct psclient_table **table, struct psclient_error *error)
{
    char name[32];
    snprintf(name, sizeof name, "rows/%zu", slot);
    const struct psclient_table_options options = {
        .name = name, .type = PSCLIENT_FLOAT32, .width = WIDTH};
    return psclient_table_define(client, &options, timeout_ms, table, error);
}

static int add(struct psclient_table *table, uint64_t step, const uint64_t *keys, size_t count,
               uint64_t timeout_ms, struct psclient_error *error)
{
    float gradients[KEYS][WIDTH];
    for (size_t i = 0; i < count; i++) {
        gradients[i][0] = -1.0f;
        gradients[i][1] = 0.0f;
        gradients[i][2] = -(float)(step / DIGIT);
        gradients[i][3] = -(float)(step % DIGIT);
    }
    return psclient_table_add(table, keys, count, gradients, timeout_ms, error);
}

static int take(struct storm_rows *rows, struct psclient_error *error)
{
    uint64_t keys[KEYS];
    if (rows->table == NULL)
        return define(rows->client, rows->slot, rows->timeout_ms, &rows->table, error);
    keys_of(rows->step, keys);
    return add(rows->table, rows->step, keys, KEYS, rows->timeout_ms, error);
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
    rows->table = NULL;
}

/* ---- After the storm ---- */

static int fail(size_t slot, const struct psclient_error *error)
{
    fprintf(stderr, "storm_trainer: rows/%zu: %s: %s\n", slot, psclient_status_name(error->status),
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

static int dump_slot(struct psclient *client, size_t slot, uint64_t timeout_ms,
                     const uint64_t *keys, float *rows)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    struct psclient_table *table = NULL;
    if (define(client, slot, timeout_ms, &table, &error) != PSCLIENT_OK)
        return fail(slot, &error);
    int status = psclient_table_get(table, keys, ALL_KEYS, rows, timeout_ms, &error);
    psclient_table_close(table);
    if (status != PSCLIENT_OK)
        return fail(slot, &error);
    for (size_t i = 0; i < ALL_KEYS; i++, rows += WIDTH)
        if (rows[0] != 0.0f || rows[1] != 0.0f || rows[2] != 0.0f || rows[3] != 0.0f)
            printf("%zu %" PRIu64 " %.9g %.9g %.9g %.9g\n", slot, keys[i], (double)rows[0],
                   (double)rows[1], (double)rows[2], (double)rows[3]);
    return 0;
}

int storm_rows_dump(struct psclient *client, size_t slot_count, uint64_t timeout_ms)
{
    uint64_t *keys = calloc(ALL_KEYS, sizeof *keys);
    float *rows = calloc(ALL_KEYS * WIDTH, sizeof *rows);
    int code = keys != NULL && rows != NULL ? 0 : 1;
    if (code == 0)
        fill_keys(keys);
    for (size_t slot = 0; slot < slot_count && code == 0; slot++)
        code = dump_slot(client, slot, timeout_ms, keys, rows);
    free(keys);
    free(rows);
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
    uint64_t keys[KEYS], step = 0;
    size_t count = 0, slot = 0;
    if (tables == NULL)
        return 1;
    for (size_t i = 0; i < slot_count && error.status == PSCLIENT_OK; i++)
        (void)define(client, slot = i, timeout_ms, &tables[i], &error);
    while (error.status == PSCLIENT_OK && read_line(&slot, &step, keys, &count) &&
           slot < slot_count)
        (void)add(tables[slot], step, keys, count, timeout_ms, &error);
    for (size_t i = 0; i < slot_count; i++)
        psclient_table_close(tables[i]);
    free(tables);
    if (error.status != PSCLIENT_OK)
        return fail(slot, &error);
    return feof(stdin) ? 0 : 1;
}
