/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of programs, between the public header and the wire. The server passes on types that it
 * does not know; what it relies on, and the other side's memory with it, is that the bytes of each
 * tensor are as many as it says. So that is checked where tensors come from the program, against
 * their shape: a tensor with strides, or of another type than it says, mostly fails here, with its
 * number, and not at the other side with somebody else's values.
 *
 * Nothing is converted and nothing is padded. A tensor of no elements has no bytes, and travels
 * as any other, since programs do have empty batches.
 */
#include "base/assert.h"
#include "client/serving_state.h"

#include <inttypes.h>
#include <string.h>

/* The product is bounded before each step, so that a shape of huge extents is a wrong shape and no
 * overflow. */
enum ps_status ps_serving_tensor_in(const struct psclient_tensor *tensor, uint64_t key,
                                    const char *what, size_t i, struct ps_program_tensor *out,
                                    struct ps_error *error)
{
    if (tensor->rank > PSCLIENT_TENSOR_RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s %zu: %" PRIu32 " dimensions, at most 8 go",
                       what, i, tensor->rank);
    if (tensor->size > 0 && tensor->content == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s %zu: %zu bytes without content", what, i,
                       tensor->size);
    uint64_t bytes = tensor->element_size;
    for (uint32_t k = 0; k < tensor->rank; k++) {
        if (tensor->shape[k] != 0 && bytes > UINT64_MAX / tensor->shape[k])
            return ps_fail(error, PS_ERR_BAD_INPUT, "%s %zu: its shape is too large", what, i);
        bytes *= tensor->shape[k];
    }
    if (tensor->element_size != 0 && bytes != tensor->size)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s %zu: its shape makes %" PRIu64 " bytes, and it has %zu", what, i, bytes,
                       tensor->size);
    *out = (struct ps_program_tensor){.key = key,
                                      .size = tensor->size,
                                      .facts = {.dtype = tensor->dtype,
                                                .element_size = tensor->element_size,
                                                .rank = tensor->rank}};
    /* Behind the look at the number of dimensions. */
    memcpy(out->facts.extents, tensor->shape, tensor->rank * sizeof tensor->shape[0]);
    return PS_OK;
}

/* Without content: that is somewhere else. */
struct psclient_tensor ps_serving_tensor_out(const struct ps_program_tensor *tensor)
{
    struct psclient_tensor out = {.dtype = tensor->facts.dtype,
                                  .element_size = tensor->facts.element_size,
                                  .rank = tensor->facts.rank,
                                  .size = (size_t)tensor->size};
    PS_ASSERT(out.rank <= PSCLIENT_TENSOR_RANK_MAX);
    memcpy(out.shape, tensor->facts.extents, out.rank * sizeof out.shape[0]);
    return out;
}

/* A message of many tensors is one of small ones in practice, whose copy costs less than a slice of
 * each would. */
enum ps_status ps_serving_gather(const struct ps_allocator *memory,
                                 const struct psclient_tensor *tensors, size_t count,
                                 struct ps_serving_pieces *pieces, struct ps_error *error)
{
    size_t size = 0, used = 0;
    *pieces = (struct ps_serving_pieces){0};
    for (size_t i = 0; i < count; i++)
        size += tensors[i].size;
    if (count > PS_CONTENT_PIECES_MAX) {
        pieces->copy = ps_plain(memory, size + 1);
        if (pieces->copy == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of tensors", size);
        for (size_t i = 0; i < count; i++) {
            if (tensors[i].size > 0)
                memcpy((uint8_t *)pieces->copy + used, tensors[i].content, tensors[i].size);
            used += tensors[i].size;
        }
        pieces->pieces[0] = (struct ps_bytes){pieces->copy, size};
        pieces->view = (struct ps_view){pieces->pieces, 1, size};
        return PS_OK;
    }
    for (size_t i = 0; i < count; i++)
        pieces->pieces[i] = (struct ps_bytes){tensors[i].content, tensors[i].size};
    pieces->view = (struct ps_view){pieces->pieces, count, size};
    return PS_OK;
}
