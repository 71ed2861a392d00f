/* SPDX-License-Identifier: Apache-2.0 */
/* A header block that never ends, on a pair of sockets of which gRPC has one. gRPC by itself would
 * gather the block for ever; so an end of the connection with the door's own words shows that its
 * bytes came through our functions. accept4 cannot be tried without an address: that libgrpc takes
 * ours is seen from the symbol that the dynamic linker gives.
 *
 * What can go wrong without this: a library that is linked statically, or with -Bsymbolic, or with
 * a TLS of its own, calls its own functions; a newer one may read through io_uring or through an
 * engine of the program's. None of these fails to link or to start, and none answers a call
 * differently. Only somebody who attacks would find out. */
#include "server/rpc/front_self_test.h"

#include "server/front/front.h"

#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* PIECES: one more than the bound of a header block has room for. */
enum { TURNS = 200, TURN_MS = 10, PIECE_BYTES = 16384, PIECES = 5 };

/* The preface, no settings, and the begin of a header block: a literal field "x" whose value is
 * said to have a megabyte. */
static const uint8_t beginning[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                   "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
                                   "\x00\x00\x07\x01\x00\x00\x00\x00\x01"
                                   "\x00\x01x\x7f\x81\xff\x3f";

/* A piece of that value, behind the header of its frame. */
static const uint8_t piece_header[9] = {0, PIECE_BYTES >> 8, 0, 9, 0, 0, 0, 0, 1};

/* One end of the pair is ours; gRPC takes the other, and closes it. */
struct trial {
    int peer;
    grpc_server *server;
    grpc_completion_queue *queue;
    size_t sent;
    char heard[1024];
    size_t heard_bytes;
};

/* Made byte by byte, so that the attack needs no buffer of its size. */
static uint8_t attack_byte(size_t at)
{
    if (at < sizeof beginning - 1)
        return beginning[at];
    /* What follows the beginning is frames of one size, so a position says what stands there. */
    size_t within = (at - (sizeof beginning - 1)) % (sizeof piece_header + PIECE_BYTES);
    return within < sizeof piece_header ? piece_header[within] : 'a';
}

/* As much as the socket takes; the rest with the next turn. An error is the end that is hoped for,
 * and seen as such by who listens. */
static void attack(struct trial *trial)
{
    /* The peer never acknowledges settings and gives no window: for headers neither is needed. */
    const size_t all = sizeof beginning - 1 + PIECES * (sizeof piece_header + PIECE_BYTES);
    uint8_t bytes[4096];
    while (trial->sent < all) {
        size_t size = 0;
        while (size < sizeof bytes && trial->sent + size < all) {
            bytes[size] = attack_byte(trial->sent + size);
            size++;
        }
        ssize_t sent = send(trial->peer, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        trial->sent += (size_t)sent;
    }
}

/* Nothing has come yet: the next turn asks again. The peer may have been cut off in the middle of
 * what gRPC wrote, so what was heard is kept and looked through at the end. */
static bool listen_for_end(struct trial *trial)
{
    for (;;) {
        char bytes[sizeof trial->heard];
        ssize_t got = recv(trial->peer, bytes, sizeof bytes, MSG_DONTWAIT);
        /* Zero is the end; anything else below is "not yet", since these sockets do not fail. */
        if (got <= 0)
            return got == 0;
        size_t room = sizeof trial->heard - trial->heard_bytes;
        size_t part = (size_t)got < room ? (size_t)got : room;
        memcpy(trial->heard + trial->heard_bytes, bytes, part);
        trial->heard_bytes += part;
    }
}

/* The words stand in a GOAWAY frame, between others. */
static bool heard_reason(const struct trial *trial)
{
    const char *reason = ps_front_reason_text(PS_FRONT_HEADERS);
    /* The frame may stand behind the settings and pings that gRPC sends of its own. */
    return memmem(trial->heard, trial->heard_bytes, reason, strlen(reason)) != NULL;
}

/* gRPC reads in the thread that asks its queue, so asking is what makes it go on. */
static bool run(struct trial *trial)
{
    /* Two seconds at most, and some milliseconds where the door holds: a start is not delayed. The
     * attack is written bit by bit, because a pair of sockets takes less than all of it, and gRPC
     * reads the rest only when it is asked again. */
    for (int i = 0; i < TURNS; i++) {
        attack(trial);
        gpr_timespec deadline =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(TURN_MS, GPR_TIMESPAN));
        (void)grpc_completion_queue_next(trial->queue, deadline, NULL);
        if (listen_for_end(trial))
            return heard_reason(trial);
    }
    return false;
}

/* Nothing of the trial is left behind: a server that was tried and one that was not are the same
 * from here on. In the order that gRPC demands: the shutdown is told and has completed, the queue
 * is shut and read to its end, the server goes before its queue. */
static void end(struct trial *trial)
{
    grpc_server_shutdown_and_notify(trial->server, trial->queue, NULL);
    grpc_server_cancel_all_calls(trial->server);
    /* No call was ever asked for, so the only tags are those of the shutdown. */
    grpc_event event;
    do
        event = grpc_completion_queue_next(trial->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    while (event.type != GRPC_OP_COMPLETE);
    grpc_completion_queue_shutdown(trial->queue);
    while (event.type != GRPC_QUEUE_SHUTDOWN)
        event = grpc_completion_queue_next(trial->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_server_destroy(trial->server);
    grpc_completion_queue_destroy(trial->queue);
}

/* A server of its own, so that no thread has to run yet and no peer of anybody else's is touched.
 * Tried with every start, since the library may be another one than when this was built. */
bool ps_front_self_test(void)
{
    int ends[2];
    /* The name is that of this program's accept4, unless the executable does not export it. */
    void *ours = dlsym(RTLD_DEFAULT, "accept4");
    /* And the next one is the C library's, or a sanitizer's: another function in any case. */
    void *next = dlsym(RTLD_NEXT, "accept4");
    if (ours == NULL || ours == next)
        return false;
    /* Unix sockets have no SYN, no port and no address that anybody could reach meanwhile. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    struct trial trial = {.peer = ends[1],
                          .server = grpc_server_create(NULL, NULL),
                          .queue = grpc_completion_queue_create_for_next(NULL)};
    grpc_server_register_completion_queue(trial.server, trial.queue, NULL);
    grpc_server_start(trial.server);
    /* Before gRPC has it: the first bytes must not be missed. */
    ps_front_adopt(ends[0]);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(trial.server, ends[0], credentials);
    grpc_server_credentials_release(credentials);
    /* Whatever comes of it, the server is taken apart in the same way. */
    bool holds = run(&trial);
    end(&trial);
    (void)close(ends[1]);
    return holds;
}
