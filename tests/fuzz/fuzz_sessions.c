/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the sessions of a checkpoint: refused, or a state that gives the same bytes. */
#include "fuzz_target.h"

#include "server/core/sessions/sessions.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

#define POSITION 1000000

static void expect_same_bytes(struct ps_sessions *sessions, const struct ps_allocator *memory,
                              struct ps_bytes bytes)
{
    uint8_t *again = NULL;
    size_t size = 0;
    if (ps_sessions_encode(sessions, memory, &again, &size, NULL) != PS_OK)
        abort();
    /* A table with named clients is written in another format than one that was read of before. */
    bool is_present_format = bytes.size > 4 && bytes.data[4] == again[4];
    if (is_present_format && (size != bytes.size || memcmp(again, bytes.data, size) != 0))
        abort();
    ps_release(memory, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_bytes bytes = {data, size};
    struct ps_sessions sessions;
    ps_sessions_init(&sessions, &memory, 100, 1000);
    enum ps_status status = ps_sessions_decode(&sessions, bytes, POSITION, 0, NULL);
    ps_sessions_check(&sessions);
    if (status == PS_OK)
        expect_same_bytes(&sessions, &memory, bytes);
    else if (ps_sessions_count(&sessions) != 0)
        abort();
    ps_sessions_fini(&sessions);
    if (heap.live != 0)
        abort();
    return 0;
}
