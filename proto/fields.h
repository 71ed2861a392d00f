/* SPDX-License-Identifier: Apache-2.0 */
/* Flat messages of operators' calls, without a codec of their own: numbers and short texts by the
 * numbers that their fields have in admin.proto. They are written with ps_wire_put_uint and
 * ps_wire_put_text.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for bytes that are no message, and for a text that is too long or not
 *           UTF-8. Fields beyond PS_FIELDS_MAX are unknown ones: passed over.
 * Memory:   the struct owns nothing; texts are copied into it.
 */
#ifndef PS_PROTO_FIELDS_H
#define PS_PROTO_FIELDS_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdint.h>

/* Field numbers below this one. */
#define PS_FIELDS_MAX 12
#define PS_FIELD_TEXT_BYTES_MAX 256

/* Field `n` of the message is number[n] and text[n]; 0 and "" where it is absent. */
struct ps_fields {
    uint64_t number[PS_FIELDS_MAX];
    char text[PS_FIELDS_MAX][PS_FIELD_TEXT_BYTES_MAX];
};

PS_MUST_USE enum ps_status ps_fields_read(struct ps_view message, struct ps_fields *fields,
                                          struct ps_error *error);

#endif
