/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as any message, cut into pieces: refused, or read so that what is encoded again reads
 * the same. The first byte picks the message, the second the size of the pieces. */
#include "fuzz_target.h"

#include "base/bounds.h"
#include "proto/change_codec.h"
#include "proto/codec.h"
#include "proto/fields.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 512 };

static void expect(bool condition)
{
    if (!condition)
        abort();
}

/* A view of `bytes` in pieces of `size` bytes (0: one piece). */
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

static void check_name(struct ps_bytes name)
{
    expect(name.size <= PS_NAME_BYTES_MAX);
    expect(name.size == 0 || memchr(name.data, 0, name.size) == NULL);
}

static bool same_content(struct ps_view a, struct ps_view b)
{
    if (a.size != b.size)
        return false;
    uint8_t *copies = malloc(2 * a.size + 1);
    expect(copies != NULL);
    ps_view_copy(a, 0, copies, a.size);
    ps_view_copy(b, 0, copies + a.size, b.size);
    bool same = memcmp(copies, copies + a.size, a.size) == 0;
    free(copies);
    return same;
}

/* Head and content as one run, in the buffer. */
static struct ps_bytes join(struct ps_buffer *head, struct ps_view content)
{
    for (size_t i = 0; i < content.piece_count; i++)
        ps_buffer_append(head, content.pieces[i]);
    expect(!head->failed);
    return (struct ps_bytes){(const uint8_t *)head->text, head->size};
}

static void fuzz_init(struct ps_view view, struct ps_buffer *head)
{
    struct ps_init_request first;
    struct ps_init_request second;
    struct ps_decoded decoded;
    struct ps_decoded again;
    if (ps_decode_init(view, ps_allocator_heap(), &first, &decoded, NULL) != PS_OK)
        return;
    check_name(first.name);
    ps_encode_init(&first, head);
    struct ps_bytes bytes = join(head, first.content);
    expect(ps_decode_init(ps_view_of(&bytes), ps_allocator_heap(), &second, &again, NULL) == PS_OK);
    expect(ps_bytes_equal(first.name, second.name) && first.dtype == second.dtype);
    expect(ps_bytes_equal(first.config, second.config));
    expect(ps_shape_equal(&first.shape, &second.shape));
    expect(ps_bytes_equal(first.request.client_id, second.request.client_id));
    expect(same_content(first.content, second.content));
    ps_decoded_release(&again);
    ps_decoded_release(&decoded);
}

static void fuzz_push(struct ps_view view, struct ps_buffer *head)
{
    struct ps_push_request first;
    struct ps_push_request second;
    struct ps_decoded decoded;
    struct ps_decoded again;
    if (ps_decode_push(view, ps_allocator_heap(), &first, &decoded, NULL) != PS_OK)
        return;
    check_name(first.name);
    ps_encode_push(&first, head);
    struct ps_bytes bytes = join(head, first.content);
    expect(ps_decode_push(ps_view_of(&bytes), ps_allocator_heap(), &second, &again, NULL) == PS_OK);
    expect(ps_bytes_equal(first.name, second.name) && first.ack == second.ack);
    expect(first.request.present == second.request.present);
    expect(first.request.sequence == second.request.sequence);
    expect(first.encoding == second.encoding && first.row_width == second.row_width);
    expect(same_content(first.content, second.content));
    ps_decoded_release(&again);
    ps_decoded_release(&decoded);
}

static void same_delta(const struct ps_delta *a, const struct ps_delta *b)
{
    expect(a->present == b->present && a->whole == b->whole);
    expect(ps_bytes_equal(a->runs, b->runs) && a->digest == b->digest && a->next == b->next);
    expect(a->block_bytes == b->block_bytes);
}

static void fuzz_pull_reply(struct ps_view view, struct ps_buffer *head)
{
    struct ps_pull_reply first;
    struct ps_pull_reply second;
    struct ps_decoded decoded;
    struct ps_decoded again;
    if (ps_decode_pull_reply(view, ps_allocator_heap(), &first, &decoded, NULL) != PS_OK)
        return;
    check_name(first.name);
    expect(first.content.size <= view.size);
    ps_encode_pull_reply(&first, head);
    struct ps_bytes bytes = join(head, first.content);
    struct ps_view whole = ps_view_of(&bytes);
    expect(ps_decode_pull_reply(whole, ps_allocator_heap(), &second, &again, NULL) == PS_OK);
    same_delta(&first.delta, &second.delta);
    ps_decoded_release(&again);
    ps_decoded_release(&decoded);
}

static void fuzz_pull(struct ps_view view, struct ps_buffer *head)
{
    struct ps_pull_request first;
    struct ps_pull_request second;
    struct ps_decoded decoded;
    struct ps_decoded again;
    if (ps_decode_pull(view, ps_allocator_heap(), &first, &decoded, NULL) != PS_OK)
        return;
    check_name(first.name);
    ps_encode_pull(&first, head);
    struct ps_bytes bytes = join(head, (struct ps_view){0});
    expect(ps_decode_pull(ps_view_of(&bytes), ps_allocator_heap(), &second, &again, NULL) == PS_OK);
    expect(first.held.present == second.held.present);
    expect(first.held.version == second.held.version && first.held.target == second.held.target);
    expect(first.held.block == second.held.block);
    ps_decoded_release(&again);
    ps_decoded_release(&decoded);
}

static void fuzz_list_reply(struct ps_view view, struct ps_buffer *head)
{
    struct ps_list_reply reply;
    struct ps_decoded decoded;
    if (ps_decode_list_reply(view, ps_allocator_heap(), &reply, &decoded, NULL) != PS_OK)
        return;
    for (size_t i = 0; i < reply.param_count; i++)
        check_name(reply.params[i].name);
    ps_encode_list_reply(&reply, head);
    ps_decoded_release(&decoded);
}

static void fuzz_status_reply(struct ps_view view, struct ps_buffer *head)
{
    struct ps_status_reply reply;
    struct ps_decoded decoded;
    if (ps_decode_status_reply(view, ps_allocator_heap(), &reply, &decoded, NULL) != PS_OK)
        return;
    ps_encode_status_reply(&reply, head);
    ps_decoded_release(&decoded);
}

static void fuzz_small(struct ps_view view, struct ps_buffer *head)
{
    struct ps_change_request change;
    struct ps_change_reply changed;
    struct ps_pull_request pull;
    struct ps_finish_request finish;
    struct ps_list_request list;
    struct ps_save_reply save;
    struct ps_push_reply push;
    struct ps_init_reply init;
    struct ps_fields fields;
    struct ps_decoded decoded;
    (void)head;
    (void)!ps_fields_read(view, &fields, NULL);
    if (ps_decode_pull(view, ps_allocator_heap(), &pull, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    if (ps_decode_finish(view, ps_allocator_heap(), &finish, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    if (ps_decode_list(view, ps_allocator_heap(), &list, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    if (ps_decode_save_reply(view, ps_allocator_heap(), &save, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    if (ps_decode_change(view, ps_allocator_heap(), &change, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    if (ps_decode_change_reply(view, ps_allocator_heap(), &changed, &decoded, NULL) == PS_OK)
        ps_decoded_release(&decoded);
    (void)!ps_decode_push_reply(view, ps_allocator_heap(), &push, NULL);
    (void)!ps_decode_init_reply(view, ps_allocator_heap(), &init, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct ps_view view, struct ps_buffer * head) = {
        fuzz_init,         fuzz_push,  fuzz_pull_reply, fuzz_list_reply,
        fuzz_status_reply, fuzz_small, fuzz_pull,
    };
    struct ps_bytes pieces[PIECES_MAX];
    if (size < 2)
        return 0;
    struct ps_buffer head;
    ps_buffer_init(&head, ps_allocator_heap(), (size_t)1 << 26);
    struct ps_view view = cut((struct ps_bytes){data + 2, size - 2}, data[1] % 16, pieces);
    targets[data[0] % PS_ARRAY_COUNT(targets)](view, &head);
    ps_buffer_fini(&head);
    return 0;
}
