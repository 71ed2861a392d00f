/* SPDX-License-Identifier: Apache-2.0 */
/* Both processes see one page of memory and talk through its flags; the witness naps between its
 * turns and while nobody asks for any. Turns are counted in processor time: a witness that waits
 * for a processor has seen nothing. */
#include "tools/psbench/psbench_witness.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/slab.h"
#include "tools/psbench/psbench_peer_process.h"
#include "tools/psbench/psbench_stills.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MEMORY_BYTES ((size_t)256 << 20)
#define LINE_BYTES 64
#define TURN_LINES 2000
#define NAP_US 500
/* Turns that say what is usual: more than fit into one standstill. */
#define USUAL_TURNS 101
#define ANSWER_MS 10000
/* A virtual machine was seen to give a gibibyte back every two seconds, until all was back that a
 * process had: the last of eight after sixteen seconds. */
#define SETTLED_MS 5000
#define SETTLES_MS_MAX 60000

struct ps_bench_watch {
    atomic_bool wanted;   /* set by who measures */
    atomic_bool watching; /* set by the witness, when it knows what is usual */
    struct ps_bench_stills stills;
};

static void be_witness(struct ps_bench_watch *watch);
static void watch_turns(struct ps_bench_watch *watch, uint8_t *memory, struct ps_random *random);

/* Without exec: there is nothing in the process that a witness could need or disturb. */
enum ps_status ps_bench_witness_open(struct ps_bench_witness *witness, struct ps_error *error)
{
    *witness = (struct ps_bench_witness){.process = 0};
    void *shared = mmap(NULL, sizeof *witness->watch, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a witness: %s", strerror(errno));
    witness->watch = shared;
    witness->process = fork();
    if (witness->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_witness(witness->watch);
    }
    if (witness->process > 0)
        return PS_OK;
    ps_bench_witness_close(witness);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no process for a witness: %s", strerror(errno));
}

/* The memory of the witness goes with its process; what stands in the shared page goes here. */
void ps_bench_witness_close(struct ps_bench_witness *witness)
{
    ps_bench_process_end(&witness->process);
    if (witness->watch != NULL)
        (void)munmap(witness->watch, sizeof *witness->watch);
    *witness = (struct ps_bench_witness){.process = 0};
}

/* The witness waits for the flag to fall before it takes a new wish, so that rest and watch one
 * after the other are two watches. */
enum ps_status ps_bench_witness_watch(struct ps_bench_witness *witness, struct ps_error *error)
{
    struct ps_bench_watch *watch = witness->watch;
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, ANSWER_MS);
    while (atomic_load(&watch->watching) && ps_time_left_ms(clock, deadline_ms) > 0)
        (void)usleep(NAP_US);
    ps_bench_stills_clear(&watch->stills);
    atomic_store(&watch->wanted, true);
    while (!atomic_load(&watch->watching)) {
        if (ps_time_left_ms(clock, deadline_ms) == 0)
            return ps_fail(error, PS_ERR_TIMEOUT, "the witness does not watch");
        (void)usleep(NAP_US);
    }
    return PS_OK;
}

/* A turn that is under way is still noted, some microseconds later. */
void ps_bench_witness_rest(struct ps_bench_witness *witness)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, ANSWER_MS);
    atomic_store(&witness->watch->wanted, false);
    while (atomic_load(&witness->watch->watching) && ps_time_left_ms(clock, deadline_ms) > 0)
        (void)usleep(NAP_US);
}

/* A machine that never comes to rest is measured as it is: the pushes are told apart anyway. */
enum ps_status ps_bench_witness_settle(struct ps_bench_witness *witness, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t end_ms = ps_deadline_after(clock, SETTLES_MS_MAX);
    PS_TRY(ps_bench_witness_watch(witness, error));
    unsigned seen = 0;
    uint64_t settled_ms = ps_deadline_after(clock, SETTLED_MS);
    while (ps_time_left_ms(clock, settled_ms) > 0 && ps_time_left_ms(clock, end_ms) > 0) {
        unsigned count = atomic_load(&witness->watch->stills.count);
        if (count != seen)
            settled_ms = ps_deadline_after(clock, SETTLED_MS);
        seen = count;
        (void)usleep(20 * NAP_US);
    }
    ps_bench_witness_rest(witness);
    return PS_OK;
}

/* Behind rest nobody notes any more, so that the answer stays what it is. */
bool ps_bench_witness_stood_still(const struct ps_bench_witness *witness, uint64_t from_ns,
                                  uint64_t to_ns)
{
    return ps_bench_stills_meet(&witness->watch->stills, from_ns, to_ns);
}

/* Also while it watches, for whoever wants to see that it does. */
double ps_bench_witness_longest_us(const struct ps_bench_witness *witness)
{
    return (double)atomic_load(&witness->watch->stills.longest_ns) / 1e3;
}

/* Never returns. Nothing here asks for heap memory or a lock, which another thread may have held
 * when the process was forked. The memory is taken once and kept, since memory that is given back
 * is what makes machines stand still. */
static void be_witness(struct ps_bench_watch *watch)
{
    struct ps_random random;
    ps_random_init(&random, ps_clock_precise_ns());
    void *memory = mmap(NULL, MEMORY_BYTES + PS_SLAB_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(1);
    /* In large pages, as rows are. */
    uintptr_t start = ((uintptr_t)memory + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
    (void)madvise((void *)start, MEMORY_BYTES, MADV_HUGEPAGE);
    for (bool touched = false;;) {
        (void)usleep(NAP_US);
        if (!atomic_load(&watch->wanted))
            continue;
        if (!touched)
            memset((void *)start, 1, MEMORY_BYTES);
        touched = true;
        watch_turns(watch, (uint8_t *)start, &random);
        atomic_store(&watch->watching, false);
    }
}

/* Lines at random, as keys have them: what a processor can foresee would hide a missing
 * translation. One turn is short, so that a standstill is known to half a millisecond. */
static uint64_t turn(uint8_t *memory, struct ps_random *random)
{
    uint64_t start_ns = ps_clock_thread_ns();
    for (int i = 0; i < TURN_LINES; i++)
        memory[ps_random_below(random, MEMORY_BYTES / LINE_BYTES) * LINE_BYTES]++;
    return ps_clock_thread_ns() - start_ns;
}

/* For qsort, which takes no memory for so few. */
static int compare(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one;
    uint64_t right = *(const uint64_t *)other;
    return (left > right) - (left < right);
}

/* The median: a standstill among the first turns does not make the others look usual. */
static uint64_t usual_turn(uint8_t *memory, struct ps_random *random)
{
    uint64_t turns[USUAL_TURNS];
    for (int i = 0; i < USUAL_TURNS; i++) {
        turns[i] = turn(memory, random);
        (void)usleep(NAP_US);
    }
    qsort(turns, USUAL_TURNS, sizeof turns[0], compare);
    return turns[USUAL_TURNS / 2];
}

/* Until nobody wants it any more. The nap is what leaves the processor to what is measured. */
static void watch_turns(struct ps_bench_watch *watch, uint8_t *memory, struct ps_random *random)
{
    uint64_t usual_ns = usual_turn(memory, random);
    uint64_t from_ns = ps_clock_precise_ns();
    atomic_store(&watch->watching, true);
    while (atomic_load(&watch->wanted)) {
        (void)usleep(NAP_US);
        uint64_t taken_ns = turn(memory, random);
        uint64_t to_ns = ps_clock_precise_ns();
        ps_bench_stills_note(&watch->stills, usual_ns, taken_ns, from_ns, to_ns);
        from_ns = to_ns;
    }
}
