/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of parameters as people and as JSON read them.
 *
 * Threads:  pure but for what they write to.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_PSCTL_VALUES_H
#define PS_TOOLS_PSCTL_VALUES_H

#include "base/dtype.h"
#include "base/json_writer.h"

#include <stdint.h>

/* Room for any element as text, its NUL included. */
#define PSCTL_VALUE_TEXT_BYTES 32

/* Element `i` of `content`, with as many digits as give the same bits back. */
void psctl_value_text(enum ps_dtype dtype, const void *content, uint64_t i,
                      char text[PSCTL_VALUE_TEXT_BYTES]);

/* The same as a value of an array; null of what JSON cannot say (NaN, infinities). */
void psctl_value_json(struct ps_json_writer *json, enum ps_dtype dtype, const void *content,
                      uint64_t i);

#endif
