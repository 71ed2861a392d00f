/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in every encoding, for tests: what was encoded, what it decodes to, and the same bytes
 * cut into pieces anywhere.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   asserted.
 * Memory:   in place; a cut view borrows from what it cuts.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_ENCODED_H
#define PS_TESTS_UNIT_CORE_CORE_ENCODED_H

#include "optimizer/encoded.h"
#include "server/core/update/gradient_runs.h"
#include "tests/unit/core/core_world.h"

#define ENCODED_MAX 1200000
#define ENCODED_PIECES 64

struct encoded {
    enum ps_encoding encoding;
    enum ps_dtype dtype;
    size_t count;
    size_t bytes;
    uint8_t content[ENCODED_MAX * 8];
    double decoded[ENCODED_MAX]; /* of the type `dtype` */
    struct ps_bytes piece;
    struct ps_bytes pieces[ENCODED_PIECES];
};

/* An encoding without content. */
void encoded_clear(struct encoded *encoded, enum ps_encoding encoding, enum ps_dtype dtype,
                   size_t count);

/* Random elements of ordinary size in that encoding; TOP_K keeps `kept` of them. */
void encoded_make(struct encoded *encoded, enum ps_encoding encoding, enum ps_dtype dtype,
                  size_t count, size_t kept, uint64_t seed);

/* As one piece, as the native gradient that it stands for, and cut at random. */
struct ps_gradient encoded_whole(struct encoded *encoded);
struct ps_gradient encoded_native(struct encoded *encoded);
struct ps_gradient encoded_cut(struct encoded *encoded, uint64_t seed);

/* The content of one range, as docs/encodings.md says: in two pieces, of which either may be empty.
 * INT8: between groups. */
struct ps_view encoded_range(const struct encoded *encoded, uint64_t first, uint64_t count,
                             struct ps_bytes pieces[2]);

#endif
