/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations of tables. */
#include "tests/sim/sim_table_faults.h"

#include "base/assert.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_rows.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/contribute_rows.h"
#include "server/core/rounds/round.h"
#include "server/core/tables/row_removals.h"
#include "server/core/tables/row_since.h"
#include "server/core/tables/row_sweep.h"
#include "tests/sim/sim_table_rows.h"

#include <string.h>

#define EARLY_MS 1000 /* as if so much of a grace time were over */

/* ---- What the linker puts in the place of the server's functions (CMakeLists.txt) ---- */

/* One world at a time. */
static enum sim_mutation present;

enum ps_status __real_ps_contribute_rows_admit(struct ps_parameter *parameter,
                                               struct ps_held_rows *rows, struct ps_error *error);
enum ps_status __wrap_ps_contribute_rows_admit(struct ps_parameter *parameter,
                                               struct ps_held_rows *rows, struct ps_error *error);
enum ps_round_end __real_ps_round_look(const struct ps_round *round,
                                       const struct ps_round_settings *settings, uint64_t now_ms,
                                       uint64_t *again_ms);
enum ps_round_end __wrap_ps_round_look(const struct ps_round *round,
                                       const struct ps_round_settings *settings, uint64_t now_ms,
                                       uint64_t *again_ms);

bool __real_ps_row_removals_since(struct ps_row_removals *removals, uint64_t *number,
                                  size_t count_max, void *to, size_t *count);
bool __wrap_ps_row_removals_since(struct ps_row_removals *removals, uint64_t *number,
                                  size_t count_max, void *to, size_t *count);
enum ps_status __real_ps_row_table_since(struct ps_row_table *table,
                                         const struct ps_row_since *since, void *to, size_t room,
                                         struct ps_row_piece *piece, struct ps_error *error);
enum ps_status __wrap_ps_row_table_since(struct ps_row_table *table,
                                         const struct ps_row_since *since, void *to, size_t room,
                                         struct ps_row_piece *piece, struct ps_error *error);

void sim_rows_begin(enum sim_mutation mutation)
{
    present = mutation;
}

enum ps_status __wrap_ps_contribute_rows_admit(struct ps_parameter *parameter,
                                               struct ps_held_rows *rows, struct ps_error *error)
{
    if (present == SIM_MUTATION_ROUND_UNLIMITED)
        return PS_OK;
    return __real_ps_contribute_rows_admit(parameter, rows, error);
}

enum ps_round_end __wrap_ps_round_look(const struct ps_round *round,
                                       const struct ps_round_settings *settings, uint64_t now_ms,
                                       uint64_t *again_ms)
{
    uint64_t early_ms = present == SIM_MUTATION_ROUND_EARLY ? EARLY_MS : 0;
    return __real_ps_round_look(round, settings, now_ms + early_ms, again_ms);
}

bool __wrap_ps_row_removals_since(struct ps_row_removals *removals, uint64_t *number,
                                  size_t count_max, void *to, size_t *count)
{
    bool is_here = __real_ps_row_removals_since(removals, number, count_max, to, count);
    if (is_here && present == SIM_MUTATION_GONE_UNTOLD)
        *count = 0;
    return is_here;
}

enum ps_status __wrap_ps_row_table_since(struct ps_row_table *table,
                                         const struct ps_row_since *since, void *to, size_t room,
                                         struct ps_row_piece *piece, struct ps_error *error)
{
    struct ps_row_since late = *since;
    if (present == SIM_MUTATION_SINCE_LATE && late.version + 1 < late.now)
        late.version++;
    return __real_ps_row_table_since(table, &late, to, room, piece, error);
}

/* ---- Pushes ---- */

/* The first row stands there once more. */
static size_t add_again(uint8_t *bytes, size_t count, size_t row_bytes)
{
    uint8_t *rows = bytes + count * sizeof(uint64_t);
    uint8_t first[SIM_TABLE_WIDTH_MAX * 8];
    memcpy(first, rows, row_bytes);
    memmove(rows + sizeof(uint64_t), rows, count * row_bytes);
    memcpy(rows, bytes, sizeof(uint64_t));
    memcpy(rows + sizeof(uint64_t) + count * row_bytes, first, row_bytes);
    return (count + 1) * (sizeof(uint64_t) + row_bytes);
}

/* What comes for a key that was there before is 0. */
static void forget_repeats(uint8_t *bytes, size_t count, size_t row_bytes)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (memcmp(bytes + i * sizeof(uint64_t), bytes + j * sizeof(uint64_t),
                       sizeof(uint64_t)) == 0)
                memset(bytes + count * sizeof(uint64_t) + i * row_bytes, 0, row_bytes);
}

/* As if nobody looked whose keys they are: others than the shard's become one of its own. */
static void take_keys(const struct sim_server *server, const struct sim_table *table,
                      uint8_t *bytes, size_t count)
{
    struct ps_status_reply now;
    char uuid[37];
    uint32_t own = 0;
    ps_service_status(server->service, &now, uuid);
    while (own < SIM_TABLE_KEYS && !sim_ranges_allow(&table->ranges, now.index, sim_table_key(own)))
        own++;
    for (size_t i = 0; i < count && own < SIM_TABLE_KEYS; i++) {
        uint64_t key;
        memcpy(&key, bytes + i * sizeof key, sizeof key);
        if (!sim_ranges_allow(&table->ranges, now.index, key))
            key = sim_table_key(own);
        memcpy(bytes + i * sizeof key, &key, sizeof key);
    }
}

static bool bends_pushes(enum sim_mutation mutation)
{
    return mutation == SIM_MUTATION_ROW_TWICE || mutation == SIM_MUTATION_ROW_SUM_LOST ||
           mutation == SIM_MUTATION_KEYS_UNCHECKED;
}

void sim_rows_bend_push(const struct sim_server *server, struct ps_push_request *request,
                        struct sim_bent_rows *bent)
{
    const struct sim_world *world = server->world;
    enum sim_mutation mutation = world->options.mutation;
    size_t size = request->content.size;
    if (!bends_pushes(mutation) || !sim_is_table(request->name) || size == 0)
        return;
    const struct sim_table *table = sim_rows_table(world, (uint32_t)(request->name.data[1] - '0'));
    size_t row_bytes = sim_table_row_bytes(table);
    size_t count = size / (sizeof(uint64_t) + row_bytes);
    PS_ASSERT(size + sizeof(uint64_t) + row_bytes <= sizeof bent->bytes);
    ps_view_copy(request->content, 0, bent->bytes, size);
    if (mutation == SIM_MUTATION_ROW_TWICE)
        size = add_again(bent->bytes, count, row_bytes);
    else if (mutation == SIM_MUTATION_ROW_SUM_LOST)
        forget_repeats(bent->bytes, count, row_bytes);
    else
        take_keys(server, table, bent->bytes, count);
    bent->piece = (struct ps_bytes){bent->bytes, size};
    request->content = ps_view_of(&bent->piece);
}

/* ---- Answers ---- */

/* The answer is a copy of its own, on the heap: nobody else sees what is written there. */
void sim_rows_bend_pull(struct sim_server *server, const struct ps_pull_request *request,
                        struct ps_pull_reply *reply)
{
    size_t count = request->keys.size / sizeof(uint64_t);
    if (server->world->options.mutation != SIM_MUTATION_ROW_UNKNOWN || count == 0)
        return;
    PS_ASSERT(reply->content.piece_count == 1);
    union {
        const uint8_t *given;
        uint8_t *own;
    } rows = {reply->content.pieces[0].data};
    size_t row_bytes = reply->content.size / count;
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        ps_view_copy(request->keys, i * sizeof key, &key, sizeof key);
        if (!sim_rows_has(server, request->name, key))
            memset(rows.own + i * row_bytes, 0x40, row_bytes);
    }
}

bool sim_is_full(const struct ps_item_status *status)
{
    return status->status == PS_ERR_TABLE_FULL;
}

/* ---- Records and checkpoints ---- */

void sim_rows_bend_expiry(enum sim_mutation mutation, struct ps_record *record, uint8_t *bent,
                          struct ps_bytes *piece)
{
    struct ps_expire_record expired;
    uint64_t keys[PS_ROW_FOUND_MAX];
    bool bends = mutation == SIM_MUTATION_SWEEP_LOST || mutation == SIM_MUTATION_EXPIRY_SHORT;
    if (!bends || record->type != PS_RECORD_EXPIRE)
        return;
    PS_ASSERT(record->content.piece_count == 1);
    const struct ps_bytes content = record->content.pieces[0];
    enum ps_status status = ps_expire_record_read(content, &expired, NULL);
    PS_ASSERT(status == PS_OK && expired.count <= PS_ROW_FOUND_MAX);
    ps_expire_keys_read(content, 0, expired.count, keys);
    /* No row is of a push before version 1. */
    if (mutation == SIM_MUTATION_SWEEP_LOST)
        expired.before_version = 1;
    /* One key twice, in the place of another; of one key nothing is left out. */
    else
        keys[expired.count - 1] = keys[0];
    ps_expire_record_write(&expired, bent);
    ps_expire_keys_write(keys, expired.count, bent + PS_EXPIRE_RECORD_HEAD_BYTES);
    *piece = (struct ps_bytes){bent, content.size};
    record->content = ps_view_of(piece);
}

void sim_rows_bend_round(enum sim_mutation mutation, struct ps_record *record, uint8_t *bent,
                         struct ps_bytes *piece)
{
    static const uint8_t nobody[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
    struct ps_round_record round;
    if (!sim_is_table(record->name))
        return;
    if (mutation == SIM_MUTATION_ROUND_ROWS_LOST && record->type == PS_RECORD_HELD) {
        ps_view_copy(record->content, 0, bent, PS_HELD_HEAD_BYTES);
        *piece = (struct ps_bytes){bent, PS_HELD_HEAD_BYTES};
        record->content = ps_view_of(piece);
    }
    if (mutation == SIM_MUTATION_ROUND_EVICTED_LOST && record->type == PS_RECORD_ROUND) {
        enum ps_status status = ps_round_record_read(record->content.pieces[0], &round, NULL);
        PS_ASSERT(status == PS_OK && record->content.piece_count == 1);
        round.evicted = nobody;
        *piece = (struct ps_bytes){bent, ps_round_record_write(&round, bent)};
        record->content = ps_view_of(piece);
    }
}

enum ps_status sim_rows_write_late(const struct ps_saver *saver, struct ps_saving *saving)
{
    struct ps_snapshot later;
    if (ps_snapshot_take(saver->service, &later, NULL) != PS_OK)
        return ps_saver_write(saver, saving, NULL);
    for (size_t i = 0; i < saving->snapshot.parameter_count; i++) {
        struct ps_checkpoint_parameter *parameter = &saving->snapshot.parameters[i];
        for (size_t k = 0; k < later.parameter_count && parameter->is_table; k++) {
            const struct ps_checkpoint_parameter *now = &later.parameters[k];
            if (!ps_bytes_equal(now->name, parameter->name))
                continue;
            parameter->rows = now->rows;
            parameter->count = now->count;
            parameter->source = now->source;
        }
    }
    enum ps_status status = ps_saver_write(saver, saving, NULL);
    ps_snapshot_release(&later);
    return status;
}

enum ps_status sim_rows_write_uncounted(const struct ps_saver *saver, struct ps_saving *saving)
{
    saving->snapshot.facts.sections[PS_CHECKPOINT_CANDIDATES].count = 0;
    return ps_saver_write(saver, saving, NULL);
}
