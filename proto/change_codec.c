/* SPDX-License-Identifier: Apache-2.0 */
/* Two small messages, of which one is the other with a field more: so there is one decoder for
 * both. They are rare; the bytes of a configuration are bounded as InitParam's are. */
#include "proto/change_codec.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/decode_parts.h"
#include "proto/wire.h"

/* Numbers of the fields, as in pserver.proto. */
enum { NAME = 1, CHANGE = 2, SHARD = 14, REQUEST = 15 };
enum { VERSION = 1, DUPLICATE, POSITION, DURABLE_POSITION, CONFIG, STEP };

/* A drop has no change, and is decoded by the same loop: an unknown field is passed over, so that
 * the one of a later version does no harm. */
enum ps_status ps_decode_change(struct ps_view bytes, const struct ps_allocator *memory,
                                struct ps_change_request *request, struct ps_decoded *decoded,
                                struct ps_error *error)
{
    struct ps_change_request read = {.shard = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == NAME)
            found.name = ps_wire_bytes(&reader, &field, PS_NAME_BYTES_MAX, "name");
        else if (field.number == CHANGE)
            found.config = ps_wire_bytes(&reader, &field, PS_CONFIG_BYTES_MAX, "change");
        else if (field.number == SHARD)
            read.shard = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "shard");
        else if (field.number == REQUEST)
            ps_decode_request_id(&reader, &field, &read.request, &found.client_id);
    }
    /* A name without a byte and a change without a field are well formed; the service judges. */
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.change = kept.config;
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* For the client, which keeps the configuration as bytes: it belongs to the optimizer. */
enum ps_status ps_decode_change_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                      struct ps_change_reply *reply, struct ps_decoded *decoded,
                                      struct ps_error *error)
{
    struct ps_change_reply read = {.version = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == VERSION)
            read.version = ps_wire_uint(&reader, &field, PS_VERSION_MAX, "version");
        else if (field.number == DUPLICATE)
            read.duplicate = ps_wire_uint(&reader, &field, UINT64_MAX, "duplicate") != 0;
        else if (field.number == POSITION)
            read.position = ps_wire_uint(&reader, &field, UINT64_MAX, "position");
        else if (field.number == DURABLE_POSITION)
            read.durable_position = ps_wire_uint(&reader, &field, UINT64_MAX, "durable_position");
        else if (field.number == CONFIG)
            found.config = ps_wire_bytes(&reader, &field, PS_CONFIG_BYTES_MAX, "config");
        else if (field.number == STEP)
            read.step = ps_wire_uint(&reader, &field, UINT64_MAX, "step");
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    /* Empty where a parameter was dropped, or has gone since. */
    read.config = kept.config;
    *reply = read;
    return PS_OK;
}

/* Zeros and empty fields are left out, as everywhere. */
void ps_encode_change(const struct ps_change_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_bytes(bytes, NAME, request->name);
    ps_wire_put_bytes(bytes, CHANGE, request->change);
    ps_wire_put_uint(bytes, SHARD, request->shard);
    /* Without an id it is done, but not remembered. */
    ps_encode_request_id(&request->request, bytes);
}

/* Made when the change is made, and sent when it is durable: what stands here does not change in
 * between. */
void ps_encode_change_reply(const struct ps_change_reply *reply, struct ps_buffer *bytes)
{
    PS_ASSERT(reply->config.size <= PS_CONFIG_BYTES_MAX);
    ps_wire_put_uint(bytes, VERSION, reply->version);
    ps_wire_put_uint(bytes, DUPLICATE, reply->duplicate ? 1 : 0);
    ps_wire_put_uint(bytes, POSITION, reply->position);
    ps_wire_put_bytes(bytes, CONFIG, reply->config);
    ps_wire_put_uint(bytes, STEP, reply->step);
}

/* Fields may stand in any order. */
void ps_encode_change_durable(uint64_t durable_position, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, DURABLE_POSITION, durable_position);
}
