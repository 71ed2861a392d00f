/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's journal thread does: group commit, and healing by a checkpoint. A write is two
 * events, one in which the disk takes it and one in which the service hears of it, so that a
 * process can die between the sync and the replies. */
#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_server.h"

#include <inttypes.h>

#define PAUSED_MS 5        /* a paused process looks again after that */
#define RETRY_MS_MIN 20    /* before another try to write; it doubles */
#define RETRY_MS_MAX 1000  /* up to this */
#define SEGMENT_BYTES 8192 /* small, so that worlds see many; larger for large gradients */
#define SEGMENT_BYTES_LARGE (16 * SEGMENT_BYTES)
#define BUFFER_BYTES 4096 /* so that records go on in the next write */
#define POWER_MS 8000     /* in which the power follows a process */
#define WRITE_MS 20       /* most that a write is waited for, each way */
#define FOLDER "/data"    /* as for checkpoints */

static void take(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);
static void written(struct sim_world *world, void *subject, uint64_t generation, uint64_t status);
static void heal(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);

/* False when the process is gone; a paused one goes on with `run` later. */
static bool may_run(struct sim_server *server, sim_event_fn run, uint64_t generation, uint64_t b)
{
    if (!server->running || server->generation != generation)
        return false;
    if (server->paused)
        sim_post(server->world, PAUSED_MS, run, server, generation, b);
    return !server->paused;
}

static void post(struct sim_server *server, uint64_t after_ms, sim_event_fn run, uint64_t b)
{
    sim_post(server->world, after_ms, run, server, server->generation, b);
}

void sim_journal_wake(void *self)
{
    struct sim_server *server = self;
    struct sim_journal *journal = &server->journal;
    if (journal->posted || journal->writing)
        return;
    journal->posted = true;
    post(server, sim_between(server->world, 0, WRITE_MS), take, 0);
}

void sim_journal_close(struct sim_server *server)
{
    ps_journal_writer_close(server->journal.writer);
    server->journal = (struct sim_journal){0};
}

static enum ps_status open_writer(struct sim_server *server, const struct ps_recovered *recovered)
{
    const struct ps_journal_facts facts = {.index = server->claim.index,
                                           .shard_count = server->world->options.shard_count,
                                           .epoch = server->claim.epoch,
                                           .position = recovered->durable,
                                           .previous_epoch = recovered->epoch,
                                           .history = ps_service_history(server->service),
                                           .repeat_to = recovered->position};
    const struct ps_journal_setup setup = {
        .segment_bytes = server->world->options.large ? SEGMENT_BYTES_LARGE : SEGMENT_BYTES,
        .buffer_bytes = BUFFER_BYTES,
        .direct = true};
    return ps_journal_writer_open(sim_journal_files(server, server->claim.index), FOLDER, &facts,
                                  &setup, &server->world->memory, &server->journal.writer, NULL);
}

enum ps_status sim_journal_open(struct sim_server *server, const struct ps_recovered *recovered)
{
    struct sim_journal *journal = &server->journal;
    if (!server->world->options.journals)
        return PS_OK;
    PS_ASSERT(!journal->writing);
    ps_journal_writer_close(journal->writer);
    journal->writer = NULL;
    journal->failed = false;
    PS_TRY(open_writer(server, recovered));
    sim_notes_begin(server);
    return PS_OK;
}

/* ---- Writing ---- */

/* The file operations of one write fail as the world wants it. */
static enum ps_status write_records(struct sim_server *server, const struct ps_record *records,
                                    size_t count)
{
    struct sim_journal *journal = &server->journal;
    struct memory_files_knobs *knobs =
        memory_files_knobs(server->world->disks[server->claim.index]);
    int64_t fails = journal->fate == SIM_JOURNAL_FAILS ? knobs->seen + journal->operation : -1;
    if (journal->fate == SIM_JOURNAL_DIES)
        knobs->fail_from = knobs->seen + journal->operation;
    knobs->fail_at = fails;
    enum ps_status status = ps_journal_write(journal->writer, records, count, NULL);
    knobs->fail_at = -1;
    knobs->fail_from = -1;
    return status;
}

/* Whoever has the shard by then: what the disk has of the process that died was read by it, and was
 * never synced by anybody. */
static void power_goes(struct sim_world *world, void *subject, uint64_t index, uint64_t b)
{
    (void)subject;
    (void)b;
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        struct sim_server *server = &world->servers[i];
        if (server->running && server->claim.epoch != 0 && server->claim.index == index) {
            sim_server_crash(server, true);
            return;
        }
    }
}

static void die(struct sim_server *server, enum sim_journal_fate fate)
{
    struct sim_world *world = server->world;
    uint32_t index = server->claim.index;
    bool power = fate == SIM_JOURNAL_DIES_AFTER || !server->journal.keeps_power;
    sim_trace(world, server->name, "dies in its journal, %s",
              fate == SIM_JOURNAL_DIES ? "before the sync" : "after the sync");
    sim_server_crash(server, power);
    if (!power)
        sim_post(world, sim_between(world, 500, POWER_MS), power_goes, world, index, 0);
}

static void take(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    struct sim_journal *journal = &server->journal;
    struct ps_record records[SIM_RECORDS_MAX];
    if (!may_run(server, take, generation, b))
        return;
    journal->posted = false;
    if (journal->writer == NULL || journal->failed)
        return;
    size_t count = ps_service_journal_take(server->service, records, SIM_RECORDS_MAX);
    if (count == 0)
        return;
    enum ps_status status = write_records(server, records, count);
    enum sim_journal_fate fate = journal->fate;
    if (status == PS_OK)
        sim_trace(world, server->name, "journals position %" PRIu64,
                  ps_journal_writer_position(journal->writer));
    journal->fate = SIM_JOURNAL_GOOD;
    sim_checker_disk_changed(world, server->claim.index);
    if (fate == SIM_JOURNAL_DIES || fate == SIM_JOURNAL_DIES_AFTER) {
        die(server, fate);
        return;
    }
    journal->writing = true;
    post(server, sim_between(world, 0, WRITE_MS), written, (uint64_t)status);
}

static void note_failure(struct sim_server *server, enum ps_status status)
{
    struct sim_journal *journal = &server->journal;
    sim_trace(server->world, server->name, "cannot write its journal: %s", ps_status_word(status));
    journal->failed = true;
    journal->retry_ms = journal->retry_ms > 0 ? journal->retry_ms : RETRY_MS_MIN;
    server->world->failing[server->claim.index] = true;
    if (!journal->healing)
        post(server, journal->retry_ms, heal, 0);
    journal->healing = true;
}

/* The first write to the file that replaced one that failed. */
static void note_success(struct sim_server *server)
{
    struct sim_journal *journal = &server->journal;
    if (journal->retry_ms > 0)
        server->world->failing[server->claim.index] = false;
    journal->retry_ms = 0;
}

static void written(struct sim_world *world, void *subject, uint64_t generation, uint64_t number)
{
    struct sim_server *server = subject;
    enum ps_status status = (enum ps_status)number;
    struct ps_error why = {0};
    (void)world;
    if (!may_run(server, written, generation, number))
        return;
    server->journal.writing = false;
    if (status != PS_OK)
        (void)ps_fail(&why, status, "the disk refused");
    ps_service_journal_written(server->service, UINT64_MAX, status, &why);
    if (status == PS_OK) {
        note_success(server);
        sim_journal_wake(server);
    } else {
        note_failure(server, status);
    }
    sim_server_ask_parked(server);
}

/* ---- Healing ---- */

static void try_to_heal(struct sim_server *server)
{
    struct sim_journal *journal = &server->journal;
    journal->retry_ms = 2 * journal->retry_ms < RETRY_MS_MAX ? 2 * journal->retry_ms : RETRY_MS_MAX;
    if (!ps_service_journal_failed(server->service)) {
        journal->failed = false; /* the next claim opens a journal of its own */
        ps_journal_writer_close(journal->writer);
        journal->writer = NULL;
        return;
    }
    if (ps_journal_writer_revive(journal->writer, NULL) != PS_OK)
        return;
    journal->failed = false;
    sim_checker_disk_changed(server->world, server->claim.index);
    sim_trace(server->world, server->name, "goes on in another file behind position %" PRIu64,
              ps_journal_writer_position(journal->writer));
    sim_journal_wake(server);
}

static void heal(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)world;
    if (!may_run(server, heal, generation, b))
        return;
    if (server->journal.failed)
        try_to_heal(server);
    server->journal.healing = server->journal.failed;
    if (server->journal.healing)
        post(server, server->journal.retry_ms, heal, 0);
}
