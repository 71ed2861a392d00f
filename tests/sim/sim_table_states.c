/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a server's state, as a checkpoint of this moment would have them, beside the
 * model's. */
#include "tests/sim/sim_table_rows.h"

#include "base/assert.h"
#include "proto/digest.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_copy.h"

#include <inttypes.h>
#include <string.h>

/* The rows of a snapshot. */
struct shown_rows {
    uint64_t keys[SIM_TABLE_KEYS];
    uint32_t touched[SIM_TABLE_KEYS];
    uint8_t values[SIM_TABLE_KEYS * SIM_TABLE_WIDTH_MAX * 8];
    uint8_t states[SIM_TABLE_KEYS * SIM_TABLE_WIDTH_MAX * 8];
};

static void read_array(const struct ps_checkpoint_parameter *parameter, uint32_t array, void *to,
                       size_t row_bytes)
{
    const struct ps_checkpoint_source *source = &parameter->source;
    enum ps_status status =
        source->read(source->self, array, 0, to, (size_t)parameter->rows * row_bytes, NULL);
    PS_ASSERT(status == PS_OK);
}

static size_t state_bytes_of(const struct ps_checkpoint_parameter *parameter)
{
    uint32_t elements = parameter->state_is_one[0] ? 1 : parameter->width;
    return parameter->state_count > 0 ? elements * ps_dtype_size(parameter->dtype) : 0;
}

/* No rule of these tables has more than one state. */
static void read_rows(const struct ps_checkpoint_parameter *parameter, struct shown_rows *rows)
{
    size_t row_bytes = parameter->width * ps_dtype_size(parameter->dtype);
    uint32_t states = parameter->state_count;
    size_t state_bytes = state_bytes_of(parameter);
    PS_ASSERT(states <= 1 && parameter->width <= SIM_TABLE_WIDTH_MAX);
    PS_ASSERT(parameter->rows <= SIM_TABLE_KEYS);
    memset(rows, 0, sizeof *rows);
    read_array(parameter, 0, rows->values, row_bytes);
    if (states == 1)
        read_array(parameter, 1, rows->states, state_bytes);
    read_array(parameter, 1 + states, rows->keys, sizeof rows->keys[0]);
    read_array(parameter, 2 + states, rows->touched, sizeof rows->touched[0]);
}

static uint64_t hash_row(const struct shown_rows *rows, uint64_t i, size_t row_bytes,
                         size_t state_bytes)
{
    uint64_t words[2 + 2 * SIM_TABLE_WIDTH_MAX] = {rows->keys[i], rows->touched[i]};
    memcpy(words + 2, rows->values + i * row_bytes, row_bytes);
    memcpy(words + 2 + SIM_TABLE_WIDTH_MAX, rows->states + i * state_bytes, state_bytes);
    return ps_digest_xxh64((struct ps_bytes){(const uint8_t *)words, sizeof words});
}

uint64_t sim_rows_hash(const struct ps_checkpoint_parameter *parameter)
{
    struct shown_rows rows;
    uint64_t sum = 0;
    read_rows(parameter, &rows);
    for (uint64_t i = 0; i < parameter->rows; i++)
        sum += hash_row(&rows, i, parameter->width * ps_dtype_size(parameter->dtype),
                        state_bytes_of(parameter));
    return sum;
}

static bool is_equal(const struct sim_table_copy *copy, const struct shown_rows *rows, uint64_t i)
{
    uint8_t mine[SIM_TABLE_WIDTH_MAX * 8];
    size_t row_bytes = sim_table_row_bytes(copy->about);
    uint32_t number = sim_table_key_number(rows->keys[i]);
    if (number == SIM_TABLE_KEYS || !copy->rows[number].is_there ||
        rows->touched[i] != (uint32_t)copy->rows[number].touched)
        return false;
    sim_table_copy_values(copy, number, mine);
    if (memcmp(mine, rows->values + i * row_bytes, row_bytes) != 0)
        return false;
    sim_table_copy_states(copy, number, mine);
    size_t state_bytes = sim_table_state_bytes(copy->about);
    return memcmp(mine, rows->states + i * state_bytes, state_bytes) == 0;
}

/* An open round waits for somebody, or for the first look behind a change. A crash may part the
 * last contribution from the end of its round: then the next one who contributes or waits ends it.
 */
static void look_at_open(struct sim_world *world, const struct sim_server *server,
                         const struct sim_table_copy *copy, uint64_t epoch)
{
    bool is_of_now = false;
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++)
        is_of_now |= copy->held[i].is_there && copy->held[i].epoch == epoch;
    if (copy->workers > 0 && is_of_now && !copy->is_new_rule &&
        sim_table_copy_there(copy) >= sim_table_copy_needed(copy))
        sim_fail(world, "rows: %s goes on with version %" PRIu64 " of %s, for which all are there",
                 server->name, copy->version + 1, copy->about->name);
}

void sim_rows_state(struct sim_world *world, const struct sim_server *server, uint32_t index,
                    uint64_t epoch, const struct ps_checkpoint_parameter *parameter)
{
    struct sim_table_copy *copy = sim_rows_copy(world, index, epoch, parameter->name);
    if (copy == NULL || !parameter->is_table)
        return;
    sim_rows_reach(world, server, copy, parameter->version);
    look_at_open(world, server, copy, epoch);
    if (!copy->is_there || parameter->version != copy->version)
        sim_fail(world, "rows: %s has version %" PRIu64 " of %s, which is at %" PRIu64,
                 server->name, parameter->version, copy->about->name, copy->version);
    if (parameter->rows != sim_table_copy_count(copy))
        sim_fail(world,
                 "rows: %s has %" PRIu64 " rows of %s in version %" PRIu64
                 ", of which there must be %" PRIu64,
                 server->name, parameter->rows, copy->about->name, copy->version,
                 sim_table_copy_count(copy));
    struct shown_rows rows;
    read_rows(parameter, &rows);
    for (uint64_t i = 0; i < parameter->rows; i++)
        if (!is_equal(copy, &rows, i))
            sim_fail(world, "rows: %s has another row of %s, key %" PRIu64 ", in version %" PRIu64,
                     server->name, copy->about->name, rows.keys[i], copy->version);
}

void sim_rows_complete(struct sim_world *world, const struct sim_server *server, uint32_t index,
                       uint64_t epoch)
{
    for (uint32_t i = 0; i < world->options.tables; i++) {
        const struct ps_bytes name = ps_bytes_of_text(sim_rows_table(world, i)->name);
        const struct sim_table_copy *copy = sim_rows_copy(world, index, epoch, name);
        bool is_there = ps_parameter_table_find(&server->service->table, name) != NULL;
        if (copy != NULL && copy->is_there && !is_there)
            sim_fail(world, "rows: %s has lost %s", server->name, copy->about->name);
    }
}

/* ---- How a server has a table ---- */

/* NULL: of an owner of whom nobody hears any more. */
static const struct sim_table_copy *copy_of(const struct sim_server *server, struct ps_bytes name)
{
    struct ps_status_reply now;
    char uuid[37];
    ps_service_status(server->service, &now, uuid);
    return sim_rows_copy(server->world, now.index, now.epoch, name);
}

bool sim_rows_are_in_rounds(const struct sim_server *server, struct ps_bytes name)
{
    const struct sim_table_copy *copy = copy_of(server, name);
    return copy != NULL ? copy->workers > 0
                        : sim_rounds_of(sim_checker_rounds(server->world), name) != NULL;
}

bool sim_rows_count_late(const struct sim_server *server, struct ps_bytes name)
{
    const struct sim_table_copy *copy = copy_of(server, name);
    return copy == NULL || copy->late_is_next;
}
