/* SPDX-License-Identifier: Apache-2.0 */
/* One range of what is put together (staging.h), and its place among the others: a list by rising
 * range. Private to staging.c, but for the check.
 *
 * Threads:  the caller serialises.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   a part holds its content where it was received, when that can be held; else a copy.
 */
#ifndef PS_SERVER_CORE_STAGED_PART_H
#define PS_SERVER_CORE_STAGED_PART_H

#include "server/core/requests/staging.h"

struct ps_staged_part {
    struct ps_staged_part *next;
    struct ps_elements range;
    bool is_plain; /* every element is known to be finite */
    bool is_there; /* counted; false while it is being applied or looked at */
    void *kept;
    void (*drop)(void *kept);
    struct ps_view content;
    struct ps_bytes pieces[]; /* of the content; the bytes follow if they were copied */
};

/* Could this be a part of what it says? Scales and indices are yet to be looked at.
 *
 * PS_ERR_BAD_INPUT    no request id, a wrong range or length
 */
PS_MUST_USE enum ps_status ps_staged_part_check(const struct ps_part *part, struct ps_error *error);

/* Bytes of the whole that `part` belongs to: exactly, but for TOP_K, of which they are the most. */
uint64_t ps_staged_part_whole_bytes(const struct ps_part *part);

/* Returns a part that is in no list, or NULL when memory is refused; end it with
 * ps_staged_part_release. With `keeps` it has the content, which is held or copied. */
struct ps_staged_part *ps_staged_part_create(const struct ps_allocator *memory,
                                             const struct ps_part *from, bool keeps);

void ps_staged_part_release(const struct ps_allocator *memory, struct ps_staged_part *part);

/* Finds out where `part` goes in the list that begins at `*first`: `*place` becomes the link to
 * set, or NULL when a part of the same range is there already.
 *
 * PS_ERR_BAD_INPUT    it overlaps with another
 */
PS_MUST_USE enum ps_status ps_staged_part_place(struct ps_staged_part **first,
                                                const struct ps_part *part,
                                                struct ps_staged_part ***place,
                                                struct ps_error *error);

/* Returns the content of the whole, whose parts are in the list that begins at `first`: the pieces
 * of theirs, in the order of encoded.h; end them with ps_release. NULL when memory is refused. */
struct ps_bytes *ps_staged_part_join(const struct ps_allocator *memory,
                                     const struct ps_staged_part *first, enum ps_encoding encoding,
                                     struct ps_view *content);

#endif
