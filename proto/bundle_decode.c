/* Bytes to bundles, in two passes: the first counts, so that one block holds everything, the second
 * reads each item where it lies. What a peer claims costs nothing: what is counted is there. */
#include "proto/bundle_codec.h"

#include "base/assert.h"
#include "proto/arena.h"
#include "proto/decode_parts.h"
#include "proto/status_codes.h"

/* Longest text of a status that is read; longer ones are refused. */
enum { TEXT_BYTES_MAX = 4096, WORD_BYTES_MAX = 64 };

/* What the first pass finds. */
struct counted {
    size_t push_count;
    size_t pull_count;
    uint64_t bytes_max;
    uint32_t shard;
    struct ps_request_id base;
    struct ps_wire_range client_id;
};

/* Where decoded items put what they need. */
struct store {
    struct ps_arena arena; /* for small fields that were cut in two */
    struct ps_bytes *pieces;
    size_t pieces_left;
    struct ps_error *error;
};

static enum ps_status count_items(struct ps_view bytes, struct counted *counted,
                                  struct ps_error *error);
static enum ps_status make_store(struct ps_view bytes, const struct counted *counted,
                                 size_t push_size, size_t pull_size,
                                 const struct ps_allocator *memory, struct store *store,
                                 void **pushes, void **pulls, struct ps_decoded *decoded);
static enum ps_status keep_small(struct store *store, const struct ps_wire_range *range,
                                 struct ps_bytes *run);
static enum ps_status keep_name(struct store *store, const struct ps_wire_range *range,
                                struct ps_bytes *run);
static struct ps_view keep_content(struct store *store, const struct ps_wire_range *range);
static enum ps_status end_store(struct store *store, enum ps_status status,
                                struct ps_decoded *decoded);

/* ---- Requests ---- */

static enum ps_status check_counts(const struct counted *counted, struct ps_error *error)
{
    size_t count = counted->push_count + counted->pull_count;
    if (count > PS_BUNDLE_ITEMS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a batch of %zu items: at most %d go", count,
                       PS_BUNDLE_ITEMS_MAX);
    if (counted->base.present && counted->push_count > PS_BUNDLE_NUMBERED_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "a batch of %zu gradients under one request id: at most %d go",
                       counted->push_count, PS_BUNDLE_NUMBERED_MAX);
    if (counted->base.sequence > UINT64_MAX - PS_BUNDLE_ITEMS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the request id's sequence is too large");
    return PS_OK;
}

/* Field by field: the push's own id, else the batch's. */
static void number(struct ps_push_request *push, struct ps_bytes own_client,
                   const struct ps_request_id *base, size_t index)
{
    struct ps_request_id *id = &push->request;
    id->client_id = own_client.size > 0 ? own_client : base->client_id;
    if (!base->present)
        return;
    id->session = id->session != 0 ? id->session : base->session;
    id->sequence = id->sequence != 0 ? id->sequence : base->sequence + index;
    id->present = true;
}

static enum ps_status read_push(struct store *store, const struct ps_wire_range *range,
                                const struct ps_request_id *base, size_t index,
                                struct ps_push_request *push)
{
    struct ps_found found = {0};
    struct ps_bytes client_id = {NULL, 0};
    struct ps_wire_reader reader;
    ps_wire_reader_nested(&reader, range, store->error);
    ps_decode_push_fields(&reader, push, &found);
    PS_TRY(reader.status);
    PS_TRY(keep_name(store, &found.name, &push->name));
    PS_TRY(keep_small(store, &found.client_id, &client_id));
    push->content = keep_content(store, &found.content);
    number(push, client_id, base, index);
    return PS_OK;
}

static enum ps_status read_pull(struct store *store, const struct ps_wire_range *range,
                                struct ps_pull_request *pull)
{
    struct ps_found found = {0};
    struct ps_wire_reader reader;
    ps_wire_reader_nested(&reader, range, store->error);
    ps_decode_pull_fields(&reader, pull, &found);
    PS_TRY(reader.status);
    return keep_name(store, &found.name, &pull->name);
}

static enum ps_status read_requests(struct ps_view bytes, const struct counted *counted,
                                    struct store *store, struct ps_bundle_request *request)
{
    struct ps_request_id base = counted->base;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    PS_TRY(keep_small(store, &counted->client_id, &base.client_id));
    ps_wire_reader_init(&reader, bytes, store->error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1) {
            size_t i = request->push_count++;
            PS_TRY(read_push(store, &field.bytes, &base, i, &request->pushes[i]));
            if (request->pushes[i].shard == 0)
                request->pushes[i].shard = counted->shard;
        } else if (field.number == 2) {
            size_t i = request->pull_count++;
            PS_TRY(read_pull(store, &field.bytes, &request->pulls[i]));
            if (request->pulls[i].shard == 0)
                request->pulls[i].shard = counted->shard;
        }
    }
    return reader.status;
}

enum ps_status ps_decode_bundle(struct ps_view bytes, const struct ps_allocator *memory,
                                struct ps_bundle_request *request, struct ps_decoded *decoded,
                                struct ps_error *error)
{
    struct counted counted = {0};
    struct store store = {.error = error};
    struct ps_bundle_request read = {0};
    void *pushes;
    void *pulls;
    *decoded = (struct ps_decoded){0};
    PS_TRY(count_items(bytes, &counted, error));
    PS_TRY(check_counts(&counted, error));
    PS_TRY(make_store(bytes, &counted, sizeof *read.pushes, sizeof *read.pulls, memory, &store,
                      &pushes, &pulls, decoded));
    read.bytes_max = counted.bytes_max;
    read.pushes = pushes;
    read.pulls = pulls;
    enum ps_status status = read_requests(bytes, &counted, &store, &read);
    PS_TRY(end_store(&store, status, decoded));
    PS_ASSERT(read.push_count == counted.push_count && read.pull_count == counted.pull_count);
    *request = read;
    return PS_OK;
}

/* ---- Replies ---- */

static enum ps_status read_status(struct store *store, const struct ps_wire_range *range,
                                  struct ps_item_status *status)
{
    uint32_t code = 0;
    struct ps_wire_range word = {0};
    struct ps_wire_range text = {0};
    struct ps_bytes word_bytes = {NULL, 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, range, store->error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            code = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "code");
        else if (field.number == 2)
            word = ps_wire_bytes(&reader, &field, WORD_BYTES_MAX, "word");
        else if (field.number == 3)
            text = ps_wire_bytes(&reader, &field, TEXT_BYTES_MAX, "message");
        else if (field.number == 4)
            status->retry_ms = ps_wire_uint(&reader, &field, UINT64_MAX, "retry_ms");
        else if (field.number == 5)
            status->session = ps_wire_uint(&reader, &field, UINT64_MAX, "session");
    }
    PS_TRY(reader.status);
    PS_TRY(keep_small(store, &word, &word_bytes));
    PS_TRY(keep_small(store, &text, &status->text));
    status->status = ps_status_of_reply(code, word_bytes, &status->from_server);
    return PS_OK;
}

/* The two fields of a result: the reply's range, and the status read. */
static enum ps_status read_result(struct store *store, const struct ps_wire_range *range,
                                  struct ps_item_status *status, struct ps_wire_range *reply)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    *reply = (struct ps_wire_range){0};
    *status = (struct ps_item_status){.status = PS_OK, .from_server = true};
    ps_wire_reader_nested(&reader, range, store->error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            *reply = ps_wire_bytes(&reader, &field, SIZE_MAX, "reply");
        else if (field.number == 2 && field.type == PS_WIRE_BYTES)
            PS_TRY(read_status(store, &field.bytes, status));
    }
    return reader.status;
}

static enum ps_status read_push_result(struct store *store, const struct ps_wire_range *range,
                                       struct ps_push_result *result)
{
    struct ps_wire_range reply;
    struct ps_wire_reader reader;
    PS_TRY(read_result(store, range, &result->status, &reply));
    ps_wire_reader_nested(&reader, &reply, store->error);
    ps_decode_push_reply_fields(&reader, &result->reply);
    return reader.status;
}

static enum ps_status read_pull_result(struct store *store, const struct ps_wire_range *range,
                                       struct ps_pull_result *result)
{
    struct ps_wire_range reply;
    struct ps_found found = {0};
    struct ps_wire_reader reader;
    PS_TRY(read_result(store, range, &result->status, &reply));
    ps_wire_reader_nested(&reader, &reply, store->error);
    ps_decode_pull_reply_fields(&reader, &result->reply, &found);
    PS_TRY(reader.status);
    PS_TRY(keep_name(store, &found.name, &result->reply.name));
    PS_TRY(keep_small(store, &found.runs, &result->reply.delta.runs));
    result->reply.content = keep_content(store, &found.content);
    return PS_OK;
}

static enum ps_status read_results(struct ps_view bytes, struct store *store,
                                   struct ps_bundle_reply *reply)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, store->error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            PS_TRY(read_push_result(store, &field.bytes, &reply->pushes[reply->push_count++]));
        else if (field.number == 2)
            PS_TRY(read_pull_result(store, &field.bytes, &reply->pulls[reply->pull_count++]));
    }
    return reader.status;
}

enum ps_status ps_decode_bundle_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                      struct ps_bundle_reply *reply, struct ps_decoded *decoded,
                                      struct ps_error *error)
{
    struct counted counted = {0};
    struct store store = {.error = error};
    struct ps_bundle_reply read = {0};
    void *pushes;
    void *pulls;
    *decoded = (struct ps_decoded){0};
    PS_TRY(count_items(bytes, &counted, error));
    if (counted.push_count + counted.pull_count > PS_BUNDLE_ITEMS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a reply of too many items");
    PS_TRY(make_store(bytes, &counted, sizeof *read.pushes, sizeof *read.pulls, memory, &store,
                      &pushes, &pulls, decoded));
    read.pushes = pushes;
    read.pulls = pulls;
    enum ps_status status = read_results(bytes, &store, &read);
    PS_TRY(end_store(&store, status, decoded));
    *reply = read;
    return PS_OK;
}

/* ---- Counting and keeping ---- */

static enum ps_status count_items(struct ps_view bytes, struct counted *counted,
                                  struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 4)
            counted->bytes_max = ps_wire_uint(&reader, &field, UINT64_MAX, "bytes_max");
        if (field.number == 14)
            counted->shard = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "shard");
        if (field.number == 15)
            ps_decode_request_id(&reader, &field, &counted->base, &counted->client_id);
        if (field.number != 1 && field.number != 2)
            continue;
        (void)ps_wire_bytes(&reader, &field, SIZE_MAX, "an item");
        if (field.number == 1)
            counted->push_count++;
        else
            counted->pull_count++;
    }
    return reader.status;
}

/* One block: pushes, pulls, pieces. Every content is at most as many pieces as it touches, and two
 * neighbours share at most one. */
static enum ps_status make_store(struct ps_view bytes, const struct counted *counted,
                                 size_t push_size, size_t pull_size,
                                 const struct ps_allocator *memory, struct store *store,
                                 void **pushes, void **pulls, struct ps_decoded *decoded)
{
    size_t items = counted->push_count + counted->pull_count;
    size_t piece_count = bytes.piece_count + items;
    size_t pieces_size = piece_count * sizeof(struct ps_bytes);
    size_t size = pieces_size + counted->push_count * push_size + counted->pull_count * pull_size;
    uint8_t *block = ps_zeroed(memory, size);
    if (block == NULL)
        return ps_fail(store->error, PS_ERR_NO_MEMORY, "decode: %zu items", items);
    *decoded = (struct ps_decoded){.memory = memory, .pieces = (struct ps_bytes *)(void *)block};
    ps_arena_init(&store->arena, memory, bytes.size);
    store->pieces = decoded->pieces;
    store->pieces_left = piece_count;
    *pushes = block + pieces_size;
    *pulls = block + pieces_size + counted->push_count * push_size;
    return PS_OK;
}

static enum ps_status keep_small(struct store *store, const struct ps_wire_range *range,
                                 struct ps_bytes *run)
{
    if (ps_wire_range_in_one(range, run))
        return PS_OK;
    uint8_t *copy = ps_arena_take(&store->arena, range->size);
    if (copy == NULL)
        return ps_fail(store->error, PS_ERR_NO_MEMORY, "decode: %zu bytes", range->size);
    ps_wire_range_copy(range, copy);
    *run = (struct ps_bytes){copy, range->size};
    return PS_OK;
}

static enum ps_status keep_name(struct store *store, const struct ps_wire_range *range,
                                struct ps_bytes *run)
{
    PS_TRY(keep_small(store, range, run));
    if (!ps_wire_is_text(*run))
        return ps_fail(store->error, PS_ERR_BAD_INPUT, "name: not UTF-8 without NUL");
    return PS_OK;
}

static struct ps_view keep_content(struct store *store, const struct ps_wire_range *range)
{
    if (range->size == 0)
        return (struct ps_view){0};
    size_t count = ps_wire_range_piece_count(range);
    struct ps_view view = {store->pieces, count, range->size};
    PS_ASSERT(count <= store->pieces_left);
    ps_wire_range_pieces(range, store->pieces);
    store->pieces += count;
    store->pieces_left -= count;
    return view;
}

/* What the arena gave lives with the decoded message, or goes with the block. */
static enum ps_status end_store(struct store *store, enum ps_status status,
                                struct ps_decoded *decoded)
{
    decoded->message = ps_arena_detach(&store->arena);
    if (status != PS_OK)
        ps_decoded_release(decoded);
    return status;
}
