/* SPDX-License-Identifier: Apache-2.0 */
/* Replies point into the blocks that a reader holds: no copy, no torn read. Only another encoding
 * is a copy, made from that version, and rows of a table, which lie anywhere.
 *
 * Two of these are read in several messages: ranges and deltas. Between the messages nobody holds a
 * reference for the reader, who may never come back; the version is put into the holds, which are
 * bounded and forget it in time. */
#include "server/core/requests/pull_reply.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/pull_to_room.h"
#include "server/core/requests/table_delta.h"
#include "server/core/values/delta_pull.h"
#include "server/core/values/encoded_values.h"

#include <inttypes.h>

static enum ps_status choose(struct ps_service *service, const struct ps_pull_request *request,
                             const struct ps_chain *chain, const struct ps_pull_reading *reading,
                             struct ps_pull *pull, struct ps_error *error);
static const struct ps_shape *shape_of(const struct ps_pull *pull);
static void give(struct ps_blocks *values, enum ps_encoding encoding, struct ps_pull *pull);
static enum ps_status encode_range(struct ps_service *service,
                                   const struct ps_pull_request *request,
                                   const struct ps_pull_reading *reading, struct ps_pull *pull,
                                   struct ps_error *error);
static enum ps_status encode(const struct ps_blocks *values, struct ps_elements range,
                             enum ps_encoding encoding, struct ps_pull *pull,
                             struct ps_error *error);
static void give_copy(struct ps_encoded_values *copy, enum ps_encoding encoding,
                      struct ps_pull *pull);
static enum ps_status cut_delta(struct ps_service *service, const struct ps_pull_request *request,
                                const struct ps_chain *chain, struct ps_pull *pull,
                                struct ps_error *error);
static enum ps_status cut_range(struct ps_service *service, const struct ps_pull_request *request,
                                struct ps_pull *pull, struct ps_error *error);
static enum ps_status check_range(const struct ps_parameter_spec *spec,
                                  const struct ps_pull_request *request, struct ps_elements *range,
                                  struct ps_error *error);
static void note_range(struct ps_service *service, const struct ps_pull_request *request,
                       struct ps_blocks *values, struct ps_elements range, struct ps_pull *pull);
static enum ps_status cut_view(struct ps_pull *pull, size_t offset, size_t size,
                               struct ps_error *error);

/* The version is that of the reading also where the content is a copy: it was the parameter's when
 * the copy's source was held, whatever has come since. */
enum ps_status ps_pull_reply_make(struct ps_service *service, const struct ps_pull_request *request,
                                  const struct ps_chain *chain,
                                  const struct ps_pull_reading *reading, struct ps_pull *pull,
                                  struct ps_error *error)
{
    PS_ASSERT((reading->values != NULL) + (reading->rows != NULL) + (reading->copied != NULL) == 1);
    PS_ASSERT(chain->life != 0);
    PS_TRY(choose(service, request, chain, reading, pull, error));
    pull->reply.version = reading->version;
    pull->reply.life = chain->life;
    /* Borrowed like the name; most readers know it, and small replies stay small. */
    if (request->with_shape)
        pull->reply.shape = shape_of(pull);
    return PS_OK;
}

/* In the parameter's own encoding the reply points at the blocks; in another it points at a copy,
 * which is made here, outside all locks. */
static enum ps_status choose(struct ps_service *service, const struct ps_pull_request *request,
                             const struct ps_chain *chain, const struct ps_pull_reading *reading,
                             struct ps_pull *pull, struct ps_error *error)
{
    struct ps_blocks *values = reading->values;
    enum ps_status status = PS_OK;
    if (reading->copied != NULL) {
        ps_pull_give_room(reading->copied, request->encoding, pull);
        return PS_OK;
    }
    if (reading->rows != NULL) {
        give_copy(reading->rows, request->encoding, pull);
        pull->reply.delta = reading->delta;
        if (reading->delta.present)
            pull->reply.total = reading->rows->spec->count;
        return PS_OK;
    }
    if (ps_encoding_is_native(request->encoding, values->spec->dtype)) {
        give(values, request->encoding, pull);
        /* The version is set before the cut is made, because both cuts note under that version what
         * the reader has still to get. */
        pull->reply.version = reading->version;
        status = request->held.present ? cut_delta(service, request, chain, pull, error)
                                       : cut_range(service, request, pull, error);
        if (status != PS_OK)
            ps_pull_release(pull);
        return status;
    }
    status = encode_range(service, request, reading, pull, error);
    ps_blocks_release(values);
    return status;
}

/* One of the three holds the specification, and with it the shape: it lives as long as the pull. */
static const struct ps_shape *shape_of(const struct ps_pull *pull)
{
    const struct ps_blocks *values = pull->held;
    const struct ps_encoded_values *encoded = pull->encoded;
    PS_ASSERT((values != NULL) + (encoded != NULL) + (pull->spec != NULL) == 1);
    return ps_parameter_spec_shape(values != NULL    ? values->spec
                                   : encoded != NULL ? encoded->spec
                                                     : pull->spec);
}

/* Takes `values`: the pull keeps the whole list, also when only a range of it goes out. */
static void give(struct ps_blocks *values, enum ps_encoding encoding, struct ps_pull *pull)
{
    PS_ASSERT(values != NULL && ps_encoding_is_native(encoding, values->spec->dtype));
    *pull = (struct ps_pull){.reply = {.name = values->spec->name,
                                       .dtype = values->spec->dtype,
                                       .content = ps_blocks_view(values),
                                       .encoding = encoding},
                             .held = values};
}

/* A delta in another encoding would be of values that the reader does not have: what it adds to
 * must be bit for bit what the server has. */
static enum ps_status encode_range(struct ps_service *service,
                                   const struct ps_pull_request *request,
                                   const struct ps_pull_reading *reading, struct ps_pull *pull,
                                   struct ps_error *error)
{
    struct ps_blocks *values = reading->values;
    struct ps_elements range;
    if (request->held.present)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "a delta pull is made in the parameter's own encoding");
    PS_TRY(check_range(values->spec, request, &range, error));
    /* The copy keeps a reference to the specification only: on every path the caller of this
     * function releases the values. */
    PS_TRY(encode(values, range, request->encoding, pull, error));
    PS_ASSERT(pull->encoded != NULL && pull->held == NULL);
    pull->reply.version = reading->version;
    ps_counter_add(service->metrics.pull_encoded_bytes, pull->reply.content.size);
    if (range.count != values->spec->count)
        note_range(service, request, values, range, pull);
    return PS_OK;
}

/* The name and the type are those of the copy's own reference: the blocks may be gone before the
 * copy. */
static enum ps_status encode(const struct ps_blocks *values, struct ps_elements range,
                             enum ps_encoding encoding, struct ps_pull *pull,
                             struct ps_error *error)
{
    struct ps_encoded_values *encoded;
    PS_ASSERT(!ps_encoding_is_native(encoding, values->spec->dtype));
    PS_TRY(ps_encoded_values_create(values, range, encoding, &encoded, error));
    PS_ASSERT(encoded->spec == values->spec);
    give_copy(encoded, encoding, pull);
    return PS_OK;
}

/* Takes `copy`, which keeps the name: also when the parameter is gone before the network has sent
 * it. */
static void give_copy(struct ps_encoded_values *copy, enum ps_encoding encoding,
                      struct ps_pull *pull)
{
    PS_ASSERT(copy != NULL && copy->spec != NULL);
    *pull = (struct ps_pull){.reply = {.name = copy->spec->name,
                                       .dtype = copy->spec->dtype,
                                       .content = ps_view_of(&copy->piece),
                                       .encoding = encoding},
                             .encoded = copy};
}

/* Of a delta pull: the blocks that have changed since. While some are left behind the version stays
 * readable for the rest; once all came, nothing is held for the reader. Only the first answer of
 * several counts in the metrics as a delta. */
static enum ps_status cut_delta(struct ps_service *service, const struct ps_pull_request *request,
                                const struct ps_chain *chain, struct ps_pull *pull,
                                struct ps_error *error)
{
    struct ps_blocks *values = pull->held;
    struct ps_delta_cut cut;
    PS_TRY(ps_delta_cut(values, pull->reply.version, &request->held, chain,
                        ps_delta_bytes_max(request), &cut, error));
    PS_ASSERT(cut.content.size + cut.left_bytes <= values->size);
    pull->cut = cut.pieces;
    pull->reply.content = cut.content;
    pull->reply.total = values->spec->count;
    pull->reply.delta = cut.delta;
    if (request->held.target == 0) {
        ps_counter_add(service->metrics.deltas, 1);
        ps_counter_add(service->metrics.deltas_whole, cut.delta.whole != PS_WHOLE_NOT);
        ps_counter_add(service->metrics.delta_saved_bytes,
                       values->size - cut.content.size - cut.left_bytes);
        /* Nothing is left behind: the reader will not come back for this version, and a hold would
         * only keep blocks alive. */
        if (cut.left_bytes == 0)
            return PS_OK;
        ps_version_holds_begin(&service->version_holds, values, pull->reply.version, cut.left_bytes,
                               ps_now_ms(service->clock));
    } else {
        ps_version_holds_given(&service->version_holds, values->spec, pull->reply.version,
                               cut.content.size);
    }
    ps_service_count_ranges(service);
    return PS_OK;
}

/* Of a range: only its bytes in the view. A whole parameter needs no list of its own, and is not
 * held for anybody. */
static enum ps_status cut_range(struct ps_service *service, const struct ps_pull_request *request,
                                struct ps_pull *pull, struct ps_error *error)
{
    struct ps_blocks *values = pull->held;
    size_t element_size = ps_dtype_size(values->spec->dtype);
    struct ps_elements range;
    PS_TRY(check_range(values->spec, request, &range, error));
    /* The check has made count 0 the number of elements that are left, so a request that says
     * nothing of a range ends here as well. */
    if (range.count == values->spec->count)
        return PS_OK;
    PS_TRY(cut_view(pull, (size_t)range.first * element_size, (size_t)range.count * element_size,
                    error));
    PS_ASSERT(pull->reply.content.size == (size_t)range.count * element_size);
    note_range(service, request, values, range, pull);
    return PS_OK;
}

/* The elements that are asked for: the parameter has so many, and one message takes them. Count 0
 * means all that are left. */
static enum ps_status check_range(const struct ps_parameter_spec *spec,
                                  const struct ps_pull_request *request, struct ps_elements *range,
                                  struct ps_error *error)
{
    uint64_t total = spec->count;
    *range = request->range;
    /* The check subtracts and does not add: both numbers come from outside, so a sum may wrap. */
    if (range->first > total || range->count > total - range->first)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter: %s has %" PRIu64 " elements, asked for %" PRIu64 " from %" PRIu64
                       " on",
                       (const char *)spec->name.data, total, range->count, range->first);
    if (range->count == 0)
        range->count = total - range->first;
    PS_ASSERT(range->first + range->count <= total);
    if (ps_encoding_bytes(request->encoding, spec->dtype, range->count) > PS_REPLY_BYTES_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "parameter: %s, %" PRIu64
                       " elements take more than one message: ask for ranges",
                       (const char *)spec->name.data, range->count);
    return PS_OK;
}

/* A range goes out: the version stays readable until the reader has got the rest, which is counted
 * in the values' own bytes. */
static void note_range(struct ps_service *service, const struct ps_pull_request *request,
                       struct ps_blocks *values, struct ps_elements range, struct ps_pull *pull)
{
    const struct ps_parameter_spec *spec = values->spec;
    uint64_t version = pull->reply.version;
    PS_ASSERT(range.count < spec->count);
    PS_ASSERT((pull->held != NULL) != (pull->encoded != NULL));
    pull->reply.range = range;
    pull->reply.total = spec->count;
    /* A reader that names a version has begun before, and owes its bytes already. The hold begins
     * before anything is given out of it: in the other order this range would be taken off no hold
     * at all, and the reader's debt would never come to an end. */
    if (request->version == 0)
        ps_version_holds_begin(&service->version_holds, values, version, values->size,
                               ps_now_ms(service->clock));
    ps_version_holds_given(&service->version_holds, spec, version,
                           range.count * ps_dtype_size(spec->dtype));
    ps_service_count_ranges(service);
}

/* Built beside `*pull` and moved there at the end: on failure the caller's is untouched, and the
 * reader asks for the range as for any other. */
bool ps_pull_made(struct ps_blocks *values, uint64_t version, struct ps_elements range,
                  enum ps_encoding encoding, struct ps_pull *pull)
{
    size_t element_size = ps_dtype_size(values->spec->dtype);
    struct ps_pull made = {0};
    PS_ASSERT(range.first + range.count <= values->spec->count);
    PS_ASSERT(range.count > 0);
    /* The caller keeps its own reference, which ends with the push; the pull gets another one. */
    if (ps_encoding_is_native(encoding, values->spec->dtype)) {
        give(ps_blocks_acquire(values), encoding, &made);
        if (cut_view(&made, (size_t)range.first * element_size, (size_t)range.count * element_size,
                     NULL) != PS_OK) {
            ps_pull_release(&made);
            return false;
        }
    } else if (encode(values, range, encoding, &made, NULL) != PS_OK) {
        return false;
    }
    made.reply.version = version;
    made.reply.range = range;
    made.reply.total = values->spec->count;
    *pull = made;
    return true;
}

/* Pieces point into the blocks, the first and the last in part: nothing is copied but where they
 * begin. */
static enum ps_status cut_view(struct ps_pull *pull, size_t offset, size_t size,
                               struct ps_error *error)
{
    const struct ps_blocks *values = pull->held;
    struct ps_view whole = pull->reply.content;
    size_t first = offset / PS_BLOCK_BYTES;
    size_t count = size == 0 ? 0 : (offset + size - 1) / PS_BLOCK_BYTES - first + 1;
    PS_ASSERT(first + count <= whole.piece_count);
    pull->cut = ps_zeroed_array(values->spec->memory, count, sizeof *pull->cut);
    if (pull->cut == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a range");
    /* Only the first piece begins inside of a block, and only the last one may end there. */
    size_t skip = offset % PS_BLOCK_BYTES;
    size_t left = size;
    for (size_t i = 0; i < count; i++) {
        struct ps_bytes block = whole.pieces[first + i];
        size_t run = block.size - skip < left ? block.size - skip : left;
        pull->cut[i] = (struct ps_bytes){block.data + skip, run};
        left -= run;
        skip = 0;
    }
    PS_ASSERT(left == 0);
    pull->reply.content = (struct ps_view){pull->cut, count, size};
    return PS_OK;
}

/* All three: a reading that failed on the way may hold any of them, or none. */
void ps_pull_reading_release(struct ps_pull_reading *reading)
{
    ps_blocks_release(reading->values);
    ps_encoded_values_release(reading->rows);
    ps_parameter_spec_release(reading->copied);
    *reading = (struct ps_pull_reading){0};
}

/* The list of pieces is of the memory that the blocks know, so that it goes before they do. */
void ps_pull_release(struct ps_pull *pull)
{
    const struct ps_blocks *values = pull->held;
    PS_ASSERT(pull->cut == NULL || values != NULL);
    if (pull->cut != NULL)
        ps_release(values->spec->memory, pull->cut);
    ps_blocks_release(pull->held);
    ps_encoded_values_release(pull->encoded);
    ps_parameter_spec_release(pull->spec);
    *pull = (struct ps_pull){0};
}
