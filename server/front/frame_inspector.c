/* SPDX-License-Identifier: Apache-2.0 */
/* Decides from frame headers alone, nine bytes each, and from what they add up to. A bound is
 * checked where its sum grows, so that nothing is ever counted that was not bounded. */
#include "server/front/frame_inspector.h"

#include "base/assert.h"

#include <string.h>

enum frame_type {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    CONTINUATION = 9
};

/* END_STREAM of DATA and HEADERS, ACK of SETTINGS and PING: the same bit. */
enum { END_STREAM = 1, ACK = 1 };

struct frame {
    uint32_t size;
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
};

/* What a client of HTTP/2 says first (RFC 9113, 3.4). */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_BYTES = sizeof preface - 1 };

static size_t read_preface(struct ps_frame_inspector *inspector, const uint8_t *bytes, size_t size);
static size_t read_frame(struct ps_frame_reader *reader, const uint8_t *bytes, size_t size,
                         struct frame *frame, bool *begun);
/* Only frames that make gRPC hold or do something are told apart. */
static enum ps_front_reason frame_in(struct ps_frame_inspector *inspector,
                                     const struct frame *frame, uint64_t now_ms);
static void frame_out(struct ps_frame_inspector *inspector, const struct frame *frame);

void ps_frame_inspector_init(struct ps_frame_inspector *inspector,
                             const struct ps_frame_limits *limits,
                             const struct ps_allocator *memory)
{
    PS_ASSERT(limits->streams_max > 0);
    PS_ASSERT(limits->patience_s < UINT32_MAX / PS_FRAME_BYTES_PER_S);
    memset(inspector, 0, sizeof *inspector);
    inspector->limits = *limits;
    ps_stream_table_init(&inspector->streams, memory);
}

void ps_frame_inspector_fini(struct ps_frame_inspector *inspector)
{
    ps_stream_table_fini(&inspector->streams);
}

/* A read brings frames of many calls, or a piece of one: the loop goes by frames, and what is left
 * of the last one stays in the reader. */
enum ps_front_reason ps_frame_inspector_in(struct ps_frame_inspector *inspector,
                                           const uint8_t *bytes, size_t size, uint64_t now_ms)
{
    size_t at = read_preface(inspector, bytes, size);
    while (at < size && !inspector->foreign) {
        struct frame frame;
        bool begun = false;
        at += read_frame(&inspector->in, bytes + at, size - at, &frame, &begun);
        if (!begun)
            continue;
        enum ps_front_reason reason = frame_in(inspector, &frame, now_ms);
        if (reason != PS_FRONT_FINE)
            return reason;
    }
    return PS_FRONT_FINE;
}

/* Frames to the peer are gRPC's own and break no bound; they only end what the peer has begun. */
void ps_frame_inspector_out(struct ps_frame_inspector *inspector, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size && !inspector->foreign;) {
        struct frame frame;
        bool begun = false;
        at += read_frame(&inspector->out, bytes + at, size - at, &frame, &begun);
        if (begun)
            frame_out(inspector, &frame);
    }
}

static struct ps_bucket_size resets_size(const struct ps_frame_inspector *inspector)
{
    return (struct ps_bucket_size){inspector->limits.streams_max, 60 * PS_FRAME_RESETS_PER_S};
}

/* Else whoever is turned away comes back, and has a full bucket each time. */
void ps_frame_inspector_distrust(struct ps_frame_inspector *inspector, uint64_t now_ms)
{
    const struct ps_bucket_size size = resets_size(inspector);
    uint32_t few =
        PS_FRAME_RESETS_DISTRUSTED < size.at_once ? PS_FRAME_RESETS_DISTRUSTED : size.at_once;
    inspector->resets = ps_bucket_with(&size, few, now_ms);
}

/* Of a foreign protocol nothing is known, so nothing may be put in. */
bool ps_frame_inspector_between_frames(const struct ps_frame_inspector *inspector)
{
    return !inspector->foreign && inspector->out.left == 0 && inspector->out.have == 0;
}

/* A connection that begins otherwise is foreign: an HTTP/1 request, or a handshake of TLS, whose
 * frames are looked at behind the cipher. */
static size_t read_preface(struct ps_frame_inspector *inspector, const uint8_t *bytes, size_t size)
{
    size_t left = PREFACE_BYTES - inspector->preface_bytes;
    size_t part = size < left ? size : left;
    /* memcmp forbids a NULL, also for nothing. */
    if (part > 0 && memcmp(preface + inspector->preface_bytes, bytes, part) != 0)
        inspector->foreign = true;
    inspector->preface_bytes += (uint32_t)part;
    return part;
}

/* Takes bytes of one frame: of its payload, which is skipped, or of its header. `*begun` when the
 * header is whole. Returns how many bytes were taken, at least one. */
static size_t read_frame(struct ps_frame_reader *reader, const uint8_t *bytes, size_t size,
                         struct frame *frame, bool *begun)
{
    PS_ASSERT(size > 0);
    if (reader->left > 0) {
        size_t part = size < reader->left ? size : reader->left;
        reader->left -= (uint32_t)part;
        return part;
    }
    /* The header may come in as many reads as it has bytes. */
    size_t missing = sizeof reader->header - reader->have;
    size_t part = size < missing ? size : missing;
    memcpy(reader->header + reader->have, bytes, part);
    reader->have += (uint32_t)part;
    if (reader->have < sizeof reader->header)
        return part;
    const uint8_t *at = reader->header;
    frame->size = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
    frame->type = at[3];
    frame->flags = at[4];
    /* The highest bit is reserved, and ignored as the standard demands. */
    frame->stream =
        ((uint32_t)at[5] << 24 | (uint32_t)at[6] << 16 | (uint32_t)at[7] << 8 | at[8]) & 0x7fffffff;
    reader->have = 0;
    reader->left = frame->size;
    *begun = true;
    return part;
}

/* Acts like SETTINGS and PING cost the server an answer each and the peer next to nothing. */
static enum ps_front_reason control(struct ps_frame_inspector *inspector, uint64_t now_ms)
{
    static const struct ps_bucket_size size = {PS_FRAME_CONTROL_BURST, 60 * PS_FRAME_CONTROL_PER_S};
    return ps_bucket_take(&inspector->control, &size, now_ms) ? PS_FRONT_FINE : PS_FRONT_CONTROL;
}

/* A call that is begun and reset costs the server all of its work and the peer none of the wait, so
 * no bound on open calls ever meets it. */
static enum ps_front_reason reset(struct ps_frame_inspector *inspector, uint64_t now_ms)
{
    const struct ps_bucket_size size = resets_size(inspector);
    return ps_bucket_take(&inspector->resets, &size, now_ms) ? PS_FRONT_FINE : PS_FRONT_RESETS;
}

/* Counted in bytes, so that time and bytes can be set against each other: a second takes as many as
 * it should have brought. */
static uint32_t patience(const struct ps_frame_inspector *inspector)
{
    return inspector->limits.patience_s * PS_FRAME_BYTES_PER_S;
}

/* The request is whole, or answered, or gone: gRPC holds no unfinished bytes of it any more. */
static void settle(struct ps_frame_inspector *inspector, struct ps_stream *stream)
{
    PS_ASSERT(inspector->unfinished_bytes >= stream->bytes);
    inspector->unfinished_bytes -= stream->bytes;
    stream->bytes = 0;
    stream->credit = PS_STREAM_SETTLED;
}

/* A stream that is not known has ended before, or was never let in: either side may still speak of
 * it. */
static void end_stream(struct ps_frame_inspector *inspector, uint32_t id)
{
    struct ps_stream *stream = ps_stream_table_find(&inspector->streams, id);
    if (stream == NULL)
        return;
    settle(inspector, stream);
    ps_stream_table_remove(&inspector->streams, stream);
}

/* Only a higher number opens a stream; HEADERS of one that is open are trailers, and of one that
 * was are what gRPC ends the connection for. */
static enum ps_front_reason open_stream(struct ps_frame_inspector *inspector, uint32_t id)
{
    if (id <= inspector->highest)
        return PS_FRONT_FINE;
    inspector->highest = id;
    if (inspector->streams.count >= inspector->limits.streams_max)
        return PS_FRONT_STREAMS;
    struct ps_stream *stream = ps_stream_table_add(&inspector->streams, id);
    if (stream == NULL)
        return PS_FRONT_MEMORY;
    stream->credit = patience(inspector);
    return PS_FRONT_FINE;
}

/* gRPC gathers the pieces of a header string before it looks at any bound of its own, and does so
 * again with each piece: hence the bound on what has not ended, and a least size for each piece. */
static enum ps_front_reason headers_in(struct ps_frame_inspector *inspector,
                                       const struct frame *frame)
{
    if (frame->type == HEADERS) {
        inspector->header_bytes = 0;
        enum ps_front_reason reason = open_stream(inspector, frame->stream);
        if (reason != PS_FRONT_FINE)
            return reason;
        struct ps_stream *stream = ps_stream_table_find(&inspector->streams, frame->stream);
        if (stream != NULL && (frame->flags & END_STREAM) != 0)
            settle(inspector, stream);
    }
    uint32_t size = frame->size < PS_FRAME_BYTES_MIN ? PS_FRAME_BYTES_MIN : frame->size;
    /* A frame has less than 2^24 bytes and the sum is bounded below, so it cannot wrap around. */
    inspector->header_bytes += size;
    return inspector->header_bytes > PS_FRAME_HEADER_BYTES_MAX ? PS_FRONT_HEADERS : PS_FRONT_FINE;
}

/* Bytes that come give a request patience again, but never more than it began with. */
static void renew_patience(const struct ps_frame_inspector *inspector, struct ps_stream *stream,
                           uint32_t size)
{
    if (stream->credit == PS_STREAM_SETTLED)
        return;
    /* The subtraction cannot wrap: credit is only ever raised here, up to the same bound. */
    uint32_t most = patience(inspector);
    stream->credit = size < most - stream->credit ? stream->credit + size : most;
}

/* What a request that has not ended brings is what gRPC holds for it: the message is handed over
 * when it is whole. Also the smallest frame costs gRPC a slice. */
static enum ps_front_reason data_in(struct ps_frame_inspector *inspector, const struct frame *frame,
                                    uint64_t now_ms)
{
    bool ends = (frame->flags & END_STREAM) != 0;
    if (frame->size == 0 && !ends && control(inspector, now_ms) != PS_FRONT_FINE)
        return PS_FRONT_CONTROL;
    /* gRPC throws away what comes for a stream that has ended. */
    struct ps_stream *stream = ps_stream_table_find(&inspector->streams, frame->stream);
    if (stream == NULL)
        return PS_FRONT_FINE;
    if (ends) {
        settle(inspector, stream);
        return PS_FRONT_FINE;
    }
    uint32_t size = frame->size < PS_FRAME_BYTES_MIN ? PS_FRAME_BYTES_MIN : frame->size;
    renew_patience(inspector, stream, frame->size);
    stream->bytes += size;
    inspector->unfinished_bytes += size;
    if (inspector->unfinished_bytes > inspector->limits.unfinished_bytes_max)
        return PS_FRONT_UNFINISHED;
    return PS_FRONT_FINE;
}

static enum ps_front_reason frame_in(struct ps_frame_inspector *inspector,
                                     const struct frame *frame, uint64_t now_ms)
{
    switch (frame->type) {
    case DATA:
        return data_in(inspector, frame, now_ms);
    case HEADERS:
    case CONTINUATION:
        return headers_in(inspector, frame);
    case RST_STREAM:
        end_stream(inspector, frame->stream);
        return reset(inspector, now_ms);
    case SETTINGS:
    case PING:
        /* An acknowledgement answers what the server has sent. */
        return (frame->flags & ACK) != 0 ? PS_FRONT_FINE : control(inspector, now_ms);
    case PRIORITY:
        return control(inspector, now_ms);
    /* WINDOW_UPDATE lets the server send, and others it throws away: they cost the peer as much as
     * the server. */
    default:
        return PS_FRONT_FINE;
    }
}

/* gRPC resets a stream of which it wants no more, and ends one with its status. */
static void frame_out(struct ps_frame_inspector *inspector, const struct frame *frame)
{
    if (frame->type == RST_STREAM) {
        end_stream(inspector, frame->stream);
        return;
    }
    if (frame->type != DATA && frame->type != HEADERS)
        return;
    if ((frame->flags & END_STREAM) != 0) {
        end_stream(inspector, frame->stream);
        return;
    }
    /* A stream of requests that is answered has had whole ones: what has come was read. */
    struct ps_stream *stream = ps_stream_table_find(&inspector->streams, frame->stream);
    if (stream != NULL)
        settle(inspector, stream);
}

/* All streams are looked at, also behind one that stands still: each of them has lost this
 * second. */
enum ps_front_reason ps_frame_inspector_second(struct ps_frame_inspector *inspector)
{
    enum ps_front_reason reason = PS_FRONT_FINE;
    struct ps_stream_table *streams = &inspector->streams;
    /* Without a patience a request may stand still for ever. */
    if (streams->count == 0 || inspector->limits.patience_s == 0)
        return reason;
    for (uint32_t i = 0; i < streams->capacity; i++) {
        struct ps_stream *stream = &streams->places[i];
        if (stream->id == 0 || stream->credit == PS_STREAM_SETTLED)
            continue;
        if (stream->credit < PS_FRAME_BYTES_PER_S)
            reason = PS_FRONT_STALLED;
        else
            stream->credit -= PS_FRAME_BYTES_PER_S;
    }
    return reason;
}

/* The sums that verdicts rest on are those of the table, whatever frames have come. */
void ps_frame_inspector_check(const struct ps_frame_inspector *inspector)
{
    const struct ps_stream_table *streams = &inspector->streams;
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < streams->capacity; i++) {
        bytes += streams->places[i].bytes;
        count += streams->places[i].id != 0;
    }
    PS_ASSERT(bytes == inspector->unfinished_bytes);
    PS_ASSERT(count == streams->count);
    PS_ASSERT(count <= inspector->limits.streams_max);
    PS_ASSERT(inspector->in.have < sizeof inspector->in.header);
    PS_ASSERT(inspector->out.have < sizeof inspector->out.header);
    PS_ASSERT(inspector->preface_bytes <= PREFACE_BYTES);
}
