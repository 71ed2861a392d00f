/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as frames of a connection, in both directions and cut anywhere: the sums of the
 * inspector are right after each piece, and no verdict is given twice. */
#include "fuzz_target.h"

#include "server/front/frame_inspector.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>

/* The first byte of a piece says how long it is, whose it is, and whether a second has passed. */
enum { LENGTH = 0x3f, OUT = 0x40, SECOND = 0x80 };

static enum ps_front_reason feed(struct ps_frame_inspector *inspector, const uint8_t *data,
                                 size_t size)
{
    enum ps_front_reason reason = PS_FRONT_FINE;
    uint64_t now_ms = 1;
    while (size > 0 && reason == PS_FRONT_FINE) {
        uint8_t head = *data++;
        size_t piece = (size_t)(head & LENGTH) + 1;
        size--;
        piece = piece < size ? piece : size;
        now_ms += head;
        if ((head & OUT) != 0)
            ps_frame_inspector_out(inspector, data, piece);
        else
            reason = ps_frame_inspector_in(inspector, data, piece, now_ms);
        if ((head & SECOND) != 0 && reason == PS_FRONT_FINE)
            reason = ps_frame_inspector_second(inspector);
        if (reason == PS_FRONT_FINE)
            ps_frame_inspector_check(inspector);
        data += piece;
        size -= piece;
    }
    return reason;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const struct ps_frame_limits limits = {
        .streams_max = 40, .unfinished_bytes_max = 1 << 20, .patience_s = 3};
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_frame_inspector inspector;
    ps_frame_inspector_init(&inspector, &limits, &memory);
    /* An odd size comes without a preface. */
    if (size % 2 == 0 &&
        ps_frame_inspector_in(&inspector, preface, sizeof preface - 1, 1) != PS_FRONT_FINE)
        abort();
    if (feed(&inspector, data, size) >= PS_FRONT_REASON_COUNT)
        abort();
    ps_frame_inspector_fini(&inspector);
    if (heap.live != 0)
        abort();
    return 0;
}
