/* SPDX-License-Identifier: Apache-2.0 */
/* A client that shares memory with the rig's server, by hand: every step can be done wrong.
 *
 * Threads:  one.
 * Blocking: await_answer, at most SHARER_WAIT_MS.
 * Errors:   whatever fails ends the test.
 * Memory:   the rig and the sharer `mine` are the test's.
 */
#ifndef PS_TESTS_INTEGRATION_RPC_SHARER_H
#define PS_TESTS_INTEGRATION_RPC_SHARER_H

#include "base/shared_segment.h"
#include "rig.h"

enum { COUNT = 50000, SEGMENT_BYTES = 1 << 20, LIMIT_BYTES = 8 << 20, SHARER_WAIT_MS = 120000 };
#define CONTENT_BYTES (COUNT * sizeof(float))

/* A client's side of the local socket. */
struct sharer {
    int socket;
    struct ps_shared_segment segment;
    uint64_t number; /* 0: the server has not taken it */
};

extern struct rig rig;
extern char name[128]; /* of the server's local socket */
extern struct sharer mine;

/* Calls, and expects this status word ("" for success). */
void call_expect(enum ps_method method, struct ps_buffer request, const char *word);

/* Asks the server for its name. */
void learn_name(void);

int connect_socket(void);
void say_hello(int socket, uint64_t size, int descriptor);

/* The server's answer: its number for the memory, or 0 when it hung up. */
uint64_t await_answer(int socket);

/* Hands `size` bytes over, as it should be done; and ends it. */
void share(struct sharer *sharer, size_t size);
void leave(struct sharer *sharer);

/* Requests for the parameter "w" of COUNT floats. A push of sequence 0 has no id. */
struct ps_buffer push_of(struct ps_shared_range range, uint64_t sequence);
struct ps_buffer pull_into(struct ps_shared_range range);

/* So much of my memory as "w" takes. */
struct ps_shared_range range_at(uint64_t offset);

/* Pulls "w" in a message; returns its version. */
uint64_t pull_values(float *values);

/* Puts value * i into element i of my memory, and expects that of "w". */
void fill(uint64_t offset, float value);
void expect_values(uint64_t version, float per_index);

/* A server with "w", all zeros; set_up also shares SEGMENT_BYTES with it. */
void start_with(const struct rig_options *options);
void set_up(void);
void tear_down(void);

#endif
