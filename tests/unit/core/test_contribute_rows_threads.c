/* SPDX-License-Identifier: Apache-2.0 */
/* Workers under real threads contribute rows to rounds of a table, while others read, follow it by
 * delta pulls, hold it in snapshots, change its limit and let its rows expire; meant to run under
 * the thread sanitizer, too. */
#include "core_table.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/change.h"
#include "server/core/requests/expire_rows.h"
#include "server/core/requests/service_state.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Worker r has SPAN keys from r on, so that most keys are of several. */
enum { WORKERS = 4, ROUNDS = 150, SPAN = 8, KEYS = WORKERS + SPAN - 1 };

static struct core_world world;
static _Atomic uint32_t next_rank;
static _Atomic int workers_left;
static bool rows_go; /* and begin anew */

/* How many workers add 1 to the key's row in each round. */
static uint32_t cover_of(uint64_t key)
{
    uint32_t count = 0;
    for (uint64_t rank = 0; rank < WORKERS; rank++)
        count += key >= rank && key < rank + SPAN;
    return count;
}

/* A row is whole, and of no version before this one. */
static void expect_row(uint64_t key, const uint8_t *bytes, uint64_t version)
{
    float row[TABLE_WIDTH];
    float cover = (float)cover_of(key);
    memcpy(row, bytes, sizeof row);
    for (size_t i = 1; i < TABLE_WIDTH; i++)
        ck_assert(row[i] == row[0]);
    ck_assert(fmodf(row[0], cover) == 0);
    ck_assert_float_le(row[0], ROUNDS * cover);
    if (!rows_go)
        ck_assert_float_ge(row[0], (float)version * cover);
}

/* All rows, once the table has that version. */
static void await_version(uint64_t version)
{
    uint64_t keys[KEYS];
    uint8_t rows[KEYS * TABLE_WIDTH * sizeof(float)];
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = i;
    const struct ps_bytes piece = {(const uint8_t *)keys, sizeof keys};
    const struct ps_pull_request request = {
        .name = text("t"), .keys = ps_view_of(&piece), .at_least_version = version};
    enum ps_status status = PS_ERR_NOT_READY;
    while (status == PS_ERR_NOT_READY) {
        struct ps_pull_wait wait;
        struct ps_pull got = {0};
        status = ps_service_pull_or_wait(world.service, &request, &got, &wait, NULL);
        if (status == PS_OK) {
            ck_assert_uint_eq(got.reply.content.size, sizeof rows);
            ps_view_copy(got.reply.content, 0, rows, sizeof rows);
            for (uint64_t i = 0; i < KEYS; i++)
                expect_row(i, rows + i * TABLE_WIDTH * sizeof(float), got.reply.version);
        }
        ps_pull_release(&got);
        sched_yield();
    }
    ck_assert_int_eq(status, PS_OK);
}

static void work(void *unused)
{
    (void)unused;
    uint8_t content[SPAN * TABLE_ROW_BYTES];
    float gradients[SPAN * TABLE_WIDTH];
    uint32_t rank = atomic_fetch_add(&next_rank, 1);
    const char client[] = {'c', (char)('0' + rank), '\0'};
    for (uint64_t i = 0; i < SPAN; i++)
        memcpy(content + i * 8, &(uint64_t){rank + i}, 8);
    for (size_t i = 0; i < SPAN * TABLE_WIDTH; i++)
        gradients[i] = -1;
    memcpy(content + SPAN * 8, gradients, sizeof gradients);
    const struct ps_bytes piece = {content, sizeof content};
    ps_service_enter_thread();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const struct ps_push_request request = {
            .name = text("t"),
            .dtype = PS_F32,
            .encoding = PS_ENCODING_ROWS,
            .content = ps_view_of(&piece),
            .worker = 1 + rank,
            .round = round,
            .request = {
                .present = true, .client_id = text(client), .session = 1, .sequence = round}};
        struct ps_push_reply reply;
        ck_assert_int_eq(ps_service_push(world.service, &request, &reply, NULL, NULL), PS_OK);
        ck_assert_uint_eq(reply.version, round);
        await_version(round);
    }
    atomic_fetch_sub(&workers_left, 1);
}

/* ---- Beside them ---- */

static void hold(void *unused)
{
    (void)unused;
    while (atomic_load(&workers_left) > 0) {
        struct ps_snapshot snapshot;
        ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
        struct ps_checkpoint_records records = snapshot.facts.sections[PS_CHECKPOINT_ROUNDS];
        ck_assert_uint_le(records.count, WORKERS);
        for (size_t i = 0; i < snapshot.parameter_count; i++) {
            struct ps_checkpoint_parameter *about = &snapshot.parameters[i];
            float rows[KEYS * TABLE_WIDTH];
            ck_assert_uint_le(about->is_table ? about->rows : 0, KEYS);
            if (about->is_table && about->rows > 0)
                ck_assert_int_eq(about->source.read(about->source.self, 0, 0, rows,
                                                    about->rows * TABLE_WIDTH * sizeof(float),
                                                    NULL),
                                 PS_OK);
        }
        ps_snapshot_release(&snapshot);
        ps_service_check(world.service);
    }
}

/* Takes the answers as client/replica does, but keeps nothing: each row that comes is whole, and of
 * a full copy none is older than its version. */
static void follow(void *unused)
{
    (void)unused;
    struct ps_held held = {.present = true};
    while (atomic_load(&workers_left) > 0) {
        uint8_t bytes[4096];
        const struct ps_pull_request request = {
            .name = text("t"), .held = held, .bytes_max = 5 * TABLE_ROW_BYTES};
        struct ps_pull got = {0};
        enum ps_status status = ps_service_pull(world.service, &request, &got, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_CONFLICT);
        if (status == PS_ERR_CONFLICT) {
            held = (struct ps_held){.present = true};
            continue;
        }
        const struct ps_delta *delta = &got.reply.delta;
        ck_assert_uint_le(got.reply.content.size, sizeof bytes);
        ps_view_copy(got.reply.content, 0, bytes, got.reply.content.size);
        const uint8_t *keys = bytes + delta->gone * 8;
        for (uint64_t i = 0; i < delta->rows; i++) {
            uint64_t key;
            memcpy(&key, keys + i * 8, sizeof key);
            ck_assert_uint_lt(key, KEYS);
            expect_row(key, keys + delta->rows * 8 + i * TABLE_WIDTH * sizeof(float),
                       got.reply.version);
        }
        held.mark = delta->mark;
        held.chain = delta->chain;
        held.block = delta->next;
        held.target = delta->next > 0 ? got.reply.version + 1 : 0;
        if (delta->next == 0)
            held.version = got.reply.version + 1;
        ps_pull_release(&got);
    }
}

/* Never so low that a round has no room. */
static void configure(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; atomic_load(&workers_left) > 0; i++) {
        /* OptimizerConfig{table{rows_max: ...}} */
        const uint8_t limit[] = {0xA2, 0x0D, 2, 0x10, (uint8_t)(i % 2 ? 32 : 100)};
        const struct ps_change_request change = {.name = text("t"),
                                                 .change = {limit, sizeof limit}};
        struct ps_changed changed = {0};
        ck_assert_int_eq(ps_service_configure(world.service, &change, &changed, NULL, NULL), PS_OK);
        ps_changed_release(&changed);
        ps_service_expire_rows(world.service);
        sched_yield();
    }
}

START_TEST(every_round_of_rows_is_made_of_every_worker_once)
{
    static const ps_thread_fn functions[] = {work, work, work, work, hold, follow, configure};
    static const float zero = 0;
    const struct ps_round_settings rounds = {.workers = WORKERS, .combine = PS_COMBINE_SUM};
    const struct ps_table_settings table = {
        .rows_max = 100, .full = PS_TABLE_OLDEST, .expire_ms = _i == 1 ? 1 : 0};
    struct ps_service_options options = {.clock = ps_clock_real(), .saves = true};
    struct ps_thread threads[PS_ARRAY_COUNT(functions)] = {0};
    struct ps_ticket ticket;
    rows_go = _i == 1;
    next_rank = 0;
    workers_left = WORKERS;
    options.memory = ps_allocator_heap();
    world = (struct core_world){0};
    ck_assert_int_eq(ps_service_create(&options, &world.service, NULL), PS_OK);
    ps_service_own(world.service, 0, 1, 1, "");
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, &zero, sizeof zero, config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);
    ck_assert_int_eq(table_define(&world, table_config_of_rounds("sgd", table, &rounds), 1), PS_OK);

    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ps_thread_join(&threads[i]);

    await_version(ROUNDS);
    ck_assert_uint_eq(table_of(&world)->version, ROUNDS);
    ps_service_check(world.service);
    ps_service_destroy(world.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("contribute_rows_threads");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_round_of_rows_is_made_of_every_worker_once, 0, 2);
    return run_tests("contribute_rows_threads", tests);
}
