/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose content, or room for it, is in a device's memory: the message says where. There is no
 * other way for such a message to go: where the server cannot be told, the call ends before it has
 * left, and the engine sends it another way. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"

#include <stdio.h>

/* NULL: the content is the host's. Such a call is always alone in its message. */
static const struct ps_device_place *place_of(struct ps_flight *flight)
{
    const struct ps_call_request *request = ps_flight_request(flight, 0);
    const struct ps_push_request *push = ps_call_push_of(request);
    const struct ps_pull_request *pull = ps_call_pull_of(request);
    if (push != NULL && push->place != NULL)
        return push->place;
    return pull != NULL ? pull->place : NULL;
}

bool ps_flight_is_of_device(struct ps_flight *flight)
{
    bool is_one = place_of(flight) != NULL;
    PS_ASSERT(!is_one || (flight->part_count == 1 && !flight->is_bundle));
    return is_one;
}

/* The address is that of the push's only piece, or of the pull's room. */
void ps_flight_name_device(struct ps_flight *flight)
{
    const struct ps_call_request *request = ps_flight_request(flight, 0);
    const struct ps_push_request *push = ps_call_push_of(request);
    struct ps_shared_way *way = &flight->parts[0].shared;
    const struct ps_device_place *place = place_of(flight);
    const uint8_t *address = push != NULL ? push->content.pieces[0].data : request->pull.room;
    size_t size = push != NULL ? push->content.size : request->pull.size_wish;
    PS_ASSERT(place != NULL && (push == NULL || push->content.piece_count == 1));
    /* No byte of it goes in the message, whatever becomes of this: gRPC would read it with the
     * host's own hands. */
    flight->content = (struct ps_view){NULL, 0, 0};
    flight->is_stuck =
        !ps_device_links_take(flight->connection->devices, place, address, size, &flight->device);
    if (flight->is_stuck)
        return;
    /* From here on it is told like content in shared memory, by the same field of the message: the
     * server knows by the segment's number what kind of memory that is. */
    way->slot.range = flight->device.range;
    way->push_size = push != NULL ? size : 0;
    way->pull_size = push == NULL ? size : 0;
    ps_buffer_clear(&flight->head);
    ps_flight_encode(flight, &flight->head);
    /* It had room for a head without a range. */
    flight->is_stuck = ps_buffer_status(&flight->head, NULL) != PS_OK;
}

/* The call has not left, so that this is as certain as a server's own word. */
void ps_flight_note_stuck(struct ps_flight *flight)
{
    flight->status = PS_ERR_UNSUPPORTED;
    flight->refused = true;
    (void)snprintf(flight->text, sizeof flight->text,
                   "the server cannot reach the device's memory");
}

/* Also of connections that are no shard's any more: their servers may still have something. */
bool ps_channel_grpc_let_go(const struct ps_channel *channel, const struct ps_device_share *share)
{
    struct ps_grpc_side *side = channel->self;
    bool all = true;
    ps_mutex_lock(&side->mutex);
    /* Every one is asked, also behind one that has not let go. */
    for (struct ps_connection *it = side->connections; it != NULL; it = it->next)
        all = ps_device_links_let_go(it->devices, share) && all;
    ps_mutex_unlock(&side->mutex);
    return all;
}
