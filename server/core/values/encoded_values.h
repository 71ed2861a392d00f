/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of one version of a parameter, encoded for a reply, or rows of a table that were
 * gathered for one: the pulls that copy.
 * What it was made from is let go of at once, so that pushes go on in place.
 *
 * Threads:  made by one thread, released by any.
 * Blocking: never.
 * Errors:   said at the function.
 * Memory:   one allocation of the encoded size; it goes with the reply.
 */
#ifndef PS_SERVER_CORE_ENCODED_VALUES_H
#define PS_SERVER_CORE_ENCODED_VALUES_H

#include "base/encoding.h"
#include "base/status.h"
#include "proto/messages.h"
#include "server/core/values/blocks.h"

struct ps_encoded_values {
    struct ps_parameter_spec *spec; /* a reference of its own: keeps the name alive */
    struct ps_bytes piece;
    uint8_t content[];
};

/* Returns the elements of `range`, which the values have, in that encoding; end it with
 * ps_encoded_values_release. `values` is borrowed; only that range of it is read.
 *
 * PS_ERR_BAD_INPUT     TOP_K, which is for gradients; an encoding that the type does not allow; a
 *                      range that cannot be encoded by itself (ps_encoding_check_range)
 * PS_ERR_OUT_OF_RANGE  INT8, and an element is not finite or too large
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_encoded_values_create(const struct ps_blocks *values,
                                                    struct ps_elements range,
                                                    enum ps_encoding encoding,
                                                    struct ps_encoded_values **encoded,
                                                    struct ps_error *error);

/* Returns room for `size` bytes of a reply, undefined until the caller has filled `content`. NULL
 * when memory is refused. A reference to `spec` is taken. */
struct ps_encoded_values *ps_encoded_values_blank(struct ps_parameter_spec *spec, size_t size);

/* NULL is allowed. */
void ps_encoded_values_release(struct ps_encoded_values *encoded);

#endif
