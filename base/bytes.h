/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed bytes: a contiguous run, and a view over many runs (what a network message is).
 *
 * Threads:  plain values; as safe as the memory they point to.
 * Blocking: never.
 * Errors:   none.
 * Memory:   borrowed always; nothing here allocates or frees.
 */
#ifndef PS_BASE_BYTES_H
#define PS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A contiguous run of bytes. `data` may be NULL only when `size` is 0. Not NUL-terminated. */
struct ps_bytes {
    const uint8_t *data;
    size_t size;
};

/* The same bytes as one sequence, in several pieces. Pieces may have any length and alignment
 * (gRPC cuts messages at arbitrary places); empty pieces are allowed. */
struct ps_view {
    const struct ps_bytes *pieces;
    size_t piece_count;
    size_t size; /* sum of all piece sizes */
};

/* How to keep the bytes of a view beyond the call that lent it, without copying them. `keep` takes
 * a reference on the memory behind the view and returns a handle (NULL when it cannot); `drop`
 * gives it back, from any thread. A zeroed struct means: copy what you need. The pieces array
 * itself is not kept: copy that.
 *
 * What is kept may be more than the view: the whole message that it lies in. `bytes` is the size of
 * all that (0: of no more than the view). Several holders may keep it; the first that calls `count`
 * with its handle is told those bytes, to count them where it counts memory, and the others 0.
 * Whoever was told calls count_back before it drops. Both may be NULL. */
struct ps_hold {
    void *(*keep)(void *self);
    void (*drop)(void *kept);
    void *self;
    uint64_t bytes;
    uint64_t (*count)(void *kept);
    void (*count_back)(void *kept);
};

/* The bytes of a C string without its NUL. NULL gives an empty run. */
struct ps_bytes ps_bytes_of_text(const char *text);

bool ps_bytes_equal(struct ps_bytes a, struct ps_bytes b);

/* Orders as memcmp does, the shorter first among equals: <0, 0, >0. */
int ps_bytes_compare(struct ps_bytes a, struct ps_bytes b);

/* A view of one piece. `piece` is borrowed for as long as the view is used. */
struct ps_view ps_view_of(const struct ps_bytes *piece);

/* Copies `size` bytes from `offset` on into `destination`. The range must lie within the view. */
void ps_view_copy(struct ps_view view, size_t offset, void *destination, size_t size);

/* A position in a view, for readers that go through it once. Zero-initialised but for `view`. */
struct ps_view_cursor {
    struct ps_view view;
    size_t piece;  /* index of the current piece */
    size_t offset; /* bytes of that piece already consumed */
};

/* The next contiguous run of at most `size_max` bytes, which is then consumed. Empty at the end. */
struct ps_bytes ps_view_next(struct ps_view_cursor *cursor, size_t size_max);

/* Passes over `size` bytes, or copies them to `destination`. So many must be left. */
void ps_view_skip(struct ps_view_cursor *cursor, size_t size);
void ps_view_read(struct ps_view_cursor *cursor, void *destination, size_t size);

#endif
