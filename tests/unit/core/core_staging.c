/* SPDX-License-Identifier: Apache-2.0 */
/* One staging on a heap that counts. */
#include "core_staging.h"

#include <stdlib.h>
#include <string.h>

float values[TOTAL];

struct fault_heap heap;
static struct ps_allocator memory;
struct ps_staging staging;

void staged_begin(uint64_t bytes_max)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    for (size_t i = 0; i < TOTAL; i++)
        values[i] = (float)i;
    ps_staging_init(&staging, &memory, bytes_max);
}

void staged_end(void)
{
    ps_staging_check(&staging);
    ps_staging_fini(&staging);
    ck_assert_int_eq(heap.live, 0);
}

static struct added add_with(const struct ps_request_id *id, const char *name, uint64_t total,
                             uint64_t first, uint64_t count, uint64_t now_ms)
{
    struct added added = {0};
    struct ps_bytes piece = {(const uint8_t *)(values + first % TOTAL), count * sizeof(float)};
    const struct ps_part part = {.method = PS_METHOD_PUSH,
                                 .id = id,
                                 .name = text(name),
                                 .dtype = PS_F32,
                                 .total = total,
                                 .range = {first, count},
                                 .content = ps_view_of(&piece)};
    added.status = ps_staging_add(&staging, &part, now_ms, &added.got, &added.error);
    ps_staging_check(&staging);
    return added;
}

struct added staged_add_as(const char *client, uint64_t sequence, const char *name, uint64_t total,
                           uint64_t first, uint64_t count, uint64_t now_ms)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = 1, .sequence = sequence};
    return add_with(&id, name, total, first, count, now_ms);
}

static struct ps_bytes share_of(void *self)
{
    return text(self);
}

struct added staged_add_from(const char *share, const char *client, uint64_t sequence,
                             uint64_t total, uint64_t now_ms)
{
    const struct ps_origin origin = {.share = share_of, .self = (void *)(uintptr_t)share};
    const struct ps_request_id id = {.present = true,
                                     .client_id = text(client),
                                     .session = 1,
                                     .sequence = sequence,
                                     .origin = &origin};
    return add_with(&id, "w", total, 0, PART, now_ms);
}

struct added staged_add_of(uint64_t session, uint64_t sequence, uint64_t first, uint64_t count,
                           uint64_t now_ms)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = session, .sequence = sequence};
    return add_with(&id, "w", TOTAL, first, count, now_ms);
}

struct added staged_add(uint64_t first, uint64_t count)
{
    return staged_add_as("a", 1, "w", TOTAL, first, count, 0);
}

void staged_expect_whole(const struct added *added)
{
    ck_assert_int_eq(added->status, PS_OK);
    ck_assert_ptr_nonnull(added->got.staged);
    ck_assert_uint_eq(added->got.content.size, sizeof values);
    float *copy = malloc(sizeof values);
    ck_assert_ptr_nonnull(copy);
    ps_view_copy(added->got.content, 0, copy, sizeof values);
    ck_assert(memcmp(copy, values, sizeof values) == 0);
    free(copy);
}
