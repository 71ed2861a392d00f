/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a bundle or as its reply, cut into pieces: refused, or read so that what is encoded
 * again reads the same. The first byte picks which, the second the size of the pieces. */
#include "fuzz_target.h"

#include "proto/bundle_codec.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 512 };

static void expect(bool condition)
{
    if (!condition)
        abort();
}

static struct ps_view cut(struct ps_bytes bytes, size_t size, struct ps_bytes pieces[PIECES_MAX])
{
    size_t count = 0;
    for (size_t at = 0; at < bytes.size;) {
        size_t left = bytes.size - at;
        size_t run = size == 0 || size > left || count == PIECES_MAX - 1 ? left : size;
        pieces[count++] = (struct ps_bytes){bytes.data + at, run};
        at += run;
    }
    return (struct ps_view){pieces, count, bytes.size};
}

static void append_view(struct ps_buffer *wire, struct ps_view content)
{
    for (size_t i = 0; i < content.piece_count; i++)
        ps_buffer_append(wire, content.pieces[i]);
}

static void same_push(const struct ps_push_request *a, const struct ps_push_request *b)
{
    expect(ps_bytes_equal(a->name, b->name) && a->dtype == b->dtype && a->ack == b->ack);
    expect(a->encoding == b->encoding && a->row_width == b->row_width);
    expect(a->content.size == b->content.size && a->range.first == b->range.first);
    expect(a->request.present == b->request.present);
}

/* Without an id of its own: what the pushes' ids were is theirs. */
static void fuzz_request(struct ps_view view, struct ps_buffer *wire)
{
    const struct ps_request_id nobody = {0};
    struct ps_bundle_request first;
    struct ps_bundle_request second;
    struct ps_decoded decoded;
    struct ps_decoded again;
    if (ps_decode_bundle(view, ps_allocator_heap(), &first, &decoded, NULL) != PS_OK)
        return;
    expect(first.push_count + first.pull_count <= PS_BUNDLE_ITEMS_MAX);
    for (size_t i = 0; i < first.push_count; i++) {
        first.pushes[i].request = nobody;
        ps_encode_bundle_push(&first.pushes[i], &nobody, i, wire);
        append_view(wire, first.pushes[i].content);
    }
    for (size_t i = 0; i < first.pull_count; i++)
        ps_encode_bundle_pull(&first.pulls[i], wire);
    expect(!wire->failed);
    struct ps_bytes bytes = {(const uint8_t *)wire->text, wire->size};
    struct ps_view joined = ps_view_of(&bytes);
    expect(ps_decode_bundle(joined, ps_allocator_heap(), &second, &again, NULL) == PS_OK);
    expect(first.push_count == second.push_count && first.pull_count == second.pull_count);
    for (size_t i = 0; i < first.push_count; i++)
        same_push(&first.pushes[i], &second.pushes[i]);
    for (size_t i = 0; i < first.pull_count; i++)
        expect(ps_bytes_equal(first.pulls[i].name, second.pulls[i].name));
    ps_decoded_release(&again);
    ps_decoded_release(&decoded);
}

static void fuzz_reply(struct ps_view view, struct ps_buffer *wire)
{
    struct ps_bundle_reply reply;
    struct ps_decoded decoded;
    if (ps_decode_bundle_reply(view, ps_allocator_heap(), &reply, &decoded, NULL) != PS_OK)
        return;
    for (size_t i = 0; i < reply.push_count; i++)
        if (reply.pushes[i].status.text.size < 256)
            ps_encode_push_result(&reply.pushes[i], wire);
    size_t content = 0;
    for (size_t i = 0; i < reply.pull_count; i++) {
        content += reply.pulls[i].reply.content.size;
        if (reply.pulls[i].status.text.size < 256)
            ps_encode_pull_result(&reply.pulls[i], wire);
    }
    expect(content <= view.size && !wire->failed);
    ps_decoded_release(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_bytes pieces[PIECES_MAX];
    if (size < 2)
        return 0;
    struct ps_buffer wire;
    ps_buffer_init(&wire, ps_allocator_heap(), (size_t)1 << 26);
    struct ps_view view = cut((struct ps_bytes){data + 2, size - 2}, data[1] % 16, pieces);
    if (data[0] % 2 == 0)
        fuzz_request(view, &wire);
    else
        fuzz_reply(view, &wire);
    ps_buffer_fini(&wire);
    return 0;
}
