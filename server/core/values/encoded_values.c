/* SPDX-License-Identifier: Apache-2.0 */
/* A version in another encoding, which is the one pull that copies: block by block into one buffer.
 * A block is whole groups of every encoding, so that a group's scale never needs elements of two
 * blocks. */
#include "server/core/values/encoded_values.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#include <inttypes.h>

_Static_assert(PS_BLOCK_BYTES / 8 % PS_ENCODING_GROUP == 0, "a group never crosses a block");

static enum ps_status check(const struct ps_parameter_spec *spec, struct ps_elements range,
                            enum ps_encoding encoding, struct ps_error *error);
static enum ps_status encode(const struct ps_blocks *values, struct ps_elements range,
                             enum ps_encoding encoding, uint8_t *content, struct ps_error *error);

/* The parameter's lock is not held: what is encoded is a list that the caller holds, and pushes go
 * on beside it. The buffer keeps the specification alive, since its allocator gives the buffer back
 * when the network has sent it, perhaps long after the parameter is gone. */
enum ps_status ps_encoded_values_create(const struct ps_blocks *values, struct ps_elements range,
                                        enum ps_encoding encoding,
                                        struct ps_encoded_values **encoded, struct ps_error *error)
{
    struct ps_parameter_spec *spec = values->spec;
    PS_ASSERT(range.count > 0 && range.first + range.count <= spec->count);
    PS_TRY(check(spec, range, encoding, error));
    size_t size = (size_t)ps_encoding_bytes(encoding, spec->dtype, range.count);
    struct ps_encoded_values *made = ps_encoded_values_blank(spec, size);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "parameter: %s, no memory for %zu bytes of %s",
                       (const char *)spec->name.data, size, ps_encoding_name(encoding));
    enum ps_status status = encode(values, range, encoding, made->content, error);
    if (status != PS_OK) {
        ps_encoded_values_release(made);
        return status;
    }
    *encoded = made;
    return PS_OK;
}

/* Content and struct are one allocation: the reply's slice points into it, and one release ends
 * both. */
struct ps_encoded_values *ps_encoded_values_blank(struct ps_parameter_spec *spec, size_t size)
{
    struct ps_encoded_values *made = ps_plain(spec->memory, sizeof *made + size);
    if (made == NULL)
        return NULL;
    made->spec = ps_parameter_spec_acquire(spec);
    made->piece = (struct ps_bytes){made->content, size};
    return made;
}

/* A refusal says what was asked and what would be possible, by name: it goes to whoever wrote the
 * call. */
static enum ps_status check(const struct ps_parameter_spec *spec, struct ps_elements range,
                            enum ps_encoding encoding, struct ps_error *error)
{
    PS_ASSERT(spec->count > 0);
    /* A sparse reply could not say which elements are zero and which were left out. */
    if (encoding == PS_ENCODING_TOP_K)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, encoding top_k is for gradients; a reply may be native, float32, "
                       "float64, bfloat16, float16 or int8",
                       (const char *)spec->name.data);
    struct ps_error reason;
    enum ps_status status =
        ps_encoding_check(encoding, spec->dtype, range.count,
                          ps_encoding_bytes(encoding, spec->dtype, range.count), &reason);
    if (status == PS_OK)
        status = ps_encoding_check_range(encoding, range.first, range.count, spec->count, &reason);
    return status == PS_OK ? PS_OK
                           : ps_fail(error, status, "Name: %s, %.180s",
                                     (const char *)spec->name.data, reason.text);
}

/* What ps_encode_part has said counts from the range's first element. An operator sees the element
 * by its place in the parameter, which is where to look for it. */
static enum ps_status fail_in(const struct ps_parameter_spec *spec, struct ps_elements range,
                              const struct ps_error *reason, struct ps_error *error)
{
    PS_ASSERT(reason->text[0] != '\0');
    const char *name = (const char *)spec->name.data;
    if (range.first == 0)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "parameter: %s, %.180s", name, reason->text);
    return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                   "parameter: %s, counted from element %" PRIu64 ": %.160s", name, range.first,
                   reason->text);
}

/* Whether a value can be said in the encoding (a NaN in int8 cannot) is only known here, block by
 * block: then the whole pull fails, since a reply with holes could not be told from one without. */
static enum ps_status encode(const struct ps_blocks *values, struct ps_elements range,
                             enum ps_encoding encoding, uint8_t *content, struct ps_error *error)
{
    PS_ASSERT(values->block_count > 0);
    const struct ps_parameter_spec *spec = values->spec;
    const size_t element_size = ps_dtype_size(spec->dtype);
    const uint64_t block_elements = PS_BLOCK_BYTES / element_size;
    struct ps_encoded_part part = {.total = (size_t)range.count};
    while (part.first < part.total) {
        /* In elements of the parameter; the part counts from the range's first. */
        uint64_t at = range.first + part.first;
        struct ps_bytes block = values->pieces[at / block_elements];
        size_t skipped = (size_t)(at % block_elements);
        size_t rest = part.total - part.first;
        PS_ASSERT(skipped * element_size < block.size);
        /* Only the first block of a range may begin in its middle. */
        part.elements = block.data + skipped * element_size;
        part.count = block.size / element_size - skipped;
        part.count = part.count < rest ? part.count : rest;
        PS_ASSERT(part.count > 0);
        struct ps_error reason;
        /* The request is in order; it is the values that cannot be said so. */
        if (ps_encode_part(encoding, spec->dtype, &part, content, &reason) != PS_OK)
            return fail_in(spec, range, &reason, error);
        part.first += part.count;
    }
    return PS_OK;
}

/* By whichever thread the network is done in. */
void ps_encoded_values_release(struct ps_encoded_values *encoded)
{
    if (encoded == NULL)
        return;
    /* Read before the spec may go. */
    const struct ps_allocator *memory = encoded->spec->memory;
    ps_parameter_spec_release(encoded->spec);
    ps_release(memory, encoded);
}
