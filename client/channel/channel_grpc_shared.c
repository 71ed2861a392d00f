/* SPDX-License-Identifier: Apache-2.0 */
/* Content in memory that the server shares: what goes there, what the message says of it instead,
 * and when a slot is given back. A caller's request is never changed, since it may be sent again
 * another way. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/thresholds.h"

#include <string.h>

/* Of the contents of one message in their run: those of two cores never meet in one line of the
 * cache, and elements are aligned. */
enum { PART_ALIGNMENT = 64 };

/* The request is told with a place instead of content; the caller's stays as it is. */
struct ps_push_request ps_shared_way_push(const struct ps_shared_way *way,
                                          const struct ps_push_request *push)
{
    struct ps_push_request told = *push;
    if (way->push_size == 0)
        return told;
    told.content = (struct ps_view){NULL, 0, 0};
    told.shared = way->slot.range;
    told.shared.size = way->push_size;
    return told;
}

/* Room for the reply is an offer: a server that cannot use it answers in the message. */
struct ps_pull_request ps_shared_way_pull(const struct ps_shared_way *way,
                                          const struct ps_pull_request *pull)
{
    struct ps_pull_request told = *pull;
    if (way->pull_size == 0)
        return told;
    told.shared = way->slot.range;
    told.shared.size = way->pull_size;
    return told;
}

/* Content that is sent, room for content that is received, or both, each at its place. */
void ps_shared_way_ask(const struct ps_shared_way *way, struct ps_call_request *told)
{
    if (way->push_size > 0) {
        told->ask_content = (struct ps_view){NULL, 0, 0};
        told->ask_shared = way->slot.range;
        told->ask_shared.size = way->push_size;
    }
    if (way->pull_size > 0) {
        told->ask_room_shared = way->slot.range;
        told->ask_room_shared.offset += way->room_at;
        told->ask_room_shared.size = way->pull_size;
    }
}

/* Below the least size, content is as fast in the message, also beside content that is not. */
static size_t worth(const struct ps_flight *flight, size_t size)
{
    size_t least = flight->is_bundle ? PS_SHARED_PART_BYTES_MIN : PS_SHARED_BYTES_MIN;
    return size >= least ? size : 0;
}

/* Push and pull of one call share their room: the server has read the gradient before it writes
 * values. Of an asked call the room comes behind what is sent: a program may read that until it has
 * answered. */
static size_t slot_bytes(const struct ps_shared_way *way)
{
    size_t pull_end = way->pull_size > 0 ? way->room_at + way->pull_size : 0;
    return way->push_size > pull_end ? way->push_size : pull_end;
}

static size_t aligned(size_t size)
{
    return (size + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

/* What would go there; how many bytes of the segment it takes. */
static size_t wish(const struct ps_flight *flight, const struct ps_call_request *request,
                   struct ps_shared_way *way)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    way->push_size = push != NULL ? worth(flight, push->content.size) : 0;
    way->pull_size = pull != NULL ? worth(flight, pull->size_wish) : 0;
    if (ps_method_row(request->method)->shares) {
        way->push_size = worth(flight, request->ask_content.size);
        way->pull_size = worth(flight, request->ask_room);
        way->room_at = aligned(way->push_size);
    }
    return slot_bytes(way);
}

/* A call pushes or asks, and never does both. */
static void fill(const struct ps_call_request *request, struct ps_shared_way *way)
{
    const struct ps_push_request *push = ps_call_push_of(request);
    ps_view_copy(push != NULL ? push->content : request->ask_content, 0, way->slot.bytes,
                 way->push_size);
}

/* Asked only at the launch: nothing before knows whether the segment has room. */
bool ps_flight_is_stranded(struct ps_flight *flight)
{
    const struct ps_push_request *push = ps_call_push_of(ps_flight_request(flight, 0));
    if (flight->is_stuck)
        return true;
    if (push == NULL || flight->part_count > 1 || flight->parts[0].shared.push_size > 0)
        return false;
    /* Without an id it cannot go in ranges: the server may take it, or say that it does not. */
    return push->request.present && push->range.count == 0 &&
           push->content.size > ps_connection_content_bytes_max(flight->connection);
}

/* Once for each call, when nothing can go wrong any more. */
static void count(struct ps_flight *flight)
{
    uint64_t calls = 0, bytes = 0;
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct ps_shared_way *way = &flight->parts[i].shared;
        calls += way->push_size + way->pull_size > 0 ? 1 : 0;
        bytes += way->push_size + way->pull_size;
    }
    /* For the report of a client; nothing is decided by it. */
    atomic_fetch_add(&flight->side->shared_calls, calls);
    atomic_fetch_add(&flight->side->shared_bytes, bytes);
    if (flight->device.piece != NULL)
        atomic_fetch_add(&flight->side->device_bytes, bytes);
}

/* Nobody was told: all of it is free at once. */
static void take_back(struct ps_flight *flight)
{
    for (size_t i = 0; i < flight->part_count; i++)
        flight->parts[i].shared = (struct ps_shared_way){0};
    ps_shared_slot_release(&flight->run, true);
}

/* Part i's place within the run that all of them share. */
static size_t place(struct ps_flight *flight, size_t i, size_t offset, size_t size)
{
    struct ps_shared_slot *slot = &flight->parts[i].shared.slot;
    *slot =
        (struct ps_shared_slot){.range = flight->run.range, .bytes = flight->run.bytes + offset};
    slot->range.offset += offset;
    slot->range.size = size;
    return offset + aligned(size);
}

/* One run of the segment for all parts, each at its place. */
static bool take_run(struct ps_flight *flight, size_t total)
{
    size_t offset = 0;
    if (total == 0 || !ps_shared_link_take(flight->connection->shared, total, &flight->run))
        return false;
    /* The bytes are in place before the message leaves, so that the server never reads a slot that
     * is half written. */
    for (size_t i = 0; i < flight->part_count; i++) {
        struct ps_shared_way *way = &flight->parts[i].shared;
        size_t size = slot_bytes(way);
        if (size > 0)
            offset = place(flight, i, offset, size);
        fill(ps_flight_request(flight, i), way);
    }
    return true;
}

/* False: everything goes in the message. */
static bool take(struct ps_flight *flight)
{
    size_t total = 0;
    if (flight->connection->shared == NULL)
        return false;
    for (size_t i = 0; i < flight->part_count; i++)
        total += aligned(wish(flight, ps_flight_request(flight, i), &flight->parts[i].shared));
    if (take_run(flight, total))
        return true;
    /* The sizes say how the head is encoded: left there without a slot, they would name memory that
     * is not this call's. */
    for (size_t i = 0; i < flight->part_count; i++)
        flight->parts[i].shared = (struct ps_shared_way){0};
    return false;
}

/* The head was encoded for content in the message. It is encoded anew, and if memory for that is
 * refused, back to what it was. */
void ps_flight_share(struct ps_flight *flight)
{
    if (ps_flight_is_of_device(flight)) {
        ps_flight_name_device(flight);
        if (!flight->is_stuck)
            count(flight);
        return;
    }
    if (!take(flight))
        return;
    /* The head names the places now instead of having the content behind it. */
    ps_buffer_clear(&flight->head);
    ps_flight_encode(flight, &flight->head);
    if (ps_buffer_status(&flight->head, NULL) != PS_OK) {
        take_back(flight);
        ps_buffer_clear(&flight->head);
        ps_flight_encode(flight, &flight->head);
        PS_ASSERT(ps_buffer_status(&flight->head, NULL) == PS_OK); /* it had room for it before */
        return;
    }
    /* Content that is in the segment must not go in the message as well. */
    if (!flight->is_bundle && flight->one.shared.push_size > 0)
        flight->content = (struct ps_view){NULL, 0, 0};
    count(flight);
}

/* A server that says it wrote more than there was room for, or twice, is not believed. */
enum ps_status ps_shared_way_found(struct ps_shared_way *way, struct ps_pull_reply *reply,
                                   struct ps_error *error)
{
    if (reply->shared_size == 0)
        return PS_OK;
    if (reply->shared_size > way->pull_size || reply->content.size > 0)
        return ps_fail(error, PS_ERR_INTERNAL, "the reply's content is nowhere");
    if (way->slot.bytes == NULL)
        return PS_OK; /* on a device: the content is where it belongs */
    way->pulled = (struct ps_bytes){way->slot.bytes, (size_t)reply->shared_size};
    reply->content = ps_view_of(&way->pulled);
    return PS_OK;
}

static bool has_room(struct ps_flight *flight)
{
    for (size_t i = 0; i < flight->part_count; i++)
        if (flight->parts[i].shared.pull_size > 0)
            return true;
    return false;
}

/* Room for replies is kept until they were read. A slot that only the server reads is free as soon
 * as the server has answered; without its answer the server may still read it, and the segment is
 * given up with it (shared_link.h). */
void ps_flight_shared_ended(struct ps_flight *flight)
{
    ps_device_slot_release(&flight->device, flight->answered);
    if (flight->run.segment != NULL && !has_room(flight))
        ps_shared_slot_release(&flight->run, flight->answered);
    ps_device_slot_release(&flight->device, flight->answered);
}

/* A run that was let go of when the batch ended is let go of once more, which does nothing. */
void ps_flight_shared_release(struct ps_flight *flight)
{
    ps_shared_slot_release(&flight->run, flight->answered);
    ps_device_slot_release(&flight->device, flight->answered);
}
