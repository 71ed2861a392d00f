/* SPDX-License-Identifier: Apache-2.0 */
/* What a client needs to call every server of a job. Servers write it with the functions here, and
 * clients read it; nothing in it is believed before it was compared with a bound.
 *
 * The rows are read in a second pass, because their number may stand behind them: a message is
 * fields in any order. */
#include "proto/cluster_codec.h"

#include "base/assert.h"
#include "proto/wire.h"

#include <string.h>

/* Field numbers of GetClusterResponse and ClusterMember. */
enum { SHARD_COUNT = 1, MEMBERS, REVISION, SPLIT_BYTES, VERSION, JOB, ALONE, PLACEMENT };
enum { INDEX = 1, ADDRESS, EPOCH, STATE, ANSWERS, UNIX_PATH };

static void read_heads(struct ps_wire_reader *reader, struct ps_cluster_reply *reply);
static void read_rows(struct ps_wire_reader *reader, struct ps_cluster_reply *reply);
static void read_member(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                        struct ps_cluster_reply *reply);

/* Numbers and texts of the job; the rows follow one by one, because a server has them in a form of
 * its own. */
void ps_encode_cluster(const struct ps_cluster_reply *reply, const char *job, const char *version,
                       struct ps_buffer *message)
{
    PS_ASSERT(reply->shard_count <= PS_SHARDS_MAX);
    /* Zeros are left out, as proto3 has it: a reader takes what is absent for them. */
    ps_wire_put_uint(message, SHARD_COUNT, reply->shard_count);
    ps_wire_put_uint(message, REVISION, reply->revision);
    ps_wire_put_uint(message, SPLIT_BYTES, reply->split_bytes);
    ps_wire_put_text(message, VERSION, version);
    ps_wire_put_text(message, JOB, job);
    ps_wire_put_uint(message, ALONE, reply->alone ? 1 : 0);
    ps_wire_put_uint(message, PLACEMENT, reply->placement);
}

/* Made apart, since the length comes first. Its head is written also for an empty message, which
 * row 0 of a shard that nobody has would be. */
void ps_encode_cluster_member(uint32_t index, const struct ps_cluster_member *member,
                              const char *unix_path, struct ps_buffer *message)
{
    char bytes[2 * PS_ADDRESS_BYTES_MAX + 64];
    struct ps_buffer row;
    /* An owner without an address has not loaded its shard yet. */
    bool is_there = member->address[0] != '\0';
    const char *state = is_there ? "serving" : "loading";
    ps_buffer_init_fixed(&row, bytes, sizeof bytes);
    ps_wire_put_uint(&row, INDEX, index);
    ps_wire_put_text(&row, ADDRESS, member->address);
    ps_wire_put_uint(&row, EPOCH, member->epoch);
    ps_wire_put_text(&row, STATE, member->epoch == 0 ? "vacant" : state);
    ps_wire_put_uint(&row, ANSWERS, member->answers ? 1 : 0);
    /* A longer path is left out; the address is good enough. */
    if (unix_path != NULL && strlen(unix_path) < PS_ADDRESS_BYTES_MAX)
        ps_wire_put_text(&row, UNIX_PATH, unix_path);
    PS_ASSERT(!row.failed);
    ps_wire_put_head(message, MEMBERS, row.size);
    ps_buffer_append(message, (struct ps_bytes){(const uint8_t *)row.text, row.size});
}

/* Rows are made for the shards that the message speaks of, and not for those that it brings: a
 * job of thousands takes as much as its number says, which is bounded before anything is made. */
enum ps_status ps_decode_cluster(struct ps_view message, const struct ps_allocator *memory,
                                 struct ps_cluster_reply *out, struct ps_error *error)
{
    /* `*out` is written only when the whole message was well formed. */
    struct ps_cluster_reply reply = {.memory = memory};
    struct ps_wire_reader reader;
    ps_wire_reader_init(&reader, message, error);
    read_heads(&reader, &reply);
    if (reader.status != PS_OK)
        return reader.status;
    /* A server that does not know the number yet says none, and has no rows to say. */
    if (reply.shard_count > 0) {
        reply.rows = ps_zeroed_array(memory, reply.shard_count, sizeof *reply.rows);
        if (reply.rows == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u servers", reply.shard_count);
    }
    /* The same bytes again: a view is read from its beginning as often as one likes. */
    ps_wire_reader_init(&reader, message, error);
    read_rows(&reader, &reply);
    if (reader.status != PS_OK) {
        ps_cluster_reply_release(&reply);
        return reader.status;
    }
    *out = reply;
    return PS_OK;
}

/* What a newer server says beyond this is passed over. */
static void read_heads(struct ps_wire_reader *reader, struct ps_cluster_reply *reply)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        switch (field.number) {
        case SHARD_COUNT:
            reply->shard_count =
                (uint32_t)ps_wire_uint(reader, &field, PS_SHARDS_MAX, "shard_count");
            break;
        case REVISION:
            reply->revision = ps_wire_uint(reader, &field, UINT64_MAX, "revision");
            break;
        case SPLIT_BYTES:
            reply->split_bytes = ps_wire_uint(reader, &field, UINT64_MAX, "split_bytes");
            break;
        case ALONE:
            reply->alone = ps_wire_uint(reader, &field, UINT64_MAX, "alone") != 0;
            break;
        case PLACEMENT:
            reply->placement = ps_wire_uint(reader, &field, UINT64_MAX, "placement");
            break;
        default:
            break;
        }
    }
}

/* A row that comes twice holds as it came last. */
static void read_rows(struct ps_wire_reader *reader, struct ps_cluster_reply *reply)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number != MEMBERS)
            continue;
        struct ps_wire_range range = ps_wire_bytes(reader, &field, SIZE_MAX, "members");
        if (reader->status == PS_OK)
            read_member(reader, &range, reply);
    }
}

/* Bounded before it is copied: the row has a fixed place for it. */
static void take_address(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         char address[PS_ADDRESS_BYTES_MAX])
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, PS_ADDRESS_BYTES_MAX - 1, "address");
    if (reader->status != PS_OK)
        return;
    /* The last of a field that comes twice holds, and may be shorter than the first. */
    memset(address, 0, PS_ADDRESS_BYTES_MAX);
    ps_wire_range_copy(&range, address);
    if (!ps_wire_is_text((struct ps_bytes){(const uint8_t *)address, range.size}))
        ps_wire_refuse(reader, "an address is not UTF-8");
}

/* The index counts, and not the place in the list. */
static void read_member(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                        struct ps_cluster_reply *reply)
{
    struct ps_wire_reader nested;
    struct ps_wire_field field;
    /* Taken over as a whole, once everything in it was well formed. */
    struct ps_cluster_member row = {0};
    uint64_t index = 0;
    ps_wire_reader_nested(&nested, range, reader->error);
    while (ps_wire_next(&nested, &field)) {
        if (field.number == INDEX)
            index = ps_wire_uint(&nested, &field, PS_SHARDS_MAX, "index");
        else if (field.number == ADDRESS)
            take_address(&nested, &field, row.address);
        else if (field.number == EPOCH)
            row.epoch = ps_wire_uint(&nested, &field, UINT64_MAX, "epoch");
        else if (field.number == ANSWERS)
            row.answers = ps_wire_uint(&nested, &field, UINT64_MAX, "answers") != 0;
    }
    /* The error was written by the nested reader already: both share the caller's. */
    if (nested.status != PS_OK)
        reader->status = nested.status;
    /* Beyond the rows that were made. */
    else if (index >= reply->shard_count)
        ps_wire_refuse(reader, "a server of shard %u of %u", (unsigned)index, reply->shard_count);
    else
        reply->rows[index] = row;
}

/* Safe after any end of a decode, so that callers need not know how far it came. */
void ps_cluster_reply_release(struct ps_cluster_reply *reply)
{
    /* Zeroed, or never filled. */
    if (reply->memory != NULL)
        ps_release(reply->memory, reply->rows);
    *reply = (struct ps_cluster_reply){0};
}

/* Not by the revision: a store counts every write, and two servers count apart. Not by which of
 * them answers, either. */
bool ps_cluster_reply_is_same(const struct ps_cluster_reply *left,
                              const struct ps_cluster_reply *right)
{
    if (left->shard_count != right->shard_count || left->placement != right->placement)
        return false;
    for (uint32_t i = 0; i < left->shard_count; i++)
        /* Another epoch at the same address is another process, which knows nothing of the first.
         * */
        if (left->rows[i].epoch != right->rows[i].epoch ||
            strcmp(left->rows[i].address, right->rows[i].address) != 0)
            return false;
    return true;
}
