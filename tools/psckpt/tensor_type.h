/* SPDX-License-Identifier: Apache-2.0 */
/* The element types of other programs' tensors, and what becomes of them: servers know six. What a
 * parameter cannot be becomes the type that holds every value of it.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the table is constant.
 */
#ifndef PS_TOOLS_TENSOR_TYPE_H
#define PS_TOOLS_TENSOR_TYPE_H

#include "base/dtype.h"

#include <stddef.h>

struct tensor_type {
    const char *label;   /* of safetensors */
    size_t size;         /* bytes of an element in the file */
    enum ps_dtype dtype; /* of the parameter */
    /* From elements as they lie in the file, of any alignment; NULL: they are the parameter's. */
    void (*widen)(const void *from, size_t count, void *to);
};

/* All of them, as a text for people: whoever adds a type to the table adds it here. */
#define TENSOR_TYPES "F64, F32, F16, BF16, I64, U64, I32, U32, I16, U16, I8, U8 or BOOL"

/* NULL: there is none of this label. */
const struct tensor_type *tensor_type_find(const char *label);

#endif
