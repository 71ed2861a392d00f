/* SPDX-License-Identifier: Apache-2.0 */
/* An open front door, a listener behind it, and peers that connect to it over loopback.
 *
 * Threads:  one.
 * Blocking: for bytes that are on their way.
 * Errors:   fails the test.
 * Memory:   its own.
 */
#ifndef PS_TESTS_UNIT_FRONT_FRONT_WORLD_H
#define PS_TESTS_UNIT_FRONT_FRONT_WORLD_H

#include "frame_maker.h"
#include "server/front/front.h"

struct front_world {
    int listener;
    uint32_t refused[PS_FRONT_REASON_COUNT];
    char last_peer[64];
};

/* One connection, both ends of which are here. */
struct front_pair {
    int peer;   /* of the client */
    int server; /* -1: turned away */
};

/* Fills `world`, which the caller may have changed nothing of, and opens the door. */
void front_world_begin(struct front_world *world, const struct ps_front_options *options);
void front_world_end(struct front_world *world);

struct front_pair front_connect(struct front_world *world);
void front_pair_close(struct front_pair *pair);

/* Sends the frames as the peer; the server reads all of them. False: the server sees an end. */
bool front_pair_receives(struct front_pair *pair, const struct frames *frames);

/* The server's bytes go out. */
void front_pair_sends(struct front_pair *pair, const struct frames *frames);

/* The peer sees that the connection has ended. */
bool front_pair_has_ended(struct front_pair *pair);

#endif
