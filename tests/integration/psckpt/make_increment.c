/* SPDX-License-Identifier: Apache-2.0 */
/* Makes folders with checkpoints that add to another, with the real writer, for
 * test_psckpt_increments.py:
 *
 *   make_increment DIR
 *
 * DIR/data/shard-0 has the whole checkpoints "a" (position 5) and "b" (10), and "c" (15) and "d"
 * (20), which add to b. DIR/whole/shard-0 has the state of d in one file. Parameters: "dense" (4 x
 * f32, sgd), which changes at d, "still" (2 x f64, sgd), which does not, and the table "emb" (f32,
 * width 3, sgd). The table has keys 1 to 6 at a and b; at c row 2 has changed; at d rows 2 and 5
 * have changed, 3 has gone, 4 has gone and come again, and 9 is new. Every element of a row is 100
 * times its key and the position of its last change; its clock is that position. */
#include "checkpoint/checkpoint.h"
#include "tools/optimizer_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 3
#define ROWS_MAX 8

/* What a file has of the table. */
struct rows {
    uint64_t keys[ROWS_MAX];
    uint32_t clocks[ROWS_MAX];
    float values[ROWS_MAX][WIDTH];
    uint64_t count;
    uint64_t removed[ROWS_MAX];
    uint64_t removed_count;
};

static uint8_t config[1024];
static size_t config_size;

/* Behind a configuration: TableConfig, field 212 of OptimizerConfig, with a width of 3 alone. */
static const uint8_t table_config[] = {0xa2, 0x0d, 2, 1 << 3, WIDTH};

static void require(enum ps_status status, const struct ps_error *error)
{
    if (status == PS_OK)
        return;
    (void)fprintf(stderr, "make_increment: %s\n", error->text);
    exit(EXIT_FAILURE);
}

static void put(struct rows *rows, uint64_t key, uint32_t position)
{
    uint64_t row = rows->count++;
    rows->keys[row] = key;
    rows->clocks[row] = position;
    for (int i = 0; i < WIDTH; i++)
        rows->values[row][i] = (float)(100 * key + position);
}

static struct ps_checkpoint_parameter dense(const char *name, enum ps_dtype dtype, uint64_t count,
                                            const struct ps_bytes *bytes, uint64_t version)
{
    return (struct ps_checkpoint_parameter){.name = ps_bytes_of_text(name),
                                            .dtype = dtype,
                                            .count = count,
                                            .config = {config, config_size},
                                            .version = version,
                                            .step = version,
                                            .id = 7,
                                            .values = ps_view_of(bytes)};
}

/* Writes one file; with a base, "still" and, where `same` says so, "dense" are the base's. */
static void write_file(const char *folder, const char *letter, const char *base, uint64_t position,
                       const struct rows *rows, float first, bool same)
{
    const float values[4] = {first, 2, 3, 4};
    const double still[2] = {5, 6};
    const struct ps_bytes pieces[] = {
        {(const uint8_t *)values, sizeof values},
        {(const uint8_t *)still, sizeof still},
        {(const uint8_t *)rows->values, (size_t)rows->count * sizeof rows->values[0]},
        {(const uint8_t *)rows->keys, (size_t)rows->count * 8},
        {(const uint8_t *)rows->clocks, (size_t)rows->count * 4},
        {(const uint8_t *)rows->removed, (size_t)rows->removed_count * 8}};
    struct ps_checkpoint_parameter parameters[3] = {
        dense("dense", PS_F32, 4, &pieces[0], position), dense("still", PS_F64, 2, &pieces[1], 1),
        dense("emb", PS_F32, rows->count * WIDTH, &pieces[2], position)};
    parameters[2].is_table = true;
    parameters[2].config.size += sizeof table_config;
    parameters[2].width = WIDTH;
    parameters[2].rows = rows->count;
    parameters[2].keys = ps_view_of(&pieces[3]);
    parameters[2].clock = ps_view_of(&pieces[4]);
    struct ps_checkpoint_facts facts = {.shard_count = 1,
                                        .epoch = 1,
                                        .position = position,
                                        .unix_ns = 1700000000000000000u,
                                        .job = "",
                                        .base = base};
    if (base != NULL) {
        parameters[0].carry = same ? PS_CARRY_AS_BASE : PS_CARRY_WHOLE;
        parameters[1].carry = PS_CARRY_AS_BASE;
        parameters[2].carry = PS_CARRY_ROWS;
        parameters[2].removed = ps_view_of(&pieces[5]);
    }
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    (void)snprintf(facts.uuid, sizeof facts.uuid, "%s", letter);
    require(ps_checkpoint_write(ps_files_real(), folder, &facts, parameters, 3, ps_allocator_heap(),
                                &place, &error),
            &error);
}

int main(int argc, char **argv)
{
    struct ps_buffer buffer;
    struct ps_error error = {0};
    char folder[1024];
    if (argc != 2)
        return EXIT_FAILURE;
    ps_buffer_init_fixed(&buffer, (char *)config, sizeof config - sizeof table_config);
    require(ps_optimizer_choice("sgd", 1, 0, &buffer, &error), &error);
    /* The table's configuration is that of the others and a few bytes more. */
    config_size = buffer.size;
    memcpy(config + config_size, table_config, sizeof table_config);

    struct rows base = {0}, c = {0}, d = {0}, whole = {0};
    for (uint64_t key = 1; key <= 6; key++)
        put(&base, key, 1);
    put(&c, 2, 14);
    put(&d, 9, 20);
    put(&d, 5, 19);
    put(&d, 4, 18);
    put(&d, 2, 17);
    d.removed[d.removed_count++] = 3;
    d.removed[d.removed_count++] = 4;
    put(&whole, 1, 1);
    put(&whole, 2, 17);
    put(&whole, 4, 18);
    put(&whole, 5, 19);
    put(&whole, 6, 1);
    put(&whole, 9, 20);
    (void)snprintf(folder, sizeof folder, "%s/data/shard-0", argv[1]);
    write_file(folder, "a", NULL, 5, &base, 1, false);
    write_file(folder, "b", NULL, 10, &base, 1, false);
    write_file(folder, "c", "b", 15, &c, 1, true);
    write_file(folder, "d", "b", 20, &d, 7, false);
    (void)snprintf(folder, sizeof folder, "%s/whole/shard-0", argv[1]);
    write_file(folder, "e", NULL, 20, &whole, 7, false);
    return EXIT_SUCCESS;
}
