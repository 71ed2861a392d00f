/* SPDX-License-Identifier: Apache-2.0 */
/* The pointer that is replaced says how far the shard had come: the new one keeps that. How far a
 * shard had come is known from three places: the pointer itself, the note in the store, and the
 * notes in the folder. The highest counts. The pushes by which the new pointer falls behind are
 * given up, and the new pointer says so itself (`reached`), so that the server that starts from it,
 * and verify, know that the loss was meant. */
#include "tools/psckpt/pointer_change.h"

#include "checkpoint/journal_note.h"
#include "server/core/recovery/recovery_verdict.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <string.h>

static enum ps_status find_reached(struct pointer_change *change, struct published *from,
                                   const char *folder, struct ps_error *error);

/* Positions are unsigned and 0 means none. */
static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Nobody may own the shard from here on; whether that still holds is asked again by the transaction
 * that changes the pointer. A damaged pointer counts as none: it is what is to be replaced. The
 * job's name comes from the checkpoint, not from a folder's: it decides which keys are changed. */
enum ps_status pointer_change_plan(struct pointer_change *change, struct published *from,
                                   struct published *to, const struct ps_checkpoint_facts *facts,
                                   const char *folder, const struct ps_journal_segments *journal,
                                   struct ps_error *error)
{
    *change = (struct pointer_change){.index = facts->index};
    int length = snprintf(change->job, sizeof change->job, "%s", facts->job);
    if (length < 0 || (size_t)length >= sizeof change->job)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.60s...: no job has such a name", facts->job);
    PS_TRY(published_wait_free(to, change->job, change->index, error));
    enum ps_status status = published_place(from, change->job, change->index, &change->old, error);
    change->had_pointer = status == PS_OK;
    change->journal_is_gone =
        change->had_pointer && ps_recovery_journal_is_gone(journal, &change->old);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND && status != PS_ERR_CORRUPT)
        return status;
    return find_reached(change, from, folder, error);
}

/* Notes of an epoch before the pointer's speak of an owner that was overtaken: what it noted behind
 * the takeover was never acknowledged under a valid lease. */
static enum ps_status find_reached(struct pointer_change *change, struct published *from,
                                   const char *folder, struct ps_error *error)
{
    struct ps_journal_note noted = {0};
    struct ps_journal_notes notes;
    PS_TRY(published_note(from, change->job, change->index, &noted, error));
    PS_TRY(ps_journal_notes_read(ps_files_real(), folder, UINT64_MAX, &notes, error));
    change->reached = change->had_pointer ? most(change->old.position, change->old.reached) : 0;
    if (noted.epoch >= change->old.epoch)
        change->reached = most(change->reached, noted.position);
    if (notes.highest.epoch >= change->old.epoch)
        change->reached = most(change->reached, notes.highest.position);
    return PS_OK;
}

/* `reached` is kept only where something is given up; a pointer that loses nothing looks like any
 * other. The whole pointer is replaced, so nothing of an older one can be left in it by mistake. */
void pointer_change_set(struct pointer_change *change, const struct ps_checkpoint_place *place,
                        uint64_t position)
{
    change->place = *place;
    change->place.reached = change->reached > position ? change->reached : 0;
    change->position = position;
}

/* A lower bound when the journal is gone: then nobody knows what was acknowledged last. */
uint64_t pointer_change_given_up(const struct pointer_change *change)
{
    return change->place.reached > 0 ? change->place.reached - change->position : 0;
}

/* The numbers are what an operator has to justify afterwards, so they are printed even when they
 * are zero, and the case that nobody can know has a line of its own instead of a zero. */
void pointer_change_say(const struct pointer_change *change, struct ps_json_writer *json, FILE *to)
{
    uint64_t given_up = pointer_change_given_up(change);
    if (json != NULL) {
        ps_json_begin_object(json, NULL);
        ps_json_uint(json, "index", change->index);
        json_text(json, "path", change->place.path);
        ps_json_uint(json, "position", change->position);
        ps_json_uint(json, "given_up", given_up);
        ps_json_bool(json, "more_unknown", change->journal_is_gone);
        ps_json_end_object(json);
        return;
    }
    (void)fprintf(to, "shard %" PRIu32 ": a server begins at position %" PRIu64 ", from %s\n",
                  change->index, change->position, change->place.path);
    if (given_up > 0)
        (void)fprintf(to,
                      "shard %" PRIu32 ": given up: %" PRIu64
                      " pushes (it had come to position %" PRIu64 ")\n",
                      change->index, given_up, change->place.reached);
    if (change->journal_is_gone)
        (void)fprintf(to,
                      "shard %" PRIu32 ": given up: what was acknowledged behind position %" PRIu64
                      "; its journal is not there, so nobody can tell how much\n",
                      change->index, change->old.position);
    if (given_up == 0 && !change->journal_is_gone)
        (void)fprintf(to, "shard %" PRIu32 ": nothing is given up that the pointer knew of\n",
                      change->index);
}

/* The folder is told first and the pointer changed last. A crash in between leaves the old pointer
 * in the store, and the command is simply repeated; the other order could leave a pointer whose
 * folder still claims the missing pushes. */
enum ps_status pointer_change_make(const struct pointer_change *change, struct published *published,
                                   struct ps_error *error)
{
    PS_TRY(pointer_change_note(change, error));
    return published_replace(published, change->job, change->index, &change->place, error);
}

/* A pointer that gives nothing up needs no note. */
enum ps_status pointer_change_note(const struct pointer_change *change, struct ps_error *error)
{
    char folder[sizeof change->place.path];
    (void)snprintf(folder, sizeof folder, "%s", change->place.path);
    char *slash = strrchr(folder, '/');
    if (change->place.reached == 0 || slash == NULL)
        return PS_OK;
    *slash = '\0';
    return ps_journal_give_up(ps_files_real(), folder, change->place.reached, change->position,
                              error);
}
