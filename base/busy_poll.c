/* SPDX-License-Identifier: Apache-2.0 */
/* Looking instead of sleeping, where a processor is free for it.
 *
 * The adaptive mode protects other threads in two ways. It measures how long sched_yield() took: a
 * long yield means that somebody else had work for this processor. It also measures by how much a
 * look overshot its end, which means that the thread was taken off the processor between two looks.
 * Either one ends the looking for twenty times as long as was taken, so that at most about a
 * twentieth of the processor is spent against the will of others. */
#include "base/busy_poll.h"

#include "base/clock.h"
#include "base/quantity.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

/* "auto" looks for a quarter of a millisecond: several round trips between processes of one host,
 * and still short against the time slice after which the scheduler would step in. */
#define ADAPTIVE_SPIN_NS 250000
/* Fewer processors than this have none to spare. */
#define ADAPTIVE_CORES_MIN 2
/* Giving the processor up takes less than this when nobody wants it. */
#define TAKEN_NS 20000
/* The rest after a collision, in multiples of the time that others took, and its upper end: without
 * one, a process that was stopped for a minute would not look again for twenty. */
#define RESTS_PER_TAKEN 20
#define REST_MAX_NS UINT64_C(1000000000)
/* After so many looks that found nothing only every so many-th wait begins with one. */
#define MISSES_MAX 4
#define SKIPS_MAX 16

/* The order of the tests matters: "off" and "auto" are not quantities, and a quantity of 0 is off
 * because begin() reads a spin of 0 that way. The wish is zeroed again on failure, since
 * ps_quantity_nanoseconds may have stored a time beyond the limit in it. */
enum ps_status ps_busy_poll_parse(const char *label, const char *text,
                                  struct ps_busy_poll_wish *wish, struct ps_error *error)
{
    *wish = (struct ps_busy_poll_wish){0};
    if (strcmp(text, "off") == 0)
        return PS_OK;
    if (strcmp(text, "auto") == 0) {
        *wish = (struct ps_busy_poll_wish){.spin_ns = ADAPTIVE_SPIN_NS, .adaptive = true};
        return PS_OK;
    }
    if (ps_quantity_nanoseconds(text, &wish->spin_ns) &&
        wish->spin_ns <= PS_BUSY_POLL_MS_MAX * UINT64_C(1000000))
        return PS_OK;
    *wish = (struct ps_busy_poll_wish){0};
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%s: \"%.40s\" is neither off, auto, nor a time of at most %d ms, like 50us",
                   label, text, PS_BUSY_POLL_MS_MAX);
}

static bool rest(struct ps_busy_poll *poll, uint64_t now_ns, uint64_t taken_ns);

void ps_busy_poll_init(struct ps_busy_poll *poll, struct ps_busy_poll_wish wish)
{
    *poll = (struct ps_busy_poll){.wish = wish};
    if (wish.adaptive && sysconf(_SC_NPROCESSORS_ONLN) < ADAPTIVE_CORES_MIN)
        poll->wish = (struct ps_busy_poll_wish){0};
}

uint64_t ps_busy_poll_begin(struct ps_busy_poll *poll)
{
    if (poll->wish.spin_ns == 0)
        return 0;
    /* A miss costs a whole spin of the processor and gains nothing. After several in a row one wait
     * in sixteen still looks, so that a thread whose traffic returns finds that out. */
    if (poll->misses >= MISSES_MAX && ++poll->skipped < SKIPS_MAX)
        return 0;
    uint64_t now_ns = ps_clock_precise_ns();
    if (now_ns < poll->resume_ns)
        return 0;
    poll->skipped = 0;
    return now_ns + poll->wish.spin_ns;
}

bool ps_busy_poll_again(struct ps_busy_poll *poll, uint64_t until_ns)
{
    uint64_t now_ns = ps_clock_precise_ns();
    if (poll->wish.adaptive && now_ns < until_ns) {
        /* Only the adaptive mode yields. Somebody who asked for a fixed time has set the processor
         * aside. */
        uint64_t before_ns = now_ns;
        (void)sched_yield();
        now_ns = ps_clock_precise_ns();
        if (now_ns - before_ns > TAKEN_NS)
            return rest(poll, now_ns, now_ns - before_ns);
    }
    /* A look that ends much later than it should was interrupted outside the yield: preempted, or
     * slowed by the hypervisor, which the yield cannot see. */
    if (poll->wish.adaptive && now_ns > until_ns + TAKEN_NS)
        return rest(poll, now_ns, now_ns - until_ns);
    return now_ns < until_ns;
}

/* The rest is so long that the processor time which others lost to this thread stays a small part
 * of the whole. Always false: a rest ends the present look. */
static bool rest(struct ps_busy_poll *poll, uint64_t now_ns, uint64_t taken_ns)
{
    uint64_t rest_ns = taken_ns * RESTS_PER_TAKEN;
    poll->resume_ns = now_ns + (rest_ns < REST_MAX_NS ? rest_ns : REST_MAX_NS);
    return false;
}

void ps_busy_poll_end(struct ps_busy_poll *poll, bool came)
{
    if (poll->wish.adaptive)
        poll->misses = came ? 0 : poll->misses + 1;
}
