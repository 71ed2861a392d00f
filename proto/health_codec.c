/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1: two messages of one field each, written by hand because a generated codec would
 * be larger than these functions. */
#include "proto/health_codec.h"

#include "base/assert.h"
#include "proto/wire.h"

enum ps_status ps_decode_health(struct ps_view bytes, char service[PS_HEALTH_SERVICE_BYTES_MAX + 1],
                                struct ps_error *error)
{
    struct ps_wire_range name = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            name = ps_wire_bytes(&reader, &field, PS_HEALTH_SERVICE_BYTES_MAX, "service");
    }
    PS_TRY(reader.status);
    /* The bound was checked by ps_wire_bytes, and the array has one byte more for the NUL. */
    ps_wire_range_copy(&name, service);
    service[name.size] = '\0';
    /* A NUL within the name would end it early and ask about another service. */
    if (!ps_wire_is_text((struct ps_bytes){(const uint8_t *)service, name.size}))
        return ps_fail(error, PS_ERR_BAD_INPUT, "service: not UTF-8 without NUL");
    return PS_OK;
}

void ps_encode_health_reply(enum ps_health health, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, 1, (uint64_t)health);
}

/* map<string, HealthCheckResponse> in field 1: an entry has the key in field 1 and the message in
 * field 2. */
void ps_encode_health_entry(const char *service, enum ps_health health, struct ps_buffer *bytes)
{
    char text[16];
    struct ps_buffer value;
    struct ps_bytes name = ps_bytes_of_text(service);
    PS_ASSERT(name.size < 100); /* so that each length takes one byte */
    ps_buffer_init_fixed(&value, text, sizeof text);
    ps_encode_health_reply(health, &value);
    ps_wire_put_head(bytes, 1, (name.size > 0 ? 2 + name.size : 0) + 2 + value.size);
    if (name.size > 0)
        ps_wire_put_bytes(bytes, 1, name);
    ps_wire_put_head(bytes, 2, value.size);
    ps_buffer_append(bytes, (struct ps_bytes){(const uint8_t *)value.text, value.size});
}
