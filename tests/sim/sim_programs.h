/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of server programs and barriers: servers with a handler, programs beside them that take
 * and answer, and workers that ask and meet, over a network that loses, repeats and delays.
 * Service, mailbox, meetings, codec and engine are the real ones; what is simulated is the network,
 * the clock, the deaths.
 *
 * Every request carries a number. A request is carried out at most once, whatever dies and however
 * often it is asked; exactly once, when its worker was told that it is answered; and never, when
 * its worker was told that nobody took it. Answers have the bytes of their own request. Where
 * nothing goes wrong, every request is answered, and in the worker's order. A program that lets
 * others take over (`again`) is told when another may have begun. A barrier lets nobody go before
 * all have come, and everybody in the end. Whoever waits hears something by its deadline.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what must never happen is the world's failure, which ends it.
 * Memory:   a world owns everything in it, and says when something is left.
 */
#ifndef PS_TESTS_SIM_SIM_PROGRAMS_H
#define PS_TESTS_SIM_SIM_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

/* Deliberate faults, which the checks must notice. */
enum sim_programs_mutation {
    SIM_PROGRAMS_NONE,
    SIM_PROGRAMS_EPOCH_LOST,    /* a server does not look at the epoch that a request names */
    SIM_PROGRAMS_TOKEN_CHANGED, /* a repeated request comes under another token and number */
    SIM_PROGRAMS_ANSWER_MOVED,  /* an answer is that of the request before */
    SIM_PROGRAMS_MEMBER_ALONE,  /* a barrier is of one member less */
    SIM_PROGRAMS_MUTATIONS
};

struct sim_programs_result {
    bool failed;
    char failure[256];
    uint64_t asked, answered, aborted, untaken; /* requests */
    uint64_t runs, taken_again;
    uint64_t passed, torn; /* members at barriers; torn: others had gone */
};

/* One world. `trace`: everything that happens goes to standard output. */
struct sim_programs_result sim_programs_world(uint64_t seed, enum sim_programs_mutation mutation,
                                              bool trace);

#endif
