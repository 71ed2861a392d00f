/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts the content of a push or of an initialisation, in whatever encoding, into ranges, and finds
 * the bytes of each where they lie: what they are is in docs/encodings.md.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   none: the content was made here.
 * Memory:   in place; pieces borrow from the content.
 */
#ifndef PS_CLIENT_RANGE_CUT_H
#define PS_CLIENT_RANGE_CUT_H

#include "base/encoding.h"
#include "client/calls/call.h"

#include <stdbool.h>

/* A range's content: its scales and its quanta, its indices and its values, or all in one. */
#define PS_RANGE_PIECES_MAX 2

struct ps_range_cut {
    enum ps_encoding encoding; /* of the content */
    enum ps_dtype dtype;       /* of the elements */
    struct ps_bytes content;
    uint64_t total; /* elements; 0: there is no content */
    uint64_t part;  /* elements of each range but the last; TOP_K: pairs */
    uint64_t next;  /* element that the next range begins with */
    size_t pairs;   /* TOP_K: those in the ranges before */
};

/* Elements (TOP_K: pairs) of a part that takes about `bytes` bytes in that encoding: whole groups
 * of int8, and at least one of what is cut. */
uint64_t ps_range_cut_part(enum ps_encoding encoding, enum ps_dtype dtype, size_t bytes);

/* Parts of about `part` elements, if that is less. Before the first range. */
void ps_range_cut_narrow(struct ps_range_cut *cut, uint64_t part);

/* Back to the first range. */
void ps_range_cut_rewind(struct ps_range_cut *cut);

/* Returns the next range, of which there is one while next < total, and its content. */
struct ps_elements ps_range_cut_next(struct ps_range_cut *cut,
                                     struct ps_bytes pieces[PS_RANGE_PIECES_MAX],
                                     struct ps_view *content);

#endif
