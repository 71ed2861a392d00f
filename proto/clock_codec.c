/* SPDX-License-Identifier: Apache-2.0 */
/* Small messages, one of them with rows. Consistency and straggler are read as numbers: whether a
 * number has a meaning is for the service to say, in words that name it.
 *
 * All requests are read by one pattern: what they have in common, and a switch for the rest. What
 * is decoded goes into a struct aside first, so that a malformed message leaves the caller's as it
 * was; names and client ids are found while the message is read and kept when all of it was. */
#include "proto/clock_codec.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/decode_parts.h"
#include "proto/wire.h"

/* Numbers of the fields, as in pserver.proto. */
enum { NAME = 1, SHARD = 14, REQUEST = 15 };
enum { SET_WORKERS = 2, SET_CONSISTENCY, SET_STALENESS, SET_STRAGGLER, SET_TTL_MS };
/* Fields of SetClocksRequest that came with tasks and SparseSSP; those before them are read by
 * their numbers. */
enum { SET_SPECULATION = 7, SET_TASK, SET_CLOCK, SET_RANKS, SET_REMOVE };
/* Of ClockRequest, whose first field is the name. */
enum { CLOCK_WORKER = 2, CLOCK_CLOCK, CLOCK_TASK };
enum { AT_LEAST = 2, WAIT_MS };
enum { MINIMUM = 1, DUPLICATE, POSITION, DURABLE_POSITION, OWN_CLOCK };
/* Of Progress: the settings stand in the same words as in SetClocks, under other numbers. */
/* Of ProgressResponse; what a server of before does not say is 0. */
enum {
    WORKERS = 2,
    CONSISTENCY,
    STALENESS,
    STRAGGLER,
    TTL_MS,
    NAMES,
    EVICTIONS,
    SPECULATION,
    TASK
};
/* Of WorkerClock. */
enum { ROW_CLOCK = 1, ROW_EVICTED, ROW_SILENT_MS, ROW_ABSENT };

/* More than a row of four numbers takes: four tags of a byte, and ten bytes for each number. */
enum { ROW_BYTES_MAX = 48 };

static void read_set_field(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_set_clocks_request *read);
static void read_progress_number(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                                 struct ps_progress_reply *read);
static void read_worker(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                        const struct ps_progress_rows *rows);
static void read_name(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      const struct ps_progress_rows *rows);

/* Every request has a name, most have a shard and an id: the rest is the message's own. A name is
 * held to its bound here, so that neither a refusal's text nor a journal's record can be longer
 * than they may. False: the field is another one. */
static bool read_common(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                        struct ps_found *found, uint32_t *shard, struct ps_request_id *request)
{
    if (field->number == NAME)
        found->name = ps_wire_bytes(reader, field, PS_CLOCKS_NAME_BYTES_MAX, "name of clocks");
    else if (field->number == SHARD)
        *shard = ps_decode_shard(reader, field);
    else if (field->number == REQUEST && request != NULL)
        ps_decode_request_id(reader, field, request, &found->client_id);
    else
        return false;
    return true;
}

enum ps_status ps_decode_set_clocks(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_set_clocks_request *request,
                                    struct ps_decoded *decoded, struct ps_error *error)
{
    /* What is not said is 0: ASP, WAIT, and no workers, which the service refuses. */
    struct ps_set_clocks_request read = {.shard = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    /* Fields of a later version are passed over, as everywhere: clients and servers of different
     * versions go on working with what both know. */
    while (ps_wire_next(&reader, &field)) {
        if (read_common(&reader, &field, &found, &read.shard, &read.request))
            continue;
        /* Held to the bits that there can be; which of them mean something the service says. */
        if (field.number == SET_RANKS)
            found.config = ps_wire_bytes(&reader, &field, PS_CLOCK_RANKS_BYTES, "ranks");
        else
            read_set_field(&reader, &field, &read);
    }
    /* A name that is not text is refused here: it goes to logs and terminals. */
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    /* Found as a configuration is: bytes of some length, of which the last field counts. A set
     * without ranks is of every rank that there is. */
    read.ranks = kept.config;
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* Numbers that do not fit their field are malformed and not cut: 2^32 + 1 workers would be one. */
static void read_set_field(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_set_clocks_request *read)
{
    if (field->number == SET_WORKERS)
        read->workers = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "workers");
    else if (field->number == SET_CONSISTENCY)
        read->consistency = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "consistency");
    else if (field->number == SET_STALENESS)
        read->staleness = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "staleness");
    else if (field->number == SET_STRAGGLER)
        read->straggler = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "straggler");
    else if (field->number == SET_TTL_MS)
        read->ttl_ms = ps_wire_uint(reader, field, UINT64_MAX, "ttl_ms");
    else if (field->number == SET_SPECULATION)
        read->speculation = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "speculation");
    else if (field->number == SET_TASK)
        read->task = ps_wire_uint(reader, field, UINT64_MAX, "task");
    else if (field->number == SET_CLOCK)
        read->clock = ps_wire_uint(reader, field, UINT64_MAX, "clock");
    /* Any number but 0 is true, as protobuf has it. */
    else if (field->number == SET_REMOVE)
        read->removes = ps_wire_uint(reader, field, UINT64_MAX, "remove") != 0;
}

/* A clock of any size is well formed. The worker is 1 + its rank, so that a message without one,
 * from a client that forgot it, is not taken for one of worker 0. */
enum ps_status ps_decode_clock(struct ps_view bytes, const struct ps_allocator *memory,
                               struct ps_clock_request *request, struct ps_decoded *decoded,
                               struct ps_error *error)
{
    /* Clock 0 is one that every worker has reached: a sign of life. */
    struct ps_clock_request read = {.shard = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (read_common(&reader, &field, &found, &read.shard, &read.request))
            continue;
        if (field.number == CLOCK_WORKER)
            read.worker = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "worker");
        else if (field.number == CLOCK_CLOCK)
            read.clock = ps_wire_uint(&reader, &field, UINT64_MAX, "clock");
        else if (field.number == CLOCK_TASK)
            read.task = ps_wire_uint(&reader, &field, UINT64_MAX, "task");
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    read.request.client_id = kept.client_id;
    *request = read;
    return PS_OK;
}

/* A question changes nothing, and so has no id. A name without a byte asks for all names. */
enum ps_status ps_decode_progress(struct ps_view bytes, const struct ps_allocator *memory,
                                  struct ps_progress_request *request, struct ps_decoded *decoded,
                                  struct ps_error *error)
{
    /* Whom it waits for is the clocks' business, for how long the caller's. */
    struct ps_progress_request read = {.shard = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (read_common(&reader, &field, &found, &read.shard, NULL))
            continue;
        if (field.number == AT_LEAST)
            read.at_least = ps_wire_uint(&reader, &field, UINT64_MAX, "at_least");
        else if (field.number == WAIT_MS)
            read.wait_ms = ps_wire_uint(&reader, &field, UINT64_MAX, "wait_ms");
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.name = kept.name;
    *request = read;
    return PS_OK;
}

/* For the client. What an older server does not say is 0, or false: a client that is told clock 0
 * goes on with its own. */
enum ps_status ps_decode_clocks_reply(struct ps_view bytes, struct ps_clocks_reply *reply,
                                      struct ps_error *error)
{
    struct ps_clocks_reply read = {.minimum = 0};
    /* All of its fields are numbers, and none of them has a bound of its own. */
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == MINIMUM)
            read.minimum = ps_wire_uint(&reader, &field, UINT64_MAX, "minimum");
        else if (field.number == DUPLICATE)
            read.duplicate = ps_wire_uint(&reader, &field, UINT64_MAX, "duplicate") != 0;
        else if (field.number == POSITION)
            read.position = ps_wire_uint(&reader, &field, UINT64_MAX, "position");
        else if (field.number == DURABLE_POSITION)
            read.durable_position = ps_wire_uint(&reader, &field, UINT64_MAX, "durable_position");
        else if (field.number == OWN_CLOCK)
            read.clock = ps_wire_uint(&reader, &field, UINT64_MAX, "clock");
    }
    /* A reply that is malformed tells nothing, not even in part. */
    PS_TRY(reader.status);
    *reply = read;
    return PS_OK;
}

/* The rows come while the message is read: whoever takes them knows of a malformed one by the
 * status only. Their numbers are held to what a server may have, since the other side is not
 * trusted with the caller's memory. */
enum ps_status ps_decode_progress_reply(struct ps_view bytes, const struct ps_progress_rows *rows,
                                        struct ps_progress_reply *reply, struct ps_error *error)
{
    struct ps_progress_reply read = {.minimum = 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    PS_ASSERT(rows->worker != NULL && rows->name != NULL);
    /* A count that has passed its bound goes on counting, so that the end sees it. */
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == WORKERS && ++read.worker_count <= PS_CLOCK_WORKERS_MAX)
            read_worker(&reader, &field, rows);
        else if (field.number == NAMES && ++read.name_count <= PS_CLOCKS_MAX)
            read_name(&reader, &field, rows);
        else
            read_progress_number(&reader, &field, &read);
    }
    PS_TRY(reader.status);
    /* Said by us and not by the reader: every row was a message by itself. */
    if (read.worker_count > PS_CLOCK_WORKERS_MAX || read.name_count > PS_CLOCKS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "more workers or clocks than there can be");
    *reply = read;
    return PS_OK;
}

/* What is no row. Rows beyond their bound come here as well, and are passed over: that there were
 * too many is said at the end. */
static void read_progress_number(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                                 struct ps_progress_reply *read)
{
    if (field->number == MINIMUM)
        read->minimum = ps_wire_uint(reader, field, UINT64_MAX, "minimum");
    else if (field->number == CONSISTENCY)
        read->consistency = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "consistency");
    else if (field->number == STALENESS)
        read->staleness = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "staleness");
    else if (field->number == STRAGGLER)
        read->straggler = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "straggler");
    else if (field->number == TTL_MS)
        read->ttl_ms = ps_wire_uint(reader, field, UINT64_MAX, "ttl_ms");
    else if (field->number == EVICTIONS)
        read->evictions = ps_wire_uint(reader, field, UINT64_MAX, "evictions");
    else if (field->number == SPECULATION)
        read->speculation = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "speculation");
    else if (field->number == TASK)
        read->task = ps_wire_uint(reader, field, UINT64_MAX, "task");
}

/* A row of any size: fields of a later version are passed over inside. The error was written by the
 * nested reader already: both share the caller's. */
static void read_worker(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                        const struct ps_progress_rows *rows)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "worker");
    /* Numbers that are left out are zeros. */
    struct ps_worker_clock row = {.clock = 0};
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (ps_wire_next(&nested, &part)) {
        if (part.number == ROW_CLOCK)
            row.clock = ps_wire_uint(&nested, &part, UINT64_MAX, "clock");
        else if (part.number == ROW_EVICTED)
            row.is_evicted = ps_wire_uint(&nested, &part, UINT64_MAX, "evicted") != 0;
        else if (part.number == ROW_SILENT_MS)
            row.silent_ms = ps_wire_uint(&nested, &part, UINT64_MAX, "silent_ms");
        else if (part.number == ROW_ABSENT)
            row.is_absent = ps_wire_uint(&nested, &part, UINT64_MAX, "absent") != 0;
    }
    /* The outer reader fails with the inner one; an earlier failure of its own stays. */
    if (reader->status == PS_OK)
        reader->status = nested.status;
    if (reader->status == PS_OK)
        rows->worker(rows->self, &row);
}

/* On the stack, since a name is taken before the next one is read; it goes to terminals. */
static void read_name(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      const struct ps_progress_rows *rows)
{
    uint8_t text[PS_CLOCKS_NAME_BYTES_MAX];
    struct ps_wire_range range = ps_wire_bytes(reader, field, sizeof text, "name of clocks");
    /* The bound is that of the place, so that what passed it fits. */
    if (reader->status != PS_OK)
        return;
    ps_wire_range_copy(&range, text);
    struct ps_bytes name = {text, range.size};
    /* The reader is stopped, so that the failure is the whole message's. */
    if (!ps_wire_is_text(name))
        ps_wire_refuse(reader, "name of clocks: is not text");
    else
        rows->name(rows->self, name);
}

/* ---- Writing: zeros and empty fields are left out, as everywhere ---- */

/* ASP and WAIT are 0, and so are those who say nothing: nobody waits for whom nobody has set. */
void ps_encode_set_clocks(const struct ps_set_clocks_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_bytes(bytes, NAME, request->name);
    ps_wire_put_uint(bytes, SET_WORKERS, request->workers);
    ps_wire_put_uint(bytes, SET_CONSISTENCY, request->consistency);
    ps_wire_put_uint(bytes, SET_STALENESS, request->staleness);
    ps_wire_put_uint(bytes, SET_STRAGGLER, request->straggler);
    ps_wire_put_uint(bytes, SET_TTL_MS, request->ttl_ms);
    ps_wire_put_uint(bytes, SET_SPECULATION, request->speculation);
    ps_wire_put_uint(bytes, SET_TASK, request->task);
    ps_wire_put_uint(bytes, SET_CLOCK, request->clock);
    ps_wire_put_bytes(bytes, SET_RANKS, request->ranks);
    ps_wire_put_uint(bytes, SET_REMOVE, request->removes ? 1 : 0);
    ps_wire_put_uint(bytes, SHARD, request->shard);
    /* Without an id it is done, but a repeat is not told from another request. */
    ps_encode_request_id(&request->request, bytes);
}

/* The clock itself is left out where it is 0: a sign of life of a worker that has ended nothing. */
void ps_encode_clock(const struct ps_clock_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_bytes(bytes, NAME, request->name);
    ps_wire_put_uint(bytes, CLOCK_WORKER, request->worker);
    ps_wire_put_uint(bytes, CLOCK_CLOCK, request->clock);
    ps_wire_put_uint(bytes, CLOCK_TASK, request->task);
    ps_wire_put_uint(bytes, SHARD, request->shard);
    ps_encode_request_id(&request->request, bytes);
}

/* Without at_least the answer comes at once, whatever wait_ms says. */
void ps_encode_progress(const struct ps_progress_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_bytes(bytes, NAME, request->name);
    ps_wire_put_uint(bytes, AT_LEAST, request->at_least);
    ps_wire_put_uint(bytes, WAIT_MS, request->wait_ms);
    ps_wire_put_uint(bytes, SHARD, request->shard);
}

/* Made when the clock moves, and sent when that is durable: minimum and clock are of the moment of
 * the change, since the caller goes on from there. */
void ps_encode_clocks_reply(const struct ps_clocks_reply *reply, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, MINIMUM, reply->minimum);
    ps_wire_put_uint(bytes, DUPLICATE, reply->duplicate ? 1 : 0);
    ps_wire_put_uint(bytes, POSITION, reply->position);
    ps_wire_put_uint(bytes, OWN_CLOCK, reply->clock);
}

/* Its size stands before it, so that it is made aside. */
static void put_worker(struct ps_buffer *bytes, const struct ps_worker_clock *worker)
{
    char room[ROW_BYTES_MAX];
    struct ps_buffer fields;
    ps_buffer_init_fixed(&fields, room, sizeof room);
    /* A worker that has just begun is a row without a byte. */
    ps_wire_put_uint(&fields, ROW_CLOCK, worker->clock);
    ps_wire_put_uint(&fields, ROW_EVICTED, worker->is_evicted ? 1 : 0);
    ps_wire_put_uint(&fields, ROW_SILENT_MS, worker->silent_ms);
    ps_wire_put_uint(&fields, ROW_ABSENT, worker->is_absent ? 1 : 0);
    /* Never left out, also where all three are 0: the place among the rows is the worker's rank. */
    ps_wire_put_head(bytes, WORKERS, fields.size);
    ps_buffer_append(bytes, (struct ps_bytes){(const uint8_t *)fields.text, fields.size});
}

/* In the order of the field numbers. Rows of one kind stand together, in the order of ranks. */
void ps_encode_progress_reply(const struct ps_progress_reply *reply, struct ps_buffer *bytes)
{
    /* The bounds that the other side holds us to. */
    PS_ASSERT(reply->worker_count <= PS_CLOCK_WORKERS_MAX);
    PS_ASSERT(reply->name_count <= PS_CLOCKS_MAX);
    ps_wire_put_uint(bytes, MINIMUM, reply->minimum);
    /* Of a question without a name there are none, and of one with a name no names. */
    for (size_t i = 0; i < reply->worker_count; i++)
        put_worker(bytes, &reply->workers[i]);
    /* So that whoever looks on knows by which rule others wait. */
    ps_wire_put_uint(bytes, CONSISTENCY, reply->consistency);
    ps_wire_put_uint(bytes, STALENESS, reply->staleness);
    ps_wire_put_uint(bytes, STRAGGLER, reply->straggler);
    ps_wire_put_uint(bytes, TTL_MS, reply->ttl_ms);
    /* Repeated texts are not packed: each has its own tag. */
    for (size_t i = 0; i < reply->name_count; i++)
        ps_wire_put_bytes(bytes, NAMES, reply->names[i]);
    ps_wire_put_uint(bytes, EVICTIONS, reply->evictions);
    ps_wire_put_uint(bytes, SPECULATION, reply->speculation);
    ps_wire_put_uint(bytes, TASK, reply->task);
}
