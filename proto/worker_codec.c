/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of one length, so that a client has nothing to free of them. They are counted in a first
 * pass and bounded before anything is made: a message of a few bytes for each row would otherwise
 * make a client take a thousand times as much memory. */
#include "proto/worker_codec.h"

#include "base/assert.h"
#include "proto/wire.h"

#include <string.h>

/* Field numbers of ListWorkersResponse, Worker and WorkerGroup. */
enum { MEMBERS = 1, REVISION, GROUPS, MORE };
enum { RANK = 1, NAME, ROLE, HOST, JOINED, SILENT, HEARD, GROUP, INCARNATION, TTL };
enum { GROUP_NAME = 1, GROUP_SIZE };

static void count_rows(struct ps_wire_reader *reader, struct ps_worker_list *list);
static void read_rows(struct ps_wire_reader *reader, struct ps_worker_list *list);
static void read_worker(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                        struct ps_listed_worker *row);
static void read_group(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                       struct ps_listed_group *group);

/* A server that has no such text says nothing. */
static void put_text(struct ps_buffer *row, uint32_t number, const char *text)
{
    /* Empty texts are left out as well, as proto3 has it. */
    if (text != NULL)
        ps_wire_put_text(row, number, text);
}

/* Made apart, since the length comes first. */
static void put_row(struct ps_buffer *message, uint32_t number, const struct ps_buffer *row)
{
    PS_ASSERT(!row->failed);
    ps_wire_put_head(message, number, row->size);
    /* The head and then the row: a message in a message. */
    ps_buffer_append(message, (struct ps_bytes){(const uint8_t *)row->text, row->size});
}

/* The bound holds for what the registry and addresses allow. */
void ps_encode_worker(const struct ps_worker_info *info, struct ps_buffer *message)
{
    char bytes[4 * PS_WORKER_TEXT_BYTES + 128];
    /* A row has four texts at most, each of which is shorter than a client has room for, and ten
     * numbers. */
    struct ps_buffer row;
    /* Texts come bounded: by the registry those of workers, by the view of the servers the
     * addresses. */
    ps_buffer_init_fixed(&row, bytes, sizeof bytes);
    ps_wire_put_uint(&row, RANK, info->rank);
    put_text(&row, NAME, info->name);
    put_text(&row, ROLE, info->role);
    put_text(&row, HOST, info->host);
    ps_wire_put_uint(&row, JOINED, info->joined_unix_ms);
    /* Without the mark a 0 would look like a worker that has called just now. */
    ps_wire_put_uint(&row, SILENT, info->is_heard ? info->silent_ms : 0);
    ps_wire_put_uint(&row, HEARD, info->is_heard ? 1 : 0);
    put_text(&row, GROUP, info->group);
    ps_wire_put_uint(&row, INCARNATION, info->incarnation);
    ps_wire_put_uint(&row, TTL, info->ttl_ms);
    put_row(message, MEMBERS, &row);
}

/* Groups come apart from their members: one that everybody has left still has its size. */
void ps_encode_worker_group(const char *name, uint32_t size, struct ps_buffer *message)
{
    /* The name and one number. */
    char bytes[PS_WORKER_TEXT_BYTES + 32];
    struct ps_buffer row;
    ps_buffer_init_fixed(&row, bytes, sizeof bytes);
    ps_wire_put_text(&row, GROUP_NAME, name);
    ps_wire_put_uint(&row, GROUP_SIZE, size);
    put_row(message, GROUPS, &row);
}

/* The same bytes are read twice. `*out` is written only when the whole message was well formed. */
enum ps_status ps_decode_workers(struct ps_view message, const struct ps_allocator *memory,
                                 struct ps_worker_list *out, struct ps_error *error)
{
    /* Released as a whole, however far it came. */
    struct ps_worker_list list = {.memory = memory};
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, message, error);
    count_rows(&reader, &list);
    if (reader.status != PS_OK)
        return reader.status;
    /* One more each, since nothing is not an allocation. */
    /* Zeroed: what a row does not say is 0 and "". */
    list.rows = ps_zeroed_array(memory, list.count + 1, sizeof *list.rows);
    list.groups = ps_zeroed_array(memory, list.group_count + 1, sizeof *list.groups);
    if (list.rows == NULL || list.groups == NULL) {
        /* The text is made behind the release, which forgets the number. */
        size_t count = list.count;
        ps_worker_list_release(&list);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of %zu workers", count);
    }
    ps_wire_reader_init(&reader, message, error);
    read_rows(&reader, &list);
    if (reader.status != PS_OK) {
        ps_worker_list_release(&list);
        return reader.status;
    }
    /* The rows are the caller's from here on. */
    *out = list;
    return PS_OK;
}

/* More than a server of this version sends are taken, in case that a newer one sends them. */
static void count_rows(struct ps_wire_reader *reader, struct ps_worker_list *list)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        /* Rows are only counted here: their bytes are looked at in the second pass. */
        if (field.number == MEMBERS)
            list->count++;
        else if (field.number == GROUPS)
            list->group_count++;
        /* Numbers of the whole list, wherever they stand. */
        else if (field.number == REVISION)
            list->revision = ps_wire_uint(reader, &field, UINT64_MAX, "revision");
        else if (field.number == MORE)
            list->more = ps_wire_uint(reader, &field, UINT64_MAX, "more") != 0;
        if (list->count > 2 * PS_WORKERS_LISTED_MAX || list->group_count > PS_WORKERS_LISTED_MAX)
            ps_wire_refuse(reader, "more than %d workers", 2 * PS_WORKERS_LISTED_MAX);
    }
}

/* In the order in which they stand in the message. */
static void read_rows(struct ps_wire_reader *reader, struct ps_worker_list *list)
{
    struct ps_wire_field field;
    size_t count = 0;
    /* Each kind of row in an array of its own. */
    size_t group_count = 0;
    while (ps_wire_next(reader, &field)) {
        /* The numbers were read with the counting. */
        if (field.number != MEMBERS && field.number != GROUPS)
            continue;
        /* Its size is bounded by the message, and nothing is made of it. */
        struct ps_wire_range range = ps_wire_bytes(reader, &field, SIZE_MAX, "a row");
        if (reader->status != PS_OK)
            return;
        if (field.number == MEMBERS)
            read_worker(reader, &range, &list->rows[count++]);
        else
            read_group(reader, &range, &list->groups[group_count++]);
    }
    /* Both passes have seen the same bytes. */
    PS_ASSERT(reader->status != PS_OK || count == list->count);
}

/* Bounded before it is copied: the row has a fixed place for it. */
static void take_text(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      char text[PS_WORKER_TEXT_BYTES])
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, PS_WORKER_TEXT_BYTES - 1, "a text");
    if (reader->status != PS_OK)
        return;
    /* The last of a field that comes twice holds, and may be shorter than the first. */
    memset(text, 0, PS_WORKER_TEXT_BYTES);
    ps_wire_range_copy(&range, text);
    if (!ps_wire_is_text((struct ps_bytes){(const uint8_t *)text, range.size}))
        ps_wire_refuse(reader, "a worker's text is not UTF-8");
}

/* By number, in any order; what a newer server says beyond these is passed over. */
static void read_worker_field(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                              struct ps_listed_worker *row)
{
    switch (field->number) {
    case RANK:
        row->rank = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "rank");
        break;
    case NAME:
        take_text(reader, field, row->name);
        break;
    case ROLE:
        take_text(reader, field, row->role);
        break;
    case HOST:
        take_text(reader, field, row->host);
        break;
    case JOINED:
        row->joined_unix_ms = ps_wire_uint(reader, field, UINT64_MAX, "joined_unix_ms");
        break;
    case SILENT:
        row->silent_ms = ps_wire_uint(reader, field, UINT64_MAX, "silent_ms");
        break;
    case HEARD:
        row->is_heard = ps_wire_uint(reader, field, UINT64_MAX, "heard") != 0;
        break;
    case GROUP:
        take_text(reader, field, row->group);
        break;
    case INCARNATION:
        row->incarnation = ps_wire_uint(reader, field, UINT64_MAX, "incarnation");
        break;
    case TTL:
        row->ttl_ms = ps_wire_uint(reader, field, UINT64_MAX, "ttl_ms");
        break;
    default:
        break;
    }
}

static void read_worker(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                        struct ps_listed_worker *row)
{
    struct ps_wire_reader nested;
    struct ps_wire_field field;
    /* A reader of its own: what is wrong in a row is wrong in the list. */
    ps_wire_reader_nested(&nested, range, reader->error);
    while (ps_wire_next(&nested, &field))
        read_worker_field(&nested, &field, row);
    /* The error was written by the nested reader already: both share the caller's. */
    if (nested.status != PS_OK)
        reader->status = nested.status;
}

static void read_group(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                       struct ps_listed_group *group)
{
    struct ps_wire_reader nested;
    struct ps_wire_field field;
    ps_wire_reader_nested(&nested, range, reader->error);
    /* Unknown fields are passed over here, too. */
    while (ps_wire_next(&nested, &field)) {
        if (field.number == GROUP_NAME)
            take_text(&nested, &field, group->name);
        /* 0, or absent: the group has no end. */
        else if (field.number == GROUP_SIZE)
            group->size = (uint32_t)ps_wire_uint(&nested, &field, UINT32_MAX, "size");
    }
    if (nested.status != PS_OK)
        reader->status = nested.status;
}

void ps_worker_list_release(struct ps_worker_list *list)
{
    /* Zeroed, or never filled. */
    if (list->memory != NULL) {
        ps_release(list->memory, list->rows);
        ps_release(list->memory, list->groups);
    }
    *list = (struct ps_worker_list){0};
}
