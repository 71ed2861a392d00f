/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of shared memory in messages, and the two messages by which such memory is agreed on.
 *
 * The agreement is made once for each connection over a local socket, not over gRPC: a descriptor
 * can travel only there. Afterwards a request names a range of the segment instead of carrying
 * content. What stands in a range is input like any other and is checked against the segment by the
 * server. */
#include "proto/shared_range.h"

#include "base/bounds.h"

#include <string.h>

/* Each message begins with a word of eight bytes that says which message this is and in which
 * version, and a number, little-endian. A peer that speaks anything else is turned away by the
 * word. */
#define WORD_BYTES 8
static const char hello[WORD_BYTES + 1] = "PSSHARE1";
static const char device_hello[WORD_BYTES + 1] = "PSDEVIC1";
static const char welcome[WORD_BYTES + 1] = "PSTAKEN1";

/* What older clients say in field 4, that the elements are finite, is passed over like any unknown
 * field. */
void ps_shared_range_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_shared_range *range)
{
    struct ps_wire_range bytes = ps_wire_bytes(reader, field, SIZE_MAX, "shared");
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    ps_wire_reader_nested(&nested, &bytes, reader->error);
    while (ps_wire_next(&nested, &part)) {
        if (part.number == 1)
            range->segment = ps_wire_uint(&nested, &part, UINT64_MAX, "segment");
        else if (part.number == 2)
            range->offset = ps_wire_uint(&nested, &part, UINT64_MAX, "offset");
        else if (part.number == 3)
            range->size = ps_wire_uint(&nested, &part, UINT64_MAX, "size");
    }
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* In pushes and pulls alike. */
enum { FIELD_SHARED = 12 };
/* Of bundles. */
enum { FIELD_PUSHES = 1, FIELD_PULLS = 2 };

/* Each item is capped: the result steers how the call is scheduled, and a client may claim
 * anything. Malformed fields count as nothing here; the real decoder refuses them later with a
 * message. */
static uint64_t total_of_item(struct ps_wire_reader *item, uint64_t bytes_max)
{
    struct ps_wire_field field;
    struct ps_shared_range range = {0};
    while (ps_wire_next(item, &field))
        if (field.number == FIELD_SHARED && field.type == PS_WIRE_BYTES)
            ps_shared_range_read(item, &field, &range);
    return range.size < bytes_max ? range.size : bytes_max;
}

/* A first look at a message before it is decoded, to learn how many bytes it will move. It walks
 * only the outer fields, and at most as many items as a bundle may have. */
uint64_t ps_shared_range_total(struct ps_view message, bool is_bundle, uint64_t bytes_max)
{
    struct ps_wire_reader reader, item;
    struct ps_wire_field field;
    uint64_t total = 0;
    size_t items = 0;
    ps_wire_reader_init(&reader, message, NULL);
    /* A single request is its own only item. */
    if (!is_bundle)
        return total_of_item(&reader, bytes_max);
    while (items < PS_BUNDLE_ITEMS_MAX && ps_wire_next(&reader, &field)) {
        if (field.type != PS_WIRE_BYTES ||
            (field.number != FIELD_PUSHES && field.number != FIELD_PULLS))
            continue;
        ps_wire_reader_nested(&item, &field.bytes, NULL);
        items++;
        total += total_of_item(&item, bytes_max);
    }
    return total;
}

/* Three numbers of at most eleven bytes fit in the 64 bytes of the entry. */
void ps_shared_range_put(struct ps_buffer *head, uint32_t number,
                         const struct ps_shared_range *range)
{
    char text[64];
    struct ps_buffer entry;
    /* Absent as a whole: a request whose content is in the message does not mention shared
     * memory. */
    if (range->segment == 0 && range->offset == 0 && range->size == 0)
        return;
    ps_buffer_init_fixed(&entry, text, sizeof text);
    ps_wire_put_uint(&entry, 1, range->segment);
    ps_wire_put_uint(&entry, 2, range->offset);
    ps_wire_put_uint(&entry, 3, range->size);
    ps_wire_put_bytes(head, number, (struct ps_bytes){(const uint8_t *)entry.text, entry.size});
}

/* Bytes by shifts: a client in another language need not know our structs. */
static void write_number(const char *word, uint64_t number, uint8_t *message)
{
    memcpy(message, word, WORD_BYTES);
    for (size_t i = 0; i < sizeof number; i++)
        message[WORD_BYTES + i] = (uint8_t)(number >> (8 * i));
}

/* 0 is refused in both messages: a segment of no bytes, and an index that means "nowhere". */
static bool read_number(struct ps_bytes message, const char *word, uint64_t *number)
{
    if (message.size != WORD_BYTES + sizeof *number || memcmp(message.data, word, WORD_BYTES) != 0)
        return false;
    *number = 0;
    for (size_t i = 0; i < sizeof *number; i++)
        *number |= (uint64_t)message.data[WORD_BYTES + i] << (8 * i);
    return *number != 0;
}

void ps_shared_hello_write(uint64_t size, uint8_t message[PS_SHARED_HELLO_BYTES])
{
    write_number(hello, size, message);
}

bool ps_shared_hello_read(struct ps_bytes message, uint64_t *size)
{
    return read_number(message, hello, size);
}

/* Behind the number the uuid and the handle, as they are: the driver of the other process takes the
 * handle byte by byte, and nobody between has anything to do with what is in it. Nothing of it is
 * secret from who may use the device, and the socket is told to nobody else. */
void ps_device_hello_write(const struct ps_device_share *share,
                           uint8_t message[PS_DEVICE_HELLO_BYTES])
{
    uint8_t *rest = message + WORD_BYTES + sizeof share->bytes;
    write_number(device_hello, share->bytes, message);
    memcpy(rest, share->device, sizeof share->device);
    memcpy(rest + sizeof share->device, share->handle, sizeof share->handle);
}

/* A uuid is a text: without its end it would be read beyond it. */
bool ps_device_hello_read(struct ps_bytes message, struct ps_device_share *share)
{
    struct ps_bytes first = {message.data, WORD_BYTES + sizeof share->bytes};
    if (message.size != PS_DEVICE_HELLO_BYTES || !read_number(first, device_hello, &share->bytes))
        return false;
    const uint8_t *rest = message.data + first.size;
    memcpy(share->device, rest, sizeof share->device);
    memcpy(share->handle, rest + sizeof share->device, sizeof share->handle);
    return memchr(share->device, '\0', sizeof share->device) != NULL;
}

void ps_shared_welcome_write(uint64_t segment, uint8_t message[PS_SHARED_WELCOME_BYTES])
{
    write_number(welcome, segment, message);
}

bool ps_shared_welcome_read(struct ps_bytes message, uint64_t *segment)
{
    return read_number(message, welcome, segment);
}
