/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's other thread does when it loads; and its disk. */
#include "tests/sim/sim_server_jobs.h"
#include "base/assert.h"
#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_run.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_table_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSED_MS 50 /* a job of a paused process looks again after that */
#define BENT_BYTES (SIM_ELEMENTS_MAX * 8 + PS_HELD_HEAD_BYTES)

static void load(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);
static void open_journal(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);

bool sim_job_may_run(struct sim_server *server, sim_event_fn run, uint64_t generation, uint64_t b)
{
    if (!server->running || server->generation != generation)
        return false;
    if (server->paused)
        sim_post(server->world, PAUSED_MS, run, server, generation, b);
    return !server->paused;
}

void sim_job_post(struct sim_server *server, sim_event_fn run)
{
    struct sim_world *world = server->world;
    sim_post(world, sim_between(world, 1, world->options.disk_ms), run, server, server->generation,
             0);
}

/* ---- Hooks ---- */

static void start_load(void *self, const struct ps_claim *claim, uint32_t shard_count)
{
    struct sim_server *server = self;
    PS_ASSERT(shard_count == server->world->options.shard_count);
    server->claim = *claim;
    sim_job_post(server, load);
}

static void start_save(void *self, const struct ps_claim *claim, bool publishes)
{
    struct sim_server *server = self;
    PS_ASSERT(claim->epoch == server->claim.epoch);
    server->publishes = publishes;
    sim_job_post(server, sim_save_begin);
}

static void start_drain(void *self, uint64_t deadline_ms)
{
    struct sim_server *server = self;
    (void)deadline_ms;
    ps_coordinator_driver_tell_drained(server->driver); /* no call takes time here */
}

static enum ps_status start_listening(void *self, struct ps_error *error)
{
    (void)error;
    ((struct sim_server *)self)->listening = true;
    return PS_OK;
}

void sim_server_hooks(struct sim_server *server, struct ps_coordinator_hooks *hooks)
{
    *hooks = (struct ps_coordinator_hooks){.load = start_load,
                                           .save = start_save,
                                           .drain = start_drain,
                                           .listen = start_listening,
                                           .self = server};
}

/* ---- Loading ---- */

static void tell_loaded(struct sim_world *world, void *subject, uint64_t generation,
                        uint64_t status)
{
    struct sim_server *server = subject;
    if (!sim_job_may_run(server, tell_loaded, generation, status))
        return;
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        sim_trace(world, server->name, "cannot load: %s", ps_status_word((enum ps_status)status));
    ps_coordinator_driver_tell_loaded(server->driver, (enum ps_status)status, NULL);
    sim_server_wake(server);
}

void sim_job_tell(struct sim_server *server, sim_event_fn tell, enum ps_status status)
{
    sim_post(server->world, sim_kv_take_spent(server->job_kv), tell, server, server->generation,
             (uint64_t)status);
}

static bool bends_replay(enum sim_mutation mutation)
{
    return mutation == SIM_MUTATION_REPLAY_BENT || mutation == SIM_MUTATION_CONFIGURE_LOST ||
           mutation == SIM_MUTATION_DROP_UNREMEMBERED || mutation == SIM_MUTATION_HELD_BENT ||
           mutation == SIM_MUTATION_CLOCK_LOST || mutation == SIM_MUTATION_CLOCKS_KEPT ||
           mutation == SIM_MUTATION_EVICTION_LOST || mutation == SIM_MUTATION_SWEEP_LOST ||
           mutation == SIM_MUTATION_EXPIRY_SHORT || mutation == SIM_MUTATION_TABLE_DROP_LOST ||
           mutation == SIM_MUTATION_ROUND_ROWS_LOST || mutation == SIM_MUTATION_ROUND_EVICTED_LOST;
}

/* The gradient of a contribution, or who is evicted. The head stays. */
static void bend_round(enum sim_mutation mutation, struct ps_record *record,
                       uint8_t bent[BENT_BYTES], struct ps_bytes *piece)
{
    struct ps_round_record round;
    if (mutation == SIM_MUTATION_HELD_BENT && record->type == PS_RECORD_HELD) {
        PS_ASSERT(record->content.size <= BENT_BYTES);
        memset(bent, 0, BENT_BYTES);
        ps_view_copy(record->content, 0, bent, PS_HELD_HEAD_BYTES);
        *piece = (struct ps_bytes){bent, record->content.size};
        record->content = ps_view_of(piece);
    }
    if (mutation == SIM_MUTATION_EVICTION_LOST && record->type == PS_RECORD_ROUND) {
        static const uint8_t nobody[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
        enum ps_status status = ps_round_record_read(record->content.pieces[0], &round, NULL);
        PS_ASSERT(status == PS_OK && record->content.piece_count == 1);
        round.evicted = nobody;
        *piece = (struct ps_bytes){bent, ps_round_record_write(&round, bent)};
        record->content = ps_view_of(piece);
    }
}

/* Right in number, wrong in content. `piece` is what the content views then. */
static void bend_record(const struct sim_server *server, struct ps_record *record,
                        struct ps_bytes *piece)
{
    static const uint8_t zeros[SIM_ELEMENTS_MAX * 8];
    enum sim_mutation mutation = server->world->options.mutation;
    if (mutation == SIM_MUTATION_REPLAY_BENT && record->type == PS_RECORD_PUSH) {
        PS_ASSERT(record->content.size <= sizeof zeros);
        *piece = (struct ps_bytes){zeros, record->content.size};
        record->content = ps_view_of(piece);
    }
    const struct ps_parameter *parameter =
        ps_parameter_table_find(&server->service->table, record->name);
    if (mutation == SIM_MUTATION_CONFIGURE_LOST && record->type == PS_RECORD_CONFIGURE &&
        parameter != NULL) {
        *piece = parameter->spec->config;
        record->content = ps_view_of(piece);
    }
    if (mutation == SIM_MUTATION_TABLE_DROP_LOST && record->type == PS_RECORD_DROP &&
        parameter != NULL && parameter->spec->settings.table.width > 0) {
        record->type = PS_RECORD_CONFIGURE;
        *piece = parameter->spec->config;
        record->content = ps_view_of(piece);
    }
    if (mutation == SIM_MUTATION_DROP_UNREMEMBERED && record->type == PS_RECORD_DROP)
        record->client_id = (struct ps_bytes){0};
}

static void bend_clock(enum sim_mutation mutation, struct ps_record *record,
                       uint8_t bent[BENT_BYTES], struct ps_bytes *piece)
{
    struct ps_clock_record clock;
    if (mutation != SIM_MUTATION_CLOCK_LOST || record->type != PS_RECORD_CLOCK)
        return;
    enum ps_status status = ps_clock_record_read(record->content.pieces[0], &clock, NULL);
    PS_ASSERT(status == PS_OK && record->content.piece_count == 1);
    clock.clock -= clock.clock > 0 ? 1 : 0;
    ps_clock_record_write(&clock, bent);
    *piece = (struct ps_bytes){bent, PS_CLOCK_RECORD_BYTES};
    record->content = ps_view_of(piece);
}

/* A removal is one of clocks that nobody has. */
static void bend_removal(enum sim_mutation mutation, struct ps_record *record)
{
    struct ps_clocks_record clocks;
    if (mutation != SIM_MUTATION_CLOCKS_KEPT || record->type != PS_RECORD_CLOCKS)
        return;
    enum ps_status status = ps_clocks_record_read(record->content.pieces[0], &clocks, NULL);
    PS_ASSERT(status == PS_OK);
    if (ps_clocks_record_removes(&clocks))
        record->name = ps_bytes_of_text("nobody's");
}

static enum ps_status put_bent(void *self, struct ps_journal_row *row, struct ps_error *error)
{
    struct sim_server *server = self;
    uint8_t bent[BENT_BYTES];
    struct ps_bytes piece;
    bend_record(server, &row->record, &piece);
    bend_round(server->world->options.mutation, &row->record, bent, &piece);
    bend_clock(server->world->options.mutation, &row->record, bent, &piece);
    bend_removal(server->world->options.mutation, &row->record);
    sim_rows_bend_expiry(server->world->options.mutation, &row->record, bent, &piece);
    sim_rows_bend_round(server->world->options.mutation, &row->record, bent, &piece);
    enum ps_status status = ps_recovery_apply(server->service, &row->record, error);
    if (status == PS_OK)
        ps_journal_row_release(row);
    return status;
}

static enum ps_status finish_replay(void *self, struct ps_error *error)
{
    (void)self;
    (void)error;
    return PS_OK;
}

static void trace_loaded(struct sim_server *server, const struct ps_recovered *recovered)
{
    char replayed[64] = "";
    if (recovered->replayed_count > 0)
        snprintf(replayed, sizeof replayed, ", replays up to %" PRIu64, recovered->position);
    sim_trace(server->world, server->name, "loads epoch %" PRIu64 ", position %" PRIu64 "%s%s",
              recovered->place.epoch, recovered->place.position, replayed,
              recovered->damaged_count > 0 ? ", passing over damage" : "");
}

/* Opens the journal behind what was loaded, or behind nothing, and lets the service begin. */
static enum ps_status begin(struct sim_server *server)
{
    enum ps_status status = server->load_status;
    const struct ps_recovered *recovered = &server->recovered;
    enum ps_status opened = sim_journal_open(server, recovered);
    if (status == PS_OK && opened != PS_OK)
        ps_service_give_up_recovery(server->service);
    if (opened != PS_OK)
        return opened;
    if (status == PS_OK) {
        trace_loaded(server, recovered);
        ps_recovery_finish(server->service, recovered->position);
        sim_forget_ids(server);
        sim_checker_loaded(server->world, server, recovered);
    }
    sim_checker_began(server->world, server, recovered);
    sim_checker_state(server->world, server);
    return status;
}

/* What was loaded is thrown away, as the server does. */
static void give_up(struct sim_server *server)
{
    if (server->load_status == PS_OK)
        ps_service_give_up_recovery(server->service);
    server->load_status = PS_ERR_UNAVAILABLE;
}

/* Between this look at the clock and a late opening the process may be paused. */
static void begin_or_not(struct sim_server *server)
{
    const struct sim_options *options = &server->world->options;
    bool loaded = server->load_status == PS_OK || server->load_status == PS_ERR_NOT_FOUND;
    if (loaded && options->journals && !ps_service_is_proved(server->service)) {
        give_up(server);
        loaded = false;
    }
    if (loaded && options->opens_late)
        sim_job_post(server, open_journal);
    else
        sim_job_tell(server, tell_loaded, loaded ? begin(server) : server->load_status);
}

static void open_journal(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)world;
    if (sim_job_may_run(server, open_journal, generation, b))
        sim_job_tell(server, tell_loaded, begin(server));
}

static void load(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    struct ps_error error = {0};
    struct ps_kv_entries entries = {0};
    if (!sim_job_may_run(server, load, generation, b))
        return;
    if (server->journal.writing) { /* a write for the former claim comes to its end first */
        sim_job_post(server, load);
        return;
    }

    uint32_t index = server->claim.index;
    enum ps_status status = ps_registry_read_checkpoint(
        &server->job_registry, index, sim_now(world) + SIM_JOB_STORE_MS, &entries, &error);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND) {
        sim_job_tell(server, tell_loaded, status);
        return;
    }
    struct ps_recovery recovery = {.service = server->service,
                                   .files = sim_server_files(server, index),
                                   .folder = SIM_JOB_FOLDER,
                                   .memory = &world->memory};
    const struct ps_replay_sink bent = {.put = put_bent, .finish = finish_replay, .self = server};
    if (bends_replay(world->options.mutation))
        recovery.sink = &bent;
    if (status == PS_OK)
        recovery.pointer =
            (struct ps_bytes){entries.entries[0].value, entries.entries[0].value_size};
    status = sim_notes_read(server, &recovery.noted);
    if (status == PS_OK)
        status = ps_recovery_run(&recovery, &server->recovered, &error);
    server->load_status = status;
    ps_kv_entries_release(&entries);
    begin_or_not(server);
}

/* ---- The disk ---- */

static enum ps_status sync_nothing(void *self, struct ps_file file, struct ps_error *error)
{
    (void)self;
    (void)file;
    (void)error;
    return PS_OK;
}

static const struct ps_files *careless_files(struct sim_world *world, uint32_t index)
{
    world->careless[index] = *memory_files_files(world->disks[index]);
    world->careless[index].sync = sync_nothing;
    return &world->careless[index];
}

const struct ps_files *sim_journal_files(struct sim_server *server, uint32_t index)
{
    struct sim_world *world = server->world;
    if (world->options.mutation == SIM_MUTATION_JOURNAL_UNSYNCED)
        return careless_files(world, index);
    return sim_server_files(server, index);
}

const struct ps_files *sim_server_files(struct sim_server *server, uint32_t index)
{
    struct sim_world *world = server->world;
    const struct ps_files *files = memory_files_files(world->disks[index]);
    if (world->options.mutation != SIM_MUTATION_SYNC_IGNORED)
        return files;
    return careless_files(world, index);
}
