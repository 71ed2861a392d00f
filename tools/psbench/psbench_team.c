/* SPDX-License-Identifier: Apache-2.0 */
/* The hard part is to stop: a worker that stops a round before the others leaves them waiting. The
 * first worker decides, before it steps: no other can have ended the round that the first has not
 * begun, so all of them see the decision before they would begin the next. */
#include "tools/psbench/psbench_team.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

#include <stdatomic.h>

struct run;

/* One worker. Its times are its own, so that nothing is shared while it is measured but the two
 * atomics of the run. */
struct member {
    struct run *run;
    uint64_t number;
    struct ps_thread thread;
    struct ps_bench_times times;
    uint64_t rounds; /* of a free worker */
    enum ps_status status;
    struct ps_error error;
};

struct run {
    struct ps_bench_team *team;
    struct member *members; /* owned */
    uint64_t until_ns;
    atomic_ullong last; /* round after which all stop */
    atomic_bool failed;
};

static enum ps_status start_all(struct run *run, uint64_t *started, struct ps_error *error);
static void member_main(void *argument);
static void decide(struct run *run, uint64_t round);
static enum ps_status sum(struct run *run, uint64_t elapsed_ns, struct ps_bench_figures *figures,
                          struct ps_error *error);

/* Blocks until the last worker has ended. Histograms are too large for a stack, and one is needed
 * for each worker. */
enum ps_status ps_bench_team_run(struct ps_bench_team *team, uint64_t time_ms,
                                 struct ps_bench_figures *figures, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    PS_ASSERT(team->worker_count > 0 && team->worker_count <= PS_BENCH_TEAM_MAX);
    struct run run = {.team = team,
                      .members =
                          ps_zeroed_array(memory, team->worker_count, sizeof(struct member))};
    if (run.members == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for workers");
    atomic_init(&run.last, UINT64_MAX);
    /* Starting the threads is within the time: some tens of microseconds of a second. */
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t started = 0;
    run.until_ns = started_ns + time_ms * 1000000;
    enum ps_status status = start_all(&run, &started, error);
    /* Also after a failure: a thread that runs holds on to the members. */
    for (uint64_t i = 0; i < started; i++)
        ps_thread_join(&run.members[i].thread);
    uint64_t elapsed_ns = ps_clock_precise_ns() - started_ns;
    if (status == PS_OK)
        status = sum(&run, elapsed_ns, figures, error);
    ps_release(memory, run.members);
    return status;
}

/* Threads that are there step at once, and wait for the others in their first step. Where a thread
 * is refused, those that run wait for it until their step's own deadline. */
static enum ps_status start_all(struct run *run, uint64_t *started, struct ps_error *error)
{
    for (uint64_t i = 0; i < run->team->worker_count; i++) {
        struct member *member = &run->members[i];
        member->run = run;
        member->number = i;
        enum ps_status status =
            ps_thread_start(&member->thread, "worker", member_main, member, error);
        if (status != PS_OK) {
            atomic_store(&run->failed, true);
            return status;
        }
        *started = i + 1;
    }
    return PS_OK;
}

/* After a failure of any worker no round can end any more: the others find that out by the deadline
 * of the step that they are in, and begin no other. */
static void member_main(void *argument)
{
    struct member *member = argument;
    struct run *run = member->run;
    struct ps_bench_team *team = run->team;
    uint64_t start_ns = ps_clock_precise_ns();
    for (uint64_t round = team->done + 1; !atomic_load(&run->failed); round++) {
        if (member->number == 0 && !team->is_free)
            decide(run, round);
        member->status = team->step(team->self, member->number, round, &member->error);
        if (member->status != PS_OK) {
            atomic_store(&run->failed, true);
            return;
        }
        /* The end of one step is the start of the next: one reading of the clock serves both. */
        uint64_t now_ns = ps_clock_precise_ns();
        ps_bench_times_note(&member->times, now_ns - start_ns);
        start_ns = now_ns;
        if (team->is_free) {
            member->rounds = round - team->done;
            if (now_ns < run->until_ns || member->rounds < PS_BENCH_REFERENCE_COUNT_MIN)
                continue;
            return;
        }
        /* The decision was made before the first worker began this round, without which the round
         * could not have ended. */
        if (round == atomic_load(&run->last))
            return;
    }
}

/* A few rounds at least, however short the time: one is chance. */
static void decide(struct run *run, uint64_t round)
{
    bool enough = round >= run->team->done + PS_BENCH_REFERENCE_COUNT_MIN;
    if (enough && ps_clock_precise_ns() >= run->until_ns)
        atomic_store(&run->last, round);
}

/* The failure of the lowest worker is told; which was the first nobody knows, and the others are
 * what became of it. Percentiles are over all workers' steps, so that one which is always late
 * shows. */
static enum ps_status sum(struct run *run, uint64_t elapsed_ns, struct ps_bench_figures *figures,
                          struct ps_error *error)
{
    struct ps_bench_team *team = run->team;
    for (uint64_t i = 0; i < team->worker_count; i++)
        if (run->members[i].status != PS_OK)
            return ps_fail(error, run->members[i].status, "worker %llu: %.200s",
                           (unsigned long long)i, run->members[i].error.text);
    /* Every worker has ended with the same round, so that the count is that of any of them. */
    uint64_t rounds = atomic_load(&run->last) - team->done;
    /* Free workers have ended with different rounds: all of their steps count. */
    if (team->is_free)
        rounds = 0;
    for (uint64_t i = 0; team->is_free && i < team->worker_count; i++)
        rounds += run->members[i].rounds;
    team->done += rounds;
    /* Into the first worker's, which nobody asks for alone. */
    struct ps_bench_times *times = &run->members[0].times;
    for (uint64_t i = 1; i < team->worker_count; i++)
        ps_bench_times_add(times, &run->members[i].times);
    *figures = ps_bench_figures_of(rounds, elapsed_ns, times);
    return PS_OK;
}
