/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to bundles, in two passes. The first only walks the outer fields and counts, so that one
 * block holds all items; the second reads each item where it lies. A peer cannot make us allocate
 * by what it claims: every counted item is there, with at least a tag and a length in the message.
 *
 * Requests and replies share everything but the reading of one item. What items need beyond their
 * struct comes out of one store: pieces of contents from the block, joined small fields from an
 * arena that is capped by the size of the message. */
#include "proto/bundle_codec.h"

#include "base/assert.h"
#include "proto/arena.h"
#include "proto/decode_parts.h"
#include "proto/status_codes.h"

/* The longest text and word of a status that are read. Longer ones are refused: a client keeps the
 * texts of up to PS_BUNDLE_ITEMS_MAX items at once. */
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

/* Checked before anything is allocated. The second bound is how many numbers under one id a session
 * remembers; the third keeps the sum of sequence and index from wrapping into numbers that were
 * used before, where a gradient would count as applied already. */
static enum ps_status check_counts(const struct counted *counted, struct ps_error *error)
{
    /* Counts of items that are there, each of two bytes at least: the sum cannot wrap. */
    size_t count = counted->push_count + counted->pull_count;
    /* The bound keeps the time that one message holds a lane. */
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

/* Gives a push its id, field by field: its own where the item has one, else the batch's, with the
 * item's place added to the sequence. A whole batch is so numbered by one id of some twenty bytes,
 * while a single item of an earlier batch, sent again, keeps the number that it had. */
static void number(struct ps_push_request *push, struct ps_bytes own_client,
                   const struct ps_request_id *base, size_t index)
{
    struct ps_request_id *id = &push->request;
    id->client_id = own_client.size > 0 ? own_client : base->client_id;
    if (!base->present)
        return;
    id->session = id->session != 0 ? id->session : base->session;
    id->sequence = id->sequence != 0 ? id->sequence : base->sequence + index;
    /* Present also for a push without an id of its own: the batch's counts for all of its
     * pushes. */
    id->present = true;
}

/* Here and below: the reader's status is asked before anything that it found is used. */
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

/* A pull changes nothing and needs no id. */
static enum ps_status read_pull(struct store *store, const struct ps_wire_range *range,
                                struct ps_pull_request *pull)
{
    struct ps_found found = {0};
    struct ps_wire_reader reader;
    ps_wire_reader_nested(&reader, range, store->error);
    ps_decode_pull_fields(&reader, pull, &found);
    PS_TRY(reader.status);
    pull->keys = keep_content(store, &found.content);
    /* Nearly always empty and then without a byte of the arena. */
    PS_TRY(keep_name(store, &found.clocks, &pull->clocks));
    return keep_name(store, &found.name, &pull->name);
}

/* The second pass. Its counters rise exactly as those of the first did, so no index is checked
 * again. */
static enum ps_status read_requests(struct ps_view bytes, const struct counted *counted,
                                    struct store *store, struct ps_bundle_request *request)
{
    /* A copy, since its client id may have to be joined from two slices. */
    struct ps_request_id base = counted->base;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    PS_TRY(keep_small(store, &counted->client_id, &base.client_id));
    ps_wire_reader_init(&reader, bytes, store->error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1) {
            size_t i = request->push_count++;
            PS_TRY(read_push(store, &field.bytes, &base, i, &request->pushes[i]));
            /* Said once for the batch, unless the item says otherwise. */
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

/* Count, check, allocate, read. From make_store on `decoded` owns the block, and end_store gives it
 * back if reading fails; before that there is nothing to give back. */
enum ps_status ps_decode_bundle(struct ps_view bytes, const struct ps_allocator *memory,
                                struct ps_bundle_request *request, struct ps_decoded *decoded,
                                struct ps_error *error)
{
    struct counted counted = {0};
    struct store store = {.error = error};
    struct ps_bundle_request read = {0};
    void *pushes = NULL;
    void *pulls = NULL;
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
    /* Both passes walk the same bytes with the same reader. Were they ever to disagree, the second
     * would have written beyond the arrays. */
    PS_ASSERT(read.push_count == counted.push_count && read.pull_count == counted.pull_count);
    *request = read;
    return PS_OK;
}

/* ---- Replies ---- */

/* What became of one item that failed. Code and word are judged together by ps_status_of_reply, as
 * those of a whole call are, so an item fails in the same ways as a call of its own would. */
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

/* Reads the two fields of a result: the reply's range, and the status. An absent status is success,
 * since a message without it is what a server sends for each item that worked. */
static enum ps_status read_result(struct store *store, const struct ps_wire_range *range,
                                  struct ps_item_status *status, struct ps_wire_range *reply)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    /* A result without a reply is one whose reply has only defaults; an empty range reads as
     * that. */
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

/* A result of a push has no bytes of its own: a status or a few numbers. */
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

/* A reply without content is not refused here; whether one may be missing is for the client's
 * engine to judge, which knows what it asked for. */
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

/* Results stand in the order of the requests, pushes and pulls each for themselves; the client
 * matches them by place and checks the counts. */
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

/* The same steps as for a request; only the bound differs, since a reply carries no numbers to
 * remember. */
enum ps_status ps_decode_bundle_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                      struct ps_bundle_reply *reply, struct ps_decoded *decoded,
                                      struct ps_error *error)
{
    struct counted counted = {0};
    struct store store = {.error = error};
    struct ps_bundle_reply read = {0};
    void *pushes = NULL;
    void *pulls = NULL;
    *decoded = (struct ps_decoded){0};
    PS_TRY(count_items(bytes, &counted, error));
    /* No client sends more, so no honest server answers more. */
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
        /* The last one counts, and so for every field that is not repeated. */
        if (field.number == 14)
            counted->shard = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "shard");
        if (field.number == 15)
            ps_decode_request_id(&reader, &field, &counted->base, &counted->client_id);
        /* 3 is reserved; other numbers were read above or belong to a later version. */
        if (field.number != 1 && field.number != 2)
            continue;
        /* Called for its check of the wire type: an item that is a number ends the reader here, and
         * the second pass may rely on a range. */
        (void)ps_wire_bytes(&reader, &field, SIZE_MAX, "an item");
        if (field.number == 1)
            counted->push_count++;
        else
            counted->pull_count++;
    }
    return reader.status;
}

/* One block: pieces, pushes, pulls. The number of pieces is bounded without a look at the contents:
 * a content is at most as many pieces as it touches, and two neighbours share at most one, so all
 * together need no more than the message has plus one for each item. Pieces come first, because
 * ps_decoded releases the block through them; all three types have the same alignment. */
static enum ps_status make_store(struct ps_view bytes, const struct counted *counted,
                                 size_t push_size, size_t pull_size,
                                 const struct ps_allocator *memory, struct store *store,
                                 void **pushes, void **pulls, struct ps_decoded *decoded)
{
    size_t items = counted->push_count + counted->pull_count;
    size_t piece_count = bytes.piece_count + items;
    /* Neither product wraps: every piece and every item takes bytes of a message that is in
     * memory. */
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

/* Only a field that the border of two slices cuts is copied. The arena's cap is the message's size,
 * so repeated fields cannot make it larger than what was sent. */
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

/* Names are looked up, logged and journaled, so they are checked here as for a single call. */
static enum ps_status keep_name(struct store *store, const struct ps_wire_range *range,
                                struct ps_bytes *run)
{
    PS_TRY(keep_small(store, range, run));
    if (!ps_wire_is_text(*run))
        return ps_fail(store->error, PS_ERR_BAD_INPUT, "name: not UTF-8 without NUL");
    return PS_OK;
}

/* An empty content takes no piece: its view is empty, as that of an absent one. */
static struct ps_view keep_content(struct store *store, const struct ps_wire_range *range)
{
    if (range->size == 0)
        return (struct ps_view){0};
    size_t count = ps_wire_range_piece_count(range);
    struct ps_view view = {store->pieces, count, range->size};
    /* make_store has made room for all pieces; this relies on its count. */
    PS_ASSERT(count <= store->pieces_left);
    ps_wire_range_pieces(range, store->pieces);
    store->pieces += count;
    store->pieces_left -= count;
    return view;
}

/* What the arena gave lives on with the decoded message, or goes with the block on failure. */
static enum ps_status end_store(struct store *store, enum ps_status status,
                                struct ps_decoded *decoded)
{
    decoded->message = ps_arena_detach(&store->arena);
    if (status != PS_OK)
        ps_decoded_release(decoded);
    return status;
}
