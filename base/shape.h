/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a parameter: how many dimensions it has, and how long each is. Servers compute with
 * rows of elements and know nothing of it; it goes from InitParam to the checkpoint and to whoever
 * lists parameters, so that a framework gets its tensors back as they were.
 *
 * A shape that is not given (all zero) stands for one dimension of as many elements as there are.
 * One that says just that is brought to this form by ps_shape_settle: there is one form of each.
 *
 * Of a parameter that a client has cut ("w#1/3") every range has the shape of the whole.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with the reason.
 * Memory:   in place.
 */
#ifndef PS_BASE_SHAPE_H
#define PS_BASE_SHAPE_H

#include "base/attributes.h"
#include "base/bounds.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_json_writer;

struct ps_shape {
    bool is_given;
    uint32_t rank; /* how many lengths; of one that is given 0: a scalar, of one element */
    uint64_t lengths[PS_SHAPE_RANK_MAX]; /* the outermost first; behind `rank`: 0 */
};

/* Room for ps_shape_text. */
#define PS_SHAPE_TEXT_BYTES (PS_SHAPE_RANK_MAX * 21 + 2)

/* Makes `*shape` of `rank` lengths. PS_ERR_BAD_INPUT for more than PS_SHAPE_RANK_MAX. */
PS_MUST_USE enum ps_status ps_shape_make(struct ps_shape *shape, const uint64_t *lengths,
                                         size_t rank, struct ps_error *error);

/* The product of the lengths of a shape that is given. False when 64 bits do not hold it. */
bool ps_shape_product(const struct ps_shape *shape, uint64_t *product);

/* Is it given, and that of exactly `count` elements? Not so of a range of a cut parameter. */
bool ps_shape_is_of(const struct ps_shape *shape, uint64_t count);

/* Can a parameter of this name and so many elements have it? One that is not given, always. The
 * product must be the count; that of a range must be more. */
PS_MUST_USE enum ps_status ps_shape_check(const struct ps_shape *shape, struct ps_bytes name,
                                          uint64_t count, struct ps_error *error);

/* Makes one dimension of `count` elements a shape that is not given. */
void ps_shape_settle(struct ps_shape *shape, uint64_t count);

bool ps_shape_equal(const struct ps_shape *one, const struct ps_shape *other);

/* Writes the lengths as an array under `key`; of a shape that is not given `count` alone. */
void ps_shape_json(const struct ps_shape *shape, uint64_t count, struct ps_json_writer *json,
                   const char *key);

/* The shape as a tensor has it that holds `count` elements: `shape` if it is of so many, otherwise
 * one that is not given. */
struct ps_shape ps_shape_of_tensor(const struct ps_shape *shape, uint64_t count);

/* "[2,3]", "[]" of a scalar, "[count]" of one that is not given; returns `text`. */
const char *ps_shape_text(const struct ps_shape *shape, uint64_t count,
                          char text[PS_SHAPE_TEXT_BYTES]);

#endif
