/* SPDX-License-Identifier: Apache-2.0 */
/* Random cuts. */
#include "pieces.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

static struct ps_bytes copy_of(struct ps_bytes bytes)
{
    uint8_t *copy = malloc(bytes.size);
    PS_ASSERT(copy != NULL || bytes.size == 0);
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return (struct ps_bytes){copy, bytes.size};
}

void pieces_cut(struct pieces *pieces, struct ps_bytes bytes, size_t size_max,
                struct ps_random *random)
{
    size_t count = 0;
    pieces->list = calloc(2 * bytes.size + 1, sizeof *pieces->list);
    PS_ASSERT(pieces->list != NULL);
    for (size_t at = 0; at < bytes.size || count == 0;) {
        size_t size = bytes.size - at;
        if (size_max > 0)
            size = (size_t)ps_random_below(random, size_max + 1);
        if (count >= bytes.size && size == 0)
            size = 1;
        if (size > bytes.size - at)
            size = bytes.size - at;
        pieces->list[count++] = copy_of((struct ps_bytes){bytes.data + at, size});
        at += size;
    }
    pieces->view = (struct ps_view){pieces->list, count, bytes.size};
}

void pieces_release(struct pieces *pieces)
{
    for (size_t i = 0; i < pieces->view.piece_count; i++)
        free((void *)(uintptr_t)pieces->list[i].data);
    free(pieces->list);
}

struct ps_view pieces_of(struct ps_bytes bytes, size_t each, struct ps_bytes *list)
{
    struct ps_view view = {list, 0, bytes.size};
    for (size_t at = 0; at < bytes.size; at += each) {
        size_t left = bytes.size - at;
        list[view.piece_count++] = (struct ps_bytes){bytes.data + at, left < each ? left : each};
    }
    return view;
}

bool pieces_equal(struct ps_view view, struct ps_bytes bytes)
{
    if (view.size != bytes.size)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < view.piece_count; i++) {
        struct ps_bytes piece = view.pieces[i];
        if (piece.size > bytes.size - at || memcmp(piece.data, bytes.data + at, piece.size) != 0)
            return false;
        at += piece.size;
    }
    return at == bytes.size;
}
