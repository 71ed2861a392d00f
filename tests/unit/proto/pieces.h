/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts bytes into pieces: of random sizes, each in memory of its own, so that a sanitizer sees
 * every step beyond a piece; or of one size, where they lie.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   aborts when there is no memory.
 * Memory:   the pieces live until pieces_release.
 */
#ifndef PS_TESTS_UNIT_PROTO_PIECES_H
#define PS_TESTS_UNIT_PROTO_PIECES_H

#include "base/bytes.h"
#include "base/random.h"

struct pieces {
    struct ps_bytes *list;
    struct ps_view view;
};

/* Pieces of 0 to `size_max` bytes; 0: all bytes in one piece. */
void pieces_cut(struct pieces *pieces, struct ps_bytes bytes, size_t size_max,
                struct ps_random *random);
void pieces_release(struct pieces *pieces);

/* The bytes where they lie, in pieces of `each`; `list` has room for all and outlives the view. */
struct ps_view pieces_of(struct ps_bytes bytes, size_t each, struct ps_bytes *list);

/* True when the view has exactly these bytes. */
bool pieces_equal(struct ps_view view, struct ps_bytes bytes);

#endif
