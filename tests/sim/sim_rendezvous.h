/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of the rendezvous: servers, and clients that send, receive, give up, cancel, abort and
 * clean up by chance, over a network that loses, repeats and delays. Service, codec, engine and
 * client/tensors are the real ones; what is simulated is the network, the clock, the deaths.
 *
 * Every value carries a number. A value that a server has said to be whole is delivered exactly
 * once; or it was dropped by an abort, by the end of its step or with its server; or its receiver
 * has died with it. None is delivered that was not sent, none twice, and none with another's bytes.
 * Whoever waits hears something by its deadline. In the end no server has any of it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what must never happen is the world's failure, which ends it.
 * Memory:   a world owns everything in it, and says when something is left.
 */
#ifndef PS_TESTS_SIM_SIM_RENDEZVOUS_H
#define PS_TESTS_SIM_SIM_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

/* Deliberate faults, which the checks must notice. */
enum sim_rendezvous_mutation {
    SIM_RENDEZVOUS_NONE,
    SIM_RENDEZVOUS_TOKEN_LOST,   /* repeats of sends are not told from others */
    SIM_RENDEZVOUS_ID_LOST,      /* a repeated receive comes under another id */
    SIM_RENDEZVOUS_RANGE_BENT,   /* ranges are read from the beginning of the value */
    SIM_RENDEZVOUS_CANCEL_TAKES, /* a cancellation takes values that are on their way */
    SIM_RENDEZVOUS_MUTATIONS
};

struct sim_rendezvous_result {
    bool failed;
    char failure[256];
    uint64_t sent, delivered, dropped, taken_along; /* values */
    uint64_t refused, timed_out;                    /* operations */
};

/* One world. `trace`: everything that happens goes to standard output. */
struct sim_rendezvous_result
sim_rendezvous_world(uint64_t seed, enum sim_rendezvous_mutation mutation, bool trace);

#endif
