/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training against a table. What a failure means is decided in one place (settle),
 * whether the push went alone or with the next read. Nothing is cached here between two steps:
 * how old a row may be is what the clocks decide, and a row that is read again has this worker's
 * own pushes in it. */
#include "tools/remote_table.h"

#include "base/assert.h"
#include "base/clock.h"

/* How long a read waits before it asks whether there still is a table to read. */
#define READ_PATIENCE_MS 5000

static enum ps_status connect_table(struct ps_remote_table *remote, uint64_t timeout_ms,
                                    struct ps_error *error);
static int put_table(void *context, uint64_t timeout_ms, struct psclient_error *cause);
static enum ps_status join_clocks(struct ps_remote_table *remote, uint64_t timeout_ms,
                                  struct ps_error *error);
static enum ps_status join_rounds(struct ps_remote_table *remote, uint64_t timeout_ms,
                                  struct ps_error *error);
static enum ps_status step_in_round(struct ps_remote_table *remote,
                                    const struct ps_row_batch *pushed, struct ps_row_batch *next,
                                    struct ps_error *error);
static enum ps_status read_at(struct ps_remote_table *remote, const char *clocks,
                              struct ps_row_batch *batch, struct ps_error *error);
static enum ps_status push(struct ps_remote_table *remote, const struct ps_row_batch *batch,
                           struct ps_error *error);
static enum ps_status settle(struct ps_remote_table *remote, int status,
                             const struct psclient_error *cause, struct ps_error *error);

/* The name of the clocks is the table's: every table may have its own. */
static const char *clocks_of(const struct ps_remote_table *remote)
{
    return remote->options.clocks != NULL ? remote->options.table.name : NULL;
}

/* Rounds take the place of clocks: whoever waits for the others' gradients needs no bound on how
 * old rows may be. */
static bool is_sync(const struct ps_remote_table *remote)
{
    return remote->options.rounds.size > 0;
}

/* Every message begins with the worker: several of them write to one terminal. */
static enum ps_status fail(const struct ps_remote_table *remote, const char *what,
                           const struct psclient_error *cause, struct ps_error *error)
{
    return ps_model_servers_fail(remote->options.worker, what, cause, error);
}

/* A table of an earlier run is the usual reason, and what to do about that is known here. */
static enum ps_status refuse_table(const struct ps_remote_table *remote,
                                   const struct psclient_error *cause, struct ps_error *error)
{
    if (cause->status != PSCLIENT_ALREADY)
        return fail(remote, "define the table", cause, error);
    return fail(remote,
                "define the table (train on with the settings of before, or with another --name)",
                cause, error);
}

/* Statuses that say that a server was restarted without its state. */
static bool is_lost(int status)
{
    return status == PSCLIENT_NOT_INITIALIZED || status == PSCLIENT_NOT_FOUND;
}

/* The options are copied, and what they point at is not. */
enum ps_status ps_remote_table_open(struct ps_remote_table *remote,
                                    const struct ps_remote_table_options *options,
                                    struct ps_error *error)
{
    *remote = (struct ps_remote_table){.options = *options};
    return connect_table(remote, options->call_timeout_ms, error);
}

/* The rows stay on the servers; only the handle goes. */
void ps_remote_table_close(struct ps_remote_table *remote)
{
    psclient_table_close(remote->table);
    *remote = (struct ps_remote_table){.table = NULL};
}

/* The job first, then the table: a job that was initialised earlier, with other parameters, gets
 * the table beside them. Every worker defines the same one, and all but the first find it there. */
static enum ps_status connect_table(struct ps_remote_table *remote, uint64_t timeout_ms,
                                    struct ps_error *error)
{
    struct ps_remote_table_options *options = &remote->options;
    const struct ps_model_init init = {
        .put = put_table, .context = remote, .worker = options->worker, .timeout_ms = timeout_ms};
    struct psclient_error cause;
    /* The old handle knows the servers as they were; the new one asks them again. */
    psclient_table_close(remote->table);
    remote->table = NULL;
    PS_TRY(ps_model_servers_initialise(options->servers, &init, error));
    if (psclient_table_define(options->servers->client, &options->table, timeout_ms, &remote->table,
                              &cause) != PSCLIENT_OK)
        return refuse_table(remote, &cause, error);
    if (is_sync(remote))
        return join_rounds(remote, timeout_ms, error);
    return options->clocks != NULL ? join_clocks(remote, timeout_ms, error) : PS_OK;
}

/* The table may be that of an earlier run, with other rounds or none. Where it has these already
 * nothing changes, so that every worker may say so. */
static enum ps_status join_rounds(struct ps_remote_table *remote, uint64_t timeout_ms,
                                  struct ps_error *error)
{
    const struct ps_remote_table_options *options = &remote->options;
    const char *const names[] = {options->table.name};
    /* Then the version: a worker that was killed goes on with the round that is open, to which it
     * may have contributed before. */
    struct psclient_error cause;
    if (psclient_configure(options->servers->client, names, 1, options->rounds.data,
                           options->rounds.size, timeout_ms, NULL, NULL, &cause) != PSCLIENT_OK ||
        psclient_table_version(remote->table, timeout_ms, &remote->clock, &cause) != PSCLIENT_OK)
        return fail(remote, "set the rounds", &cause, error);
    return PS_OK;
}

/* Called by whoever initialises the job; the handle is of no use until that is done. */
static int put_table(void *context, uint64_t timeout_ms, struct psclient_error *cause)
{
    const struct ps_remote_table *remote = context;
    struct psclient_table *table = NULL;
    int status = psclient_table_define(remote->options.servers->client, &remote->options.table,
                                       timeout_ms, &table, cause);
    psclient_table_close(table);
    return status;
}

/* Every worker sets the same clocks, and learns where it stands: one that was killed goes on from
 * there. */
static enum ps_status join_clocks(struct ps_remote_table *remote, uint64_t timeout_ms,
                                  struct ps_error *error)
{
    const struct ps_remote_table_options *options = &remote->options;
    struct psclient *client = options->servers->client;
    struct psclient_error cause;
    if (psclient_set_clocks(client, clocks_of(remote), options->clocks, timeout_ms, &cause) !=
            PSCLIENT_OK ||
        psclient_clock(client, clocks_of(remote), options->worker + 1, remote->clock, timeout_ms,
                       &remote->clock, &cause) != PSCLIENT_OK)
        return fail(remote, "set the clocks", &cause, error);
    return PS_OK;
}

/* The first batch of a run; those behind it come with a step. */
enum ps_status ps_remote_table_read(struct ps_remote_table *remote, struct ps_row_batch *batch,
                                    struct ps_error *error)
{
    return read_at(remote, clocks_of(remote), batch, error);
}

/* A judge that waited for slower workers would hold its own worker back, and through it all
 * others. */
enum ps_status ps_remote_table_peek(struct ps_remote_table *remote, struct ps_row_batch *batch,
                                    struct ps_error *error)
{
    return read_at(remote, NULL, batch, error);
}

/* One deadline for all tries. A server that was restarted without its state holds a read back until
 * somebody initialises it, which may be for one of those to do who wait here: so nobody waits for
 * long without asking. Asking costs a few messages, also where a slow worker is what is waited
 * for. */
static enum ps_status read_at(struct ps_remote_table *remote, const char *clocks,
                              struct ps_row_batch *batch, struct ps_error *error)
{
    const struct ps_clock *now = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(now, remote->options.call_timeout_ms);
    for (;;) {
        struct psclient_error cause;
        if (psclient_table_at(remote->table, clocks, remote->options.worker + 1, remote->clock,
                              &cause) != PSCLIENT_OK)
            return fail(remote, "name its clock", &cause, error);
        /* What is left of the one deadline goes down into each call, and no call begins a new
         * one. */
        uint64_t left_ms = ps_time_left_ms(now, deadline_ms);
        uint64_t try_ms = left_ms < READ_PATIENCE_MS ? left_ms : READ_PATIENCE_MS;
        int status = psclient_table_get(remote->table, batch->keys, batch->row_count, batch->rows,
                                        try_ms, &cause);
        if (status == PSCLIENT_OK)
            return PS_OK;
        bool again = is_lost(status) || status == PSCLIENT_UNAVAILABLE;
        /* The second condition keeps a server that loses its state again and again from holding a
         * worker for ever. */
        left_ms = ps_time_left_ms(now, deadline_ms);
        if (!again || left_ms == 0)
            return fail(remote, "read rows", &cause, error);
        PS_TRY(connect_table(remote, left_ms, error));
    }
}

/* Without clocks push and read go as one; a failure of either is looked at as one of the push, and
 * the read is made again by itself. */
enum ps_status ps_remote_table_step(struct ps_remote_table *remote,
                                    const struct ps_row_batch *pushed, struct ps_row_batch *next,
                                    struct ps_error *error)
{
    PS_ASSERT(remote->table != NULL && pushed->width == remote->options.table.width);
    if (is_sync(remote))
        return step_in_round(remote, pushed, next, error);
    /* At the clocks the others have to hear of the push before this worker may wait for them, so
     * that the two calls cannot be one. */
    if (remote->options.clocks != NULL || next == NULL) {
        PS_TRY(push(remote, pushed, error));
        return next != NULL ? ps_remote_table_read(remote, next, error) : PS_OK;
    }
    struct psclient_error cause;
    int status = psclient_table_add_get(remote->table, pushed->keys, pushed->row_count,
                                        pushed->gradients, next->keys, next->row_count, next->rows,
                                        remote->options.call_timeout_ms, &cause);
    PS_TRY(settle(remote, status, &cause, error));
    return status == PSCLIENT_OK ? PS_OK : ps_remote_table_read(remote, next, error);
}

/* The last step reads nothing, and waits all the same: the model that is judged then has its
 * round. */
static enum ps_status step_in_round(struct ps_remote_table *remote,
                                    const struct ps_row_batch *pushed, struct ps_row_batch *next,
                                    struct ps_error *error)
{
    const struct psclient_table_step step = {.keys = pushed->keys,
                                             .count = pushed->row_count,
                                             .gradients = pushed->gradients,
                                             .get_keys = next != NULL ? next->keys : NULL,
                                             .get_count = next != NULL ? next->row_count : 0,
                                             .rows = next != NULL ? next->rows : NULL,
                                             .worker = remote->options.worker + 1};
    struct psclient_table_stepped stepped;
    struct psclient_error cause;
    int status = psclient_table_step(remote->table, &step, remote->options.call_timeout_ms,
                                     &stepped, &cause);
    PS_TRY(settle(remote, status, &cause, error));
    if (status == PSCLIENT_OK) {
        remote->clock = stepped.version;
        remote->late_pushes += stepped.late > 0 ? 1 : 0;
        return PS_OK;
    }
    return next != NULL ? ps_remote_table_read(remote, next, error) : PS_OK;
}

/* The clock moves behind the push, whatever became of that: the others would wait for this worker
 * otherwise. */
static enum ps_status push(struct ps_remote_table *remote, const struct ps_row_batch *batch,
                           struct ps_error *error)
{
    const struct ps_remote_table_options *options = &remote->options;
    struct psclient_error cause;
    int status = psclient_table_add(remote->table, batch->keys, batch->row_count, batch->gradients,
                                    options->call_timeout_ms, &cause);
    PS_TRY(settle(remote, status, &cause, error));
    if (options->clocks == NULL)
        return PS_OK;
    status = psclient_clock(options->servers->client, clocks_of(remote), options->worker + 1,
                            remote->clock + 1, options->call_timeout_ms, &remote->clock, &cause);
    if (!is_lost(status))
        return status == PSCLIENT_OK ? PS_OK : fail(remote, "tell its clock", &cause, error);
    /* Clocks that were lost behind the push are set again, and this step counts at them. */
    remote->clock++;
    return connect_table(remote, options->call_timeout_ms, error);
}

/* The client has repeated the push for as long as the timeout allows. What is still unknown then
 * was applied once or not at all. A push that met no table was computed from rows that are gone. */
static enum ps_status settle(struct ps_remote_table *remote, int status,
                             const struct psclient_error *cause, struct ps_error *error)
{
    /* A round that is not over in time would not be over in time at the next try. */
    bool is_open = status == PSCLIENT_UNKNOWN && !is_sync(remote);
    if (status != PSCLIENT_OK && !is_open && !is_lost(status))
        return fail(remote, "push gradients", cause, error);
    /* A step is over whatever became of its push: the batch is not taken again. */
    remote->steps++;
    remote->pushes += status == PSCLIENT_OK;
    remote->lost_pushes += status != PSCLIENT_OK;
    /* At once, and not with the next read: the clocks were lost with the table. */
    if (is_lost(status))
        return connect_table(remote, remote->options.call_timeout_ms, error);
    return PS_OK;
}
