/* SPDX-License-Identifier: Apache-2.0 */
/* As the calls do, without their messages. */
#include "core_table.h"

#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"

#include <stdio.h>
#include <string.h>

enum { COUNT_MAX = 512 };

static struct ps_request_id numbered(uint64_t sequence)
{
    return (struct ps_request_id){
        .present = sequence > 0, .client_id = text("client"), .session = 1, .sequence = sequence};
}

struct ps_bytes table_config(const char *optimizer, struct ps_table_settings table)
{
    return table_config_of_rounds(optimizer, table, &(struct ps_round_settings){0});
}

struct ps_bytes table_config_of_rounds(const char *optimizer, struct ps_table_settings table,
                                       const struct ps_round_settings *rounds)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    bool is_row_wise = strcmp(optimizer, "row_wise") == 0;
    ck_assert(ps_optimizer_config_choose(&config, is_row_wise ? "adagrad" : optimizer));
    if (is_row_wise)
        ps_optimizer_config_set(&config, "row_wise", 1);
    config.learning_rate = 1;
    table.width = table.width > 0 ? table.width : TABLE_WIDTH;
    config.table = table;
    config.rounds = (struct ps_config_rounds){rounds->workers, rounds->quorum, rounds->grace_ms,
                                              (int32_t)rounds->combine, (int32_t)rounds->late};
    return config_bytes(&config);
}

enum ps_status table_define(struct core_world *world, struct ps_bytes config, uint64_t sequence)
{
    struct ps_init_reply reply;
    const struct ps_init_request request = {
        .name = text("t"), .dtype = PS_F32, .config = config, .request = numbered(sequence)};
    return ps_service_define(world->service, &request, &reply, &world->wait, &world->error);
}

/* Writes the rows of a push to `content`. */
static struct ps_bytes fill(uint8_t *content, uint64_t first, size_t count, float value)
{
    ck_assert_uint_le(count, COUNT_MAX);
    float *rows = (float *)(void *)(content + count * 8);
    for (size_t i = 0; i < count; i++) {
        memcpy(content + 8 * i, &(uint64_t){first + i}, 8);
        for (size_t k = 0; k < TABLE_WIDTH; k++)
            rows[i * TABLE_WIDTH + k] = value;
    }
    return (struct ps_bytes){content, count * TABLE_ROW_BYTES};
}

enum ps_status table_push(struct core_world *world, uint64_t first, size_t count, float value,
                          uint64_t sequence)
{
    static uint8_t content[COUNT_MAX * TABLE_ROW_BYTES];
    const struct ps_bytes piece = fill(content, first, count, value);
    const struct ps_push_request request = {.name = text("t"),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_ROWS,
                                            .content = ps_view_of(&piece),
                                            .request = numbered(sequence)};
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

enum ps_status table_contribute(struct core_world *world, uint32_t rank, uint64_t round,
                                uint64_t first, size_t count, float value, uint64_t sequence)
{
    static uint8_t content[COUNT_MAX * TABLE_ROW_BYTES];
    char client[16];
    (void)snprintf(client, sizeof client, "worker-%u", (unsigned)rank);
    const struct ps_bytes piece = fill(content, first, count, value);
    struct ps_push_request request = {.name = text("t"),
                                      .dtype = PS_F32,
                                      .encoding = PS_ENCODING_ROWS,
                                      .content = ps_view_of(&piece),
                                      .worker = 1 + rank,
                                      .round = round,
                                      .request = numbered(sequence)};
    request.request.client_id = text(client);
    world->reply = (struct ps_push_reply){0};
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

float table_value(struct core_world *world, uint64_t key)
{
    const struct ps_bytes keys = {(const uint8_t *)&key, sizeof key};
    const struct ps_pull_request request = {.name = text("t"), .keys = ps_view_of(&keys)};
    struct ps_pull pull = {0};
    float row[TABLE_WIDTH];
    ck_assert_int_eq(ps_service_pull(world->service, &request, &pull, &world->error), PS_OK);
    ck_assert_uint_eq(pull.reply.content.size, sizeof row);
    ps_view_copy(pull.reply.content, 0, row, sizeof row);
    ps_pull_release(&pull);
    for (size_t i = 1; i < TABLE_WIDTH; i++)
        ck_assert(row[i] == row[0]);
    return row[0];
}

struct ps_parameter *table_of(struct core_world *world)
{
    struct ps_parameter *table = ps_parameter_table_find(&world->service->table, text("t"));
    ck_assert_ptr_nonnull(table);
    return table;
}

struct ps_parameter *table_create(const struct ps_allocator *memory, enum ps_rule rule,
                                  struct ps_row_room *room)
{
    const struct ps_optimizer_settings settings = {
        .rule = rule, .learning_rate.rate = 1, .momentum = 0.5, .table.width = TABLE_WIDTH};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(memory, text("t"), PS_F32, TABLE_WIDTH, text(""), &settings);
    if (spec == NULL)
        return NULL;
    spec->row_room = room;
    struct ps_parameter *table = ps_parameter_create(spec);
    ps_parameter_spec_release(spec);
    return table;
}
