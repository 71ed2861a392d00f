/* Looking instead of sleeping, where a processor is free for it. */
#include "base/busy_poll.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ADAPTIVE_SPIN_NS 50000
#define REST_MIN_NS 10000000u
#define REST_MAX_NS 1000000000u
/* Fewer processors than this have none to spare. */
#define ADAPTIVE_CORES_MIN 3

struct unit {
    const char *name;
    uint64_t ns;
};

enum ps_status ps_busy_poll_parse(const char *label, const char *text,
                                  struct ps_busy_poll_wish *wish, struct ps_error *error)
{
    static const struct unit units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    *wish = (struct ps_busy_poll_wish){0};
    if (strcmp(text, "off") == 0)
        return PS_OK;
    if (strcmp(text, "auto") == 0) {
        *wish = (struct ps_busy_poll_wish){.spin_ns = ADAPTIVE_SPIN_NS, .adaptive = true};
        return PS_OK;
    }
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; digits > 0 && digits <= 9 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].name) != 0)
            continue;
        wish->spin_ns = strtoull(text, NULL, 10) * units[i].ns;
        if (wish->spin_ns <= PS_BUSY_POLL_MS_MAX * UINT64_C(1000000))
            return PS_OK;
    }
    *wish = (struct ps_busy_poll_wish){0};
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%s: \"%.40s\" is neither off, auto, nor a time of at most %d ms, like 50us",
                   label, text, PS_BUSY_POLL_MS_MAX);
}

static long count_preemptions(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

void ps_busy_poll_init(struct ps_busy_poll *poll, struct ps_busy_poll_wish wish)
{
    *poll = (struct ps_busy_poll){.wish = wish, .rest_ns = REST_MIN_NS};
    if (!wish.adaptive)
        return;
    if (sysconf(_SC_NPROCESSORS_ONLN) < ADAPTIVE_CORES_MIN)
        poll->wish = (struct ps_busy_poll_wish){0};
    poll->preempted = count_preemptions();
}

uint64_t ps_busy_poll_begin(struct ps_busy_poll *poll)
{
    if (poll->wish.spin_ns == 0)
        return 0;
    uint64_t now_ns = ps_clock_precise_ns();
    return now_ns < poll->resume_ns ? 0 : now_ns + poll->wish.spin_ns;
}

/* Asked only when nothing came: what came soon was worth the looking. */
void ps_busy_poll_end(struct ps_busy_poll *poll, bool came)
{
    if (!poll->wish.adaptive || came)
        return;
    long preempted = count_preemptions();
    if (preempted == poll->preempted) {
        poll->rest_ns = REST_MIN_NS;
        return;
    }
    poll->preempted = preempted;
    poll->resume_ns = ps_clock_precise_ns() + poll->rest_ns;
    poll->rest_ns = poll->rest_ns * 2 < REST_MAX_NS ? poll->rest_ns * 2 : REST_MAX_NS;
}
