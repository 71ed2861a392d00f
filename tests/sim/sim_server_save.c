/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's other thread does when it saves: the instant, the file, the pointer, each some
 * time behind the one before. */
#include "base/assert.h"
#include "server/core/recovery/snapshot.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_server_jobs.h"
#include "tests/sim/sim_table_faults.h"

#include <inttypes.h>

#define JOURNAL_MS 5000 /* most that a save waits for the journal */
#define WAIT_MS 5       /* and looks again after that */
#define LATE_MS 300     /* rows of a mutation are so much later than their checkpoint */
#define LONG_MS 4000    /* most that a late file is late */
#define LET_BY_PERMILLE 300

static void write(struct sim_world *world, void *subject, uint64_t generation, uint64_t until_ms);
static void write_file(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);
static void publish(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);
static void tell_saved(struct sim_world *world, void *subject, uint64_t generation,
                       uint64_t status);

static struct ps_saver saver_of(struct sim_server *server)
{
    return (struct ps_saver){.service = server->service,
                             .files = sim_server_files(server, server->claim.index),
                             .folder = SIM_JOB_FOLDER,
                             .registry = &server->job_registry,
                             .claim = &server->claim,
                             .memory = &server->world->memory,
                             .clock = &server->world->clock,
                             .increments = &server->increments};
}

/* SIM_MUTATION_SNAPSHOT_TORN: writes a checkpoint of which one byte is of no instant at all. */
static enum ps_status write_torn(const struct ps_saver *saver, struct ps_saving *saving)
{
    struct ps_snapshot *snapshot = &saving->snapshot;
    uint8_t values[SIM_ELEMENTS_MAX * 8];
    struct ps_bytes piece = {values, 0};
    if (snapshot->parameter_count > 0 && !snapshot->parameters[0].is_table) {
        struct ps_checkpoint_parameter *parameter = &snapshot->parameters[0];
        piece.size = parameter->values.size;
        ps_view_copy(parameter->values, 0, values, piece.size);
        values[0] ^= 1;
        parameter->values = ps_view_of(&piece);
    }
    return ps_saver_write(saver, saving, NULL);
}

/* A disk that is slow with what came before: pushes change what the snapshot holds, until it is
 * read. */
static uint64_t choose_late_ms(struct sim_world *world)
{
    if (world->options.mutation == SIM_MUTATION_ROWS_LATE)
        return LATE_MS;
    if (!world->options.writes_late)
        return 0;
    /* Of some so long that rows go, and others take their places. */
    return sim_between(world, 1, sim_chance(world, 300) ? LONG_MS : 2 * world->options.disk_ms);
}

void sim_save_begin(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    if (!sim_job_may_run(server, sim_save_begin, generation, b))
        return;
    struct ps_saver saver = saver_of(server);
    enum ps_status status =
        ps_saver_reuse(&saver, server->publishes, sim_now(world) + SIM_JOB_STORE_MS, NULL);
    if (status == PS_OK)
        sim_trace(world, server->name, "has nothing new to write");
    if (status != PS_ERR_NOT_FOUND) {
        sim_server_ask_parked(server);
        sim_job_tell(server, tell_saved, status);
        return;
    }
    status = ps_saver_begin(&saver, &server->saving, NULL);
    uint64_t late_ms = choose_late_ms(world);
    if (status == PS_OK && late_ms > 0)
        sim_post(world, late_ms, write, server, generation, sim_now(world) + JOURNAL_MS);
    else if (status == PS_OK)
        write(world, server, generation, sim_now(world) + JOURNAL_MS);
    else
        sim_job_tell(server, tell_saved, status);
}

/* SIM_MUTATION_CHECKPOINT_AHEAD: does not wait for the journal. */
static bool must_wait(struct sim_server *server, uint64_t until_ms, enum ps_status *status)
{
    struct sim_world *world = server->world;
    struct ps_saver saver = saver_of(server);
    *status = ps_saver_may_write(&saver, &server->saving, NULL);
    if (world->options.mutation == SIM_MUTATION_CHECKPOINT_AHEAD)
        *status = *status == PS_ERR_NOT_READY ? PS_OK : *status;
    return *status == PS_ERR_NOT_READY && sim_now(world) < until_ms;
}

static void write(struct sim_world *world, void *subject, uint64_t generation, uint64_t until_ms)
{
    struct sim_server *server = subject;
    enum ps_status status = PS_OK;
    if (!sim_job_may_run(server, write, generation, until_ms))
        return;
    if (must_wait(server, until_ms, &status)) {
        sim_post(world, WAIT_MS, write, server, generation, until_ms);
        return;
    }
    if (status != PS_OK) {
        sim_trace(world, server->name, "cannot write: %s", ps_status_word(status));
        ps_saver_give_up(&server->saving);
        sim_job_tell(server, tell_saved, status);
        return;
    }
    if (world->options.writes_late)
        sim_job_post(server, write_file);
    else
        write_file(world, server, generation, 0);
}

/* Other threads of the server go on between two pieces of the file. */
static void let_by(void *self)
{
    struct sim_server *server = self;
    if (server->world->options.writes_late && sim_chance(server->world, LET_BY_PERMILLE))
        sim_hurry(server->world, server);
}

/* A process that was asleep since it asked its journal does not ask it again. */
static void write_file(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    enum ps_status status;
    if (!sim_job_may_run(server, write_file, generation, b))
        return;
    uint32_t index = server->claim.index;
    struct memory_files_knobs *knobs = memory_files_knobs(world->disks[index]);
    bool dies = server->die_at_operation >= 0;
    if (dies)
        knobs->fail_from = knobs->seen + server->die_at_operation;
    struct ps_saver saver = saver_of(server);
    saver.rest = let_by;
    saver.rest_self = server;
    if (world->options.mutation == SIM_MUTATION_SNAPSHOT_TORN)
        status = write_torn(&saver, &server->saving);
    else if (world->options.mutation == SIM_MUTATION_ROWS_LATE)
        status = sim_rows_write_late(&saver, &server->saving);
    else if (world->options.mutation == SIM_MUTATION_CANDIDATES_LOST)
        status = sim_rows_write_uncounted(&saver, &server->saving);
    else
        status = ps_saver_write(&saver, &server->saving, NULL);
    if (dies) {
        knobs->fail_from = -1;
        sim_server_crash(server, true);
        return;
    }
    if (status == PS_OK)
        sim_checker_wrote(world, server);
    if (status == PS_OK)
        sim_trace(world, server->name, "writes position %" PRIu64 "%s%s",
                  server->saving.place.position,
                  server->saving.base[0] != '\0' ? ", an increment" : "",
                  server->publishes ? "" : ", without its pointer");
    else
        sim_trace(world, server->name, "cannot write: %s", ps_status_word(status));
    sim_checker_disk_changed(world, index);
    if (status == PS_OK && server->publishes)
        sim_job_post(server, publish);
    else
        sim_job_tell(server, tell_saved, status);
}

static void publish(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    if (!sim_job_may_run(server, publish, generation, b))
        return;
    struct ps_saver saver = saver_of(server);
    enum ps_status status =
        ps_saver_publish(&saver, &server->saving, sim_now(world) + SIM_JOB_STORE_MS, NULL);
    if (status == PS_OK)
        sim_trace(world, server->name, "publishes position %" PRIu64,
                  server->saving.place.position);
    else
        sim_trace(world, server->name, "cannot publish: %s", ps_status_word(status));
    sim_checker_disk_changed(world, server->claim.index);
    sim_server_ask_parked(server);
    sim_job_tell(server, tell_saved, status);
}

static void tell_saved(struct sim_world *world, void *subject, uint64_t generation, uint64_t status)
{
    struct sim_server *server = subject;
    (void)world;
    if (!sim_job_may_run(server, tell_saved, generation, status))
        return;
    ps_coordinator_driver_tell_saved(server->driver, (enum ps_status)status, NULL);
    sim_server_wake(server);
}
