/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's thread for notes does: the real note writer, woken when something is durable,
 * over a connection to the store of its own. */
#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_server.h"

#define PAUSED_MS 50   /* a paused process looks again after that */
#define READ_MS 3000   /* most that a load waits for the note */
#define FOLDER "/data" /* as for checkpoints */

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);

/* Its chance is a stream of its own, so that what else happens in a world does not depend on when
 * something is noted. */
static void swap_chance(struct sim_server *server)
{
    struct ps_random random = server->world->random;
    server->world->random = server->note_random;
    server->note_random = random;
}

static void post(struct sim_server *server, uint64_t after_ms)
{
    server->noting = true;
    sim_post(server->world, after_ms, turn, server, server->generation, 0);
}

void sim_notes_begin(struct sim_server *server)
{
    server->notes = (struct ps_note_writer){.service = server->service,
                                            .files = sim_journal_files(server, server->claim.index),
                                            .registry = &server->note_registry,
                                            .clock = &server->world->clock};
    ps_note_writer_begin(&server->notes, FOLDER, &server->claim, server->claim.epoch);
    sim_notes_wake(server);
}

void sim_notes_wake(struct sim_server *server)
{
    if (server->notes.epoch != 0 && !server->noting)
        post(server, 1);
}

enum ps_status sim_notes_read(struct sim_server *server, struct ps_journal_note *note)
{
    struct ps_kv_entries entries = {0};
    swap_chance(server);
    enum ps_status status = ps_registry_read_note(&server->note_registry, server->claim.index,
                                                  sim_now(server->world) + READ_MS, &entries, NULL);
    swap_chance(server);
    (void)sim_kv_take_spent(server->note_kv);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    status = ps_journal_note_read(json, note, NULL);
    PS_ASSERT(status == PS_OK);
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* SIM_MUTATION_NOTE_AHEAD: the next position, too. */
static void note_ahead(struct sim_server *server)
{
    struct ps_note_place *place = &server->notes.folder;
    struct ps_journal_note ahead = {place->noted.epoch, place->noted.position + 1};
    if (place->noted.position > 0 &&
        ps_journal_note_put(server->notes.files, FOLDER, &place->noted, &ahead, NULL) == PS_OK)
        place->noted = ahead;
}

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)b;
    if (!server->running || server->generation != generation)
        return;
    if (server->paused) {
        post(server, PAUSED_MS);
        return;
    }
    server->noting = false;
    swap_chance(server);
    uint64_t due_ms = ps_note_writer_turn(&server->notes);
    swap_chance(server);
    if (world->options.mutation == SIM_MUTATION_NOTE_AHEAD)
        note_ahead(server);
    uint64_t spent_ms = sim_kv_take_spent(server->note_kv);
    uint64_t now_ms = sim_now(world);
    sim_checker_disk_changed(world, server->claim.index);
    if (due_ms != PS_DEADLINE_NEVER)
        post(server, due_ms > now_ms + spent_ms ? due_ms - now_ms : spent_ms + 1);
}
