/* SPDX-License-Identifier: Apache-2.0 */
/* reshard: the state of a job on another number of shards. The way is: load all shards, join the
 * ranges of cut parameters, cut and place them again as a client of the new shard count would,
 * write. A client finds its parameters by the same arithmetic (client/engine/placement.h), so the
 * split size has to be the one that clients use; nothing in a checkpoint says which that was.
 * Sessions cannot be carried over request by request, see session_summary.c: they are ended
 * instead, so that no repeat of an old push is applied a second time. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/joined_state.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/session_summary.h"
#include "tools/psckpt/shard_folders.h"
#include "tools/psckpt/spread_state.h"
#include "tools/psckpt/state_sections.h"
#include "tools/psckpt/state_set.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void say_who_writes(const struct psckpt *tool);
static bool is_written(const struct psckpt *tool, const char *folder);
static enum ps_status set_facts(const struct state_set *from, struct shard_state *whole,
                                struct ps_error *error);
static enum ps_status write_shards(const struct psckpt *tool, const struct state_set *from,
                                   const struct shard_state *whole, uint32_t shard_count,
                                   struct ps_error *error);

/* All shards must be there: a job put together of three shards of four would train on, with a
 * quarter of its parameters initialised anew, and nobody would notice. */
enum ps_status psckpt_reshard(const struct psckpt *tool, struct ps_error *error)
{
    struct state_set from = {0};
    struct shard_state whole;
    uint32_t shard_count = 0;
    size_t uneven = 0;
    PS_TRY(psckpt_check_out(tool, error));
    if (tool->options.to == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "reshard needs --to SHARDS");
    PS_TRY(state_set_shards(tool->options.to, &shard_count, error));
    PS_TRY(state_set_load(&from, tool, tool->arguments[0], RECOVERY_TO_END, error));
    say_who_writes(tool);
    shard_state_init(&whole, tool->box.memory);
    enum ps_status status = joined_state_complete(from.states, from.count, error);
    if (status == PS_OK)
        status = joined_state_make(from.states, from.count, &whole, &uneven, error);
    if (status == PS_OK)
        status = set_facts(&from, &whole, error);
    /* Under the old name the files would lie where servers of the new job do not look. */
    if (status == PS_OK && tool->options.job != NULL)
        whole.facts.job = tool->options.job;
    if (status == PS_OK)
        status = write_shards(tool, &from, &whole, shard_count, error);
    /* Shards acknowledge pushes independently, so after a crash the ranges of one parameter may be
     * some updates apart. Such ranges are not damaged, but the operator should know of them. */
    if (status == PS_OK && uneven > 0)
        (void)fprintf(stderr,
                      "psckpt: of %zu parameters some ranges are newer than others; each has the "
                      "version of its oldest range now\n",
                      uneven);
    shard_state_fini(&whole);
    state_set_fini(&from);
    return status;
}

/* The two jobs part here, and what the old one acknowledges from now on the new one does not have.
 * Said and not refused: it may be a trial of how long this takes. Behind the load, so that a server
 * which was stopped meanwhile is not named. */
static void say_who_writes(const struct psckpt *tool)
{
    struct shard_folders folders = {0};
    if (shard_folders_init(&folders, &tool->box, tool->arguments[0], NULL) == PS_OK)
        for (size_t i = 0; i < folders.count; i++)
            if (is_written(tool, folders.rows[i].path))
                (void)fprintf(stderr,
                              "psckpt: %s: a server is at work there; what it acknowledges from "
                              "now on is not in %s: stop the servers first\n",
                              folders.rows[i].path, tool->options.out);
    shard_folders_fini(&folders);
}

/* The newest segment is the last of the sorted names; of a folder without one nobody knows.
 *
 * The kernel gives a lease for reading only where nobody on this machine has the file open for
 * writing, as a server has its newest segment. It is given back at once; the signal for who is told
 * of another that opens the file is one that does nothing. Where leases are not known, as on some
 * network's disk, or where the server is on another machine, nothing is said. */
static bool is_written(const struct psckpt *tool, const char *folder)
{
    struct name_list names = {0};
    char path[SHARD_FOLDER_PATH_BYTES] = "";
    if (name_list_init(&names, tool->box.files, folder, tool->box.memory, NULL) == PS_OK)
        for (size_t i = 0; i < names.count; i++)
            if (path_ends_with(names.names[i], ".journal") &&
                path_write(path, sizeof path, NULL, folder, "%s/%s", folder, names.names[i]) !=
                    PS_OK)
                path[0] = '\0';
    name_list_fini(&names);
    int file = path[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return false;
    (void)fcntl(file, F_SETSIG, SIGURG);
    bool written = fcntl(file, F_SETLEASE, F_RDLCK) != 0 && (errno == EAGAIN || errno == EBUSY);
    (void)fcntl(file, F_SETLEASE, F_UNLCK);
    (void)close(file);
    return written;
}

/* The position of every new shard is the sum of the old ones: no version and no position that was
 * ever given out is above it. Epoch 0: whatever server loads it comes later. Versions stay those of
 * the parameters; the position only has to be above all of them. */
static enum ps_status set_facts(const struct state_set *from, struct shard_state *whole,
                                struct ps_error *error)
{
    whole->facts.job = from->states[0].facts.job;
    whole->facts.placement = from->states[0].facts.placement;
    for (size_t i = 0; i < from->count; i++) {
        const struct ps_checkpoint_facts *facts = &from->states[i].facts;
        if (facts->position > UINT64_MAX - whole->facts.position)
            return ps_fail(error, PS_ERR_UNSUPPORTED, "the positions of all shards are too large");
        whole->facts.position += facts->position;
        if (facts->unix_ns > whole->facts.unix_ns)
            whole->facts.unix_ns = facts->unix_ns;
    }
    return PS_OK;
}

/* Nothing is written before every new shard could be made: a half resharded job would be taken for
 * a whole one. */
static enum ps_status write_shards(const struct psckpt *tool, const struct state_set *from,
                                   const struct shard_state *whole, uint32_t shard_count,
                                   struct ps_error *error)
{
    struct state_set set;
    size_t evicted = 0;
    PS_TRY(state_set_make(&set, tool->box.memory, shard_count, error));
    enum ps_status status =
        spread_state(whole, tool->options.split_bytes, set.states, shard_count, error);
    if (status == PS_OK)
        status = session_summary_merge(from->states, from->count, set.states, set.count, error);
    /* Before anything is written, since it may refuse. */
    if (status == PS_OK)
        status =
            state_sections_merge(from->states, from->count, set.states, set.count, &evicted, error);
    if (status == PS_OK)
        status = state_set_write(&set, tool, tool->options.out, error);
    /* Each costs its round the grace time once more, and is evicted again. */
    if (status == PS_OK && evicted > 0)
        (void)fprintf(stderr, "psckpt: workers that rounds had evicted are waited for again\n");
    state_set_fini(&set);
    return status;
}
