/* SPDX-License-Identifier: Apache-2.0 */
/* Reading borrowed bytes that lie in one or in many pieces.
 *
 * A message arrives as slices of gRPC's, and its content is used where it lies. A view describes
 * such content without copying, a cursor walks it. Pieces may be empty, may be of any size and need
 * not begin at any boundary; whoever needs whole elements reads through ps_view_read, which joins
 * what a border of two pieces has cut. */
#include "base/bytes.h"

#include "base/assert.h"

#include <string.h>

/* NULL is an absent text and becomes empty bytes, which every reader of ps_bytes accepts. */
struct ps_bytes ps_bytes_of_text(const char *text)
{
    if (text == NULL)
        return (struct ps_bytes){NULL, 0};
    return (struct ps_bytes){(const uint8_t *)text, strlen(text)};
}

bool ps_bytes_equal(struct ps_bytes a, struct ps_bytes b)
{
    return ps_bytes_compare(a, b) == 0;
}

int ps_bytes_compare(struct ps_bytes a, struct ps_bytes b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    /* memcmp with NULL is undefined even for 0 bytes, and an empty ps_bytes has NULL for its
     * data. */
    int order = shared > 0 ? memcmp(a.data, b.data, shared) : 0;
    if (order != 0 || a.size == b.size)
        return order;
    return a.size < b.size ? -1 : 1;
}

struct ps_view ps_view_of(const struct ps_bytes *piece)
{
    PS_ASSERT(piece != NULL);
    return (struct ps_view){.pieces = piece, .piece_count = 1, .size = piece->size};
}

void ps_view_copy(struct ps_view view, size_t offset, void *destination, size_t size)
{
    /* Callers have checked the range against the sizes that the message states; a range outside of
     * the view is a bug of ours. Two asserts, since the sum of both numbers could wrap. */
    PS_ASSERT(offset <= view.size);
    PS_ASSERT(size <= view.size - offset);
    uint8_t *to = destination;
    for (size_t i = 0; i < view.piece_count && size > 0; i++) {
        struct ps_bytes piece = view.pieces[i];
        if (offset >= piece.size) {
            offset -= piece.size;
            continue;
        }
        size_t run = piece.size - offset < size ? piece.size - offset : size;
        memcpy(to, piece.data + offset, run);
        to += run;
        size -= run;
        offset = 0;
    }
    /* A view's size is the sum of its pieces. A smaller sum would leave the tail of the destination
     * unwritten, which in a gradient is silent damage. */
    PS_ASSERT(size == 0);
}

/* Empty pieces are stepped over, so a size of 0 means the end and nothing else. A run never crosses
 * a border: the caller gets fewer bytes than it asked for and asks again. */
struct ps_bytes ps_view_next(struct ps_view_cursor *cursor, size_t size_max)
{
    PS_ASSERT(cursor != NULL);
    while (cursor->piece < cursor->view.piece_count) {
        struct ps_bytes piece = cursor->view.pieces[cursor->piece];
        size_t left = piece.size - cursor->offset;
        if (left == 0) {
            cursor->piece++;
            cursor->offset = 0;
            continue;
        }
        /* An exhausted piece stays current until the next call, so the cursor needs no look
         * ahead. */
        size_t run = left < size_max ? left : size_max;
        struct ps_bytes next = {piece.data + cursor->offset, run};
        cursor->offset += run;
        return next;
    }
    return (struct ps_bytes){NULL, 0};
}

void ps_view_skip(struct ps_view_cursor *cursor, size_t size)
{
    while (size > 0) {
        struct ps_bytes bytes = ps_view_next(cursor, size);
        PS_ASSERT(bytes.size > 0);
        size -= bytes.size;
    }
}

/* Skipping and reading beyond the end are bugs of ours and not of the input: the wire decoder
 * states the size of a view, and its users divide that size before they walk. */
void ps_view_read(struct ps_view_cursor *cursor, void *destination, size_t size)
{
    uint8_t *to = destination;
    while (size > 0) {
        struct ps_bytes bytes = ps_view_next(cursor, size);
        PS_ASSERT(bytes.size > 0);
        memcpy(to, bytes.data, bytes.size);
        to += bytes.size;
        size -= bytes.size;
    }
}
