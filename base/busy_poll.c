/* Looking instead of sleeping, where a processor is free for it. */
#include "base/busy_poll.h"

#include "base/clock.h"
#include "base/quantity.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define ADAPTIVE_SPIN_NS 250000
/* Fewer processors than this have none to spare. */
#define ADAPTIVE_CORES_MIN 2
/* Giving the processor up takes less than this when nobody wants it. */
#define TAKEN_NS 20000
#define RESTS_PER_TAKEN 20
#define REST_MAX_NS UINT64_C(1000000000)
/* After so many looks that found nothing only every so many-th wait begins with one. */
#define MISSES_MAX 4
#define SKIPS_MAX 16

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
        uint64_t before_ns = now_ns;
        (void)sched_yield();
        now_ns = ps_clock_precise_ns();
        if (now_ns - before_ns > TAKEN_NS)
            return rest(poll, now_ns, now_ns - before_ns);
    }
    if (poll->wish.adaptive && now_ns > until_ns + TAKEN_NS)
        return rest(poll, now_ns, now_ns - until_ns);
    return now_ns < until_ns;
}

/* So long that what others took from it is a small part of the time. */
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
