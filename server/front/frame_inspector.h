/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the frame headers of one HTTP/2 connection, in both directions, and says when its peer
 * has gone beyond a bound. Payloads are skipped and header blocks are never decoded: what gRPC
 * makes of the bytes is gRPC's business, how much a peer may make it hold is decided here.
 *
 *   from the peer: HEADERS of a new number opens a stream; DATA without END_STREAM is part of a
 *                  request that is not whole, and held by gRPC; RST_STREAM ends a stream
 *   to the peer:   END_STREAM and RST_STREAM end one. So a call whose answer is not written stays
 *                  open here, whatever limits the peer has or has not acknowledged
 *
 * Threads:  the caller serialises calls.
 * Blocking: never; reads no clock.
 * Errors:   a reason, after which the connection is to be ended and no more is asked.
 * Memory:   in place, and a table of its open streams.
 */
#ifndef PS_SERVER_FRONT_FRAME_INSPECTOR_H
#define PS_SERVER_FRONT_FRAME_INSPECTOR_H

#include "base/token_bucket.h"
#include "server/front/front_reasons.h"
#include "server/front/stream_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds that no option sets, because no client that means well comes near them. */
#define PS_FRAME_HEADER_BYTES_MAX 65536
#define PS_FRAME_RESETS_PER_S 200 /* besides one of each call that may be open */
#define PS_FRAME_RESETS_DISTRUSTED 32
#define PS_FRAME_CONTROL_BURST 5000
#define PS_FRAME_CONTROL_PER_S 2000

/* What gRPC holds for a frame at least, however little is in it. */
#define PS_FRAME_BYTES_MIN 64

/* A request must bring so many bytes a second, beyond a time of patience. */
#define PS_FRAME_BYTES_PER_S 1024

struct ps_frame_limits {
    uint32_t streams_max;          /* open at once */
    uint64_t unfinished_bytes_max; /* of requests that are not whole, together */
    uint32_t patience_s;           /* for which a request may stand still */
};

/* One direction: a frame header may come in pieces. */
struct ps_frame_reader {
    uint8_t header[9];
    uint32_t have; /* bytes of the header */
    uint32_t left; /* bytes of the payload that are to come */
};

struct ps_frame_inspector {
    struct ps_frame_limits limits;
    struct ps_stream_table streams; /* its count: calls that are open */
    struct ps_frame_reader in, out;
    struct ps_bucket resets, control;
    uint32_t preface_bytes; /* of the client's preface that have come */
    uint32_t highest;       /* number of a stream so far */
    uint32_t header_bytes;  /* of the header block at work */
    uint64_t unfinished_bytes;
    bool foreign; /* does not speak HTTP/2: gRPC hangs up by itself */
};

void ps_frame_inspector_init(struct ps_frame_inspector *inspector,
                             const struct ps_frame_limits *limits,
                             const struct ps_allocator *memory);
void ps_frame_inspector_fini(struct ps_frame_inspector *inspector);

/* Bytes from the peer, as they come, cut anywhere. */
enum ps_front_reason ps_frame_inspector_in(struct ps_frame_inspector *inspector,
                                           const uint8_t *bytes, size_t size, uint64_t now_ms);

/* Bytes that were written to the peer. */
void ps_frame_inspector_out(struct ps_frame_inspector *inspector, const uint8_t *bytes,
                            size_t size);

/* One second has passed in which the server was able to read: PS_FRONT_STALLED when a request has
 * stood still for too long. Seconds are counted by calls and not by a clock, so that a server that
 * was stopped itself does not blame its peers. */
enum ps_front_reason ps_frame_inspector_second(struct ps_frame_inspector *inspector);

/* The peer's host has been turned away a moment ago: this connection of it begins with few resets.
 * */
void ps_frame_inspector_distrust(struct ps_frame_inspector *inspector, uint64_t now_ms);

/* Between two frames to the peer: another one may be put in here. */
bool ps_frame_inspector_between_frames(const struct ps_frame_inspector *inspector);

/* Asserts what must always hold; for tests. */
void ps_frame_inspector_check(const struct ps_frame_inspector *inspector);

#endif
