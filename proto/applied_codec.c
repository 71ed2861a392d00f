/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a client id need not be text, and a reply has rows: so neither message is flat
 * (fields.h), and both are read here. */
#include "proto/applied_codec.h"

#include "proto/wire.h"

/* Numbers of the fields, as in pserver.proto: the first is named, the others follow it. */
enum { ID = 1, BEGIN, AFTER, LIMIT, SHARD = 14 };
enum { KNOWN = 1, SESSION, SEQUENCE, USED_US, BEGUN, WHOLE, ROWS, MORE };
enum { ROW_NAME = 1, ROW_PUSHES, ROW_VERSION };

static enum ps_status read_row(const struct ps_wire_range *bytes, ps_applied_row_fn take,
                               void *self, struct ps_error *error);

/* Of a field that comes twice the last holds. */
static struct ps_bytes keep(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                            uint8_t *to, size_t size_max, const char *what)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, size_max, what);
    if (reader->status != PS_OK)
        return (struct ps_bytes){0};
    /* The bound is that of the place, so that what passed it fits. */
    ps_wire_range_copy(&range, to);
    return (struct ps_bytes){to, range.size};
}

/* A question without an id is well formed: that it needs one is for the service to say. */
enum ps_status ps_decode_applied(struct ps_view bytes, struct ps_applied_texts *texts,
                                 struct ps_applied_request *request, struct ps_error *error)
{
    /* Read aside, so that a malformed message leaves the caller's struct as it was. */
    struct ps_applied_request read = {.id = {.present = true}};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == ID)
            read.id.client_id =
                keep(&reader, &field, texts->client_id, sizeof texts->client_id, "client id");
        else if (field.number == BEGIN)
            read.begins = ps_wire_uint(&reader, &field, UINT64_MAX, "begin") != 0;
        else if (field.number == AFTER)
            read.after = keep(&reader, &field, texts->after, sizeof texts->after, "after");
        else if (field.number == LIMIT)
            read.limit = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "limit");
        else if (field.number == SHARD)
            read.shard = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "shard");
    }
    PS_TRY(reader.status);
    /* Both texts lie in the caller's place by now. */
    *request = read;
    return PS_OK;
}

/* Zeros and empty fields are left out, as everywhere. */
void ps_encode_applied(const struct ps_applied_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_bytes(bytes, ID, request->id.client_id);
    ps_wire_put_uint(bytes, BEGIN, request->begins ? 1 : 0);
    ps_wire_put_bytes(bytes, AFTER, request->after);
    ps_wire_put_uint(bytes, LIMIT, request->limit);
    ps_wire_put_uint(bytes, SHARD, request->shard);
}

/* A reply is read in one go: whoever takes rows has taken some when a later one is malformed, and
 * hears it by the status. */
enum ps_status ps_decode_applied_reply(struct ps_view bytes, ps_applied_row_fn take, void *self,
                                       struct ps_applied_reply *reply, struct ps_error *error)
{
    /* What an older server does not say is false, or 0. */
    struct ps_applied_reply read = {.is_known = false};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == ROWS) {
            /* Of any size: fields of a later version are passed over inside. */
            struct ps_wire_range row = ps_wire_bytes(&reader, &field, SIZE_MAX, "pushes");
            if (reader.status == PS_OK)
                PS_TRY(read_row(&row, take, self, error));
            read.row_count++;
        } else if (field.number >= KNOWN && field.number <= MORE) {
            /* All other fields are numbers; which of them it is decides where it goes. */
            uint64_t value = ps_wire_uint(&reader, &field, UINT64_MAX, "a number");
            /* Of a field that comes twice the last holds, here as well. */
            read.is_known = field.number == KNOWN ? value != 0 : read.is_known;
            read.is_whole = field.number == WHOLE ? value != 0 : read.is_whole;
            read.more = field.number == MORE ? value != 0 : read.more;
            read.session = field.number == SESSION ? value : read.session;
            read.sequence = field.number == SEQUENCE ? value : read.sequence;
            read.used_us = field.number == USED_US ? value : read.used_us;
            read.begun = field.number == BEGUN ? value : read.begun;
        }
    }
    PS_TRY(reader.status);
    /* What rows there were is told by their number: none of them is kept here. */
    *reply = read;
    return PS_OK;
}

/* The name lies on the stack, since a row is taken before the next one is read. */
static enum ps_status read_row(const struct ps_wire_range *bytes, ps_applied_row_fn take,
                               void *self, struct ps_error *error)
{
    uint8_t name[PS_NAME_BYTES_MAX];
    /* Numbers that are left out are zeros. */
    struct ps_applied_row row = {.pushes = 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == ROW_NAME)
            row.name = keep(&reader, &field, name, sizeof name, "name");
        else if (field.number == ROW_PUSHES)
            row.pushes = ps_wire_uint(&reader, &field, UINT64_MAX, "pushes");
        else if (field.number == ROW_VERSION)
            row.version = ps_wire_uint(&reader, &field, UINT64_MAX, "version");
    }
    PS_TRY(reader.status);
    /* It goes to terminals, and into the question for the next page. */
    if (!ps_wire_is_text(row.name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "name: not a parameter's name");
    return take(self, &row, error);
}

/* Its size stands before it, so it is made aside: a name and two numbers have a bound. */
static void put_row(struct ps_buffer *bytes, const struct ps_applied_row *row)
{
    char room[PS_NAME_BYTES_MAX + 64];
    struct ps_buffer fields;
    /* 64 bytes are more than two numbers, three tags and a length take. */
    ps_buffer_init_fixed(&fields, room, sizeof room);
    /* Parameters have names, so that the first field is always there. */
    ps_wire_put_bytes(&fields, ROW_NAME, row->name);
    ps_wire_put_uint(&fields, ROW_PUSHES, row->pushes);
    ps_wire_put_uint(&fields, ROW_VERSION, row->version);
    /* Never left out: a row of a name alone is one that somebody wants to see. */
    ps_wire_put_head(bytes, ROWS, fields.size);
    ps_buffer_append(bytes, (struct ps_bytes){(const uint8_t *)fields.text, fields.size});
}

/* In the order of the field numbers. */
void ps_encode_applied_reply(const struct ps_applied_reply *reply, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, KNOWN, reply->is_known ? 1 : 0);
    ps_wire_put_uint(bytes, SESSION, reply->session);
    ps_wire_put_uint(bytes, SEQUENCE, reply->sequence);
    ps_wire_put_uint(bytes, USED_US, reply->used_us);
    ps_wire_put_uint(bytes, BEGUN, reply->begun);
    ps_wire_put_uint(bytes, WHOLE, reply->is_whole ? 1 : 0);
    /* The rows stand in the order that the service gave them: by name. */
    for (size_t i = 0; i < reply->row_count; i++)
        put_row(bytes, &reply->rows[i]);
    ps_wire_put_uint(bytes, MORE, reply->more ? 1 : 0);
}
