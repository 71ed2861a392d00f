/* SPDX-License-Identifier: Apache-2.0 */
/* From the bytes of a push to one gradient for each key, in the order in which the table is walked.
 * All of it without a lock.
 *
 * What is done here depends on nothing but the message and the table's layout, so that it may be
 * done by any lane while another push is being applied. A push of ten thousand rows of 16 floats
 * takes 0.2 milliseconds of it, about a third of all its time.
 */
#include "server/core/tables/row_push.h"

#include "server/core/tables/row_push_parts.h"

#include "base/assert.h"
#include "optimizer/hash_order.h"

#include <inttypes.h>

/* Gradients that are asked for before they are copied, and how much of one; the processor goes on
 * by itself in longer ones. */
#define AHEAD 8
#define ASKED_BYTES_MAX 512
#define LINE_BYTES 64

/* What is needed while the push is read, beside what stays. */
struct reading {
    struct ps_row_push *push;
    uint64_t *keys; /* as they came */
    uint64_t *hashes;
    uint64_t *sorted; /* scratch of the sort */
    uint32_t *order;
    const uint8_t **gradients; /* as they came, where the message has them, of any alignment */
    uint8_t *joined;           /* owned; those that lie in two pieces of the message or more */
};

static bool open_reading(struct reading *reading, struct ps_row_push *push, struct ps_view content);
static void find_gradients(struct reading *reading, struct ps_view_cursor *cursor);
static enum ps_status order_keys(struct reading *reading, struct ps_error *error);
static void join_keys(struct reading *reading);
static void close_reading(struct reading *reading);

/* Whatever is wrong with the bytes is found here, before any lock: a client that sends nonsense
 * costs others nothing. */
enum ps_status ps_row_push_read(struct ps_row_table *table, struct ps_view content,
                                struct ps_row_push **out, struct ps_error *error)
{
    PS_ASSERT(table != NULL && out != NULL);
    /* The bound keeps three times the count within 32 bits, for the pipeline's sums. */
    size_t each = sizeof(uint64_t) + table->shape.arrays[0].size;
    size_t count = content.size / each;
    if (content.size % each != 0 || count > UINT32_MAX / 4)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%zu bytes are not a whole number of rows: a key and %u elements are %zu",
                       content.size, table->shape.layout.width, each);
    struct ps_row_push *push = ps_row_push_create(table, (uint32_t)count);
    struct reading reading = {0};
    if (push == NULL || !open_reading(&reading, push, content)) {
        ps_row_push_release(push);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read a push of %zu rows", count);
    }
    enum ps_status status = order_keys(&reading, error);
    if (status == PS_OK)
        join_keys(&reading);
    close_reading(&reading);
    if (status == PS_OK)
        *out = push;
    else
        ps_row_push_release(push);
    return status;
}

/* One allocation, the words with 8 bytes first. */
struct ps_row_push *ps_row_push_create(struct ps_row_table *table, uint32_t count)
{
    /* Seats are known in apply, which must not ask for memory. */
    size_t seat = table->bodies != NULL ? sizeof(uint64_t) : 0;
    size_t words = 2 * sizeof(uint64_t) + seat + sizeof(uint8_t *) + 2 * sizeof(uint32_t);
    struct ps_row_push *push =
        ps_plain(table->memory, sizeof *push + count * (words + table->shape.arrays[0].size));
    if (push == NULL)
        return NULL;
    /* The arrays are filled key by key; only the head must be zero. */
    memset(push, 0, sizeof *push);
    push->table = table;
    push->count = count;
    push->hashes = (uint64_t *)(void *)(push + 1);
    push->keys = push->hashes + count;
    push->seats = seat > 0 ? push->keys + count : NULL;
    push->rows = (uint8_t **)(void *)(push->keys + (seat > 0 ? 2 : 1) * (size_t)count);
    push->gradients = (uint8_t *)(push->rows + count);
    push->numbers = (uint32_t *)(void *)(push->gradients + count * table->shape.arrays[0].size);
    push->firsts = push->numbers + count;
    /* Gradients of 8 bytes an element are read as such. */
    PS_ASSERT((uintptr_t)push->gradients % sizeof(uint64_t) == 0);
    return push;
}

/* Gradients are read where the message has them, and only those that no piece has whole are copied:
 * a message of a mebibyte comes in some dozen pieces. Keys are always copied: they are read more
 * than once, out of order, and may lie at any address. */
static bool open_reading(struct reading *reading, struct ps_row_push *push, struct ps_view content)
{
    const struct ps_allocator *memory = push->table->memory;
    size_t count = push->count;
    reading->push = push;
    reading->keys =
        ps_plain(memory, count * (4 * sizeof(uint64_t) + sizeof(uint8_t *) + sizeof(uint32_t)));
    /* Each end of a piece is within one gradient at most. */
    size_t parted = content.piece_count < count ? content.piece_count : count;
    reading->joined = ps_plain(memory, parted * ps_row_push_row_bytes(push));
    if (reading->keys == NULL || reading->joined == NULL) {
        close_reading(reading);
        return false;
    }
    reading->hashes = reading->keys + count;
    reading->sorted = reading->hashes + count;
    reading->gradients = (const uint8_t **)(void *)(reading->sorted + 2 * count);
    reading->order = (uint32_t *)(void *)(reading->gradients + count);
    struct ps_view_cursor cursor = {.view = content};
    ps_view_read(&cursor, reading->keys, count * sizeof(uint64_t));
    find_gradients(reading, &cursor);
    return true;
}

/* Goes once over the pieces of the message. */
static void find_gradients(struct reading *reading, struct ps_view_cursor *cursor)
{
    size_t size = ps_row_push_row_bytes(reading->push);
    uint8_t *joined = reading->joined;
    size_t begun = 0; /* bytes of the gradient that a piece has ended in */
    for (uint32_t i = 0; i < reading->push->count;) {
        struct ps_bytes run = ps_view_next(cursor, begun > 0 ? size - begun : SIZE_MAX);
        PS_ASSERT(run.size > 0);
        if (begun == 0) {
            for (; run.size >= size; run.data += size, run.size -= size)
                reading->gradients[i++] = run.data;
        }
        memcpy(joined + begun, run.data, run.size);
        begun += run.size;
        if (begun < size)
            continue;
        reading->gradients[i++] = joined;
        joined += size;
        begun = 0;
    }
    PS_ASSERT(begun == 0);
}

/* What stays is the push's own. */
static void close_reading(struct reading *reading)
{
    PS_ASSERT(reading->push != NULL);
    ps_release(reading->push->table->memory, reading->keys);
    ps_release(reading->push->table->memory, reading->joined);
}

/* The first key that is another shard's ends it, and its text names that key. */
static enum ps_status order_keys(struct reading *reading, struct ps_error *error)
{
    PS_ASSERT(reading->hashes != NULL);
    const struct ps_row_table *table = reading->push->table;
    for (uint32_t i = 0; i < reading->push->count; i++) {
        PS_TRY(ps_row_table_check_key(table, reading->keys[i], error));
        reading->hashes[i] = ps_row_table_hash(table, reading->keys[i]);
    }
    ps_hash_order(reading->hashes, reading->push->count, reading->order, reading->sorted);
    return PS_OK;
}

/* The order of the hashes is as good as random, and a push of wide rows larger than the near
 * caches. */
static void ask_gradient(const uint8_t *gradient, size_t size)
{
    PS_ASSERT(gradient != NULL);
    for (size_t i = 0; i < size && i < ASKED_BYTES_MAX; i += LINE_BYTES)
        PS_PREFETCH(gradient + i);
}

/* Equal hashes are equal keys (base/row_hash.h), and they stand in the order of arrival. The joined
 * gradients lie in the order in which the table is walked, so that applying reads them from one end
 * to the other. */
static void join_keys(struct reading *reading)
{
    struct ps_row_push *push = reading->push;
    const struct ps_row_shape *shape = &push->table->shape;
    size_t size = shape->arrays[0].size;
    uint32_t stripe = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < push->count; i++) {
        uint32_t from = reading->order[i];
        uint64_t hash = reading->hashes[from];
        const uint8_t *gradient = reading->gradients[from];
        if (i + AHEAD < push->count)
            ask_gradient(reading->gradients[reading->order[i + AHEAD]], size);
        /* The first gradient of a key is copied, and each later one joined to it where it lies. */
        if (i > 0 && hash == last) {
            ps_row_repeat(push->table->repeats, shape->layout.dtype, shape->layout.width,
                          push->gradients + (push->unique - 1) * size, gradient);
            continue;
        }
        last = hash;
        /* Stripes without a key begin where the next one does. */
        while (stripe <= ps_row_stripe_of(hash))
            push->begins[stripe++] = push->unique;
        push->hashes[push->unique] = hash;
        push->keys[push->unique] = reading->keys[from];
        push->firsts[push->unique] = from;
        ps_row_copy(push->gradients + push->unique * size, gradient, size);
        push->unique++;
    }
    PS_ASSERT(push->unique <= push->count);
    while (stripe <= PS_ROW_STRIPES)
        push->begins[stripe++] = push->unique;
}

/* For metrics and for whoever counts what a push brings. */
size_t ps_row_push_keys(const struct ps_row_push *push)
{
    PS_ASSERT(push->unique <= push->count);
    return push->count;
}

size_t ps_row_push_rows(const struct ps_row_push *push)
{
    PS_ASSERT(push->table != NULL);
    return push->unique;
}

size_t ps_row_push_made(const struct ps_row_push *push)
{
    PS_ASSERT(push->prepared);
    return push->made;
}

size_t ps_row_push_evicted(const struct ps_row_push *push)
{
    PS_ASSERT(push->prepared);
    return push->victim_count;
}

/* The joined gradients, since they are what the rule sees: two finite ones may have a sum that is
 * not, and a norm is that of the step that is made. */
void ps_row_push_scan(const struct ps_row_push *push, const struct ps_optimizer_settings *settings,
                      struct ps_gradient_scan *scan)
{
    const struct ps_row_layout *layout = &push->table->shape.layout;
    PS_ASSERT(scan->count == 0);
    ps_optimizer_scan(settings, layout->dtype, push->gradients,
                      (size_t)push->unique * layout->width, scan);
    /* Who pushed knows the elements by the order in which they were pushed. */
    if (scan->nonfinite)
        scan->nonfinite_index =
            push->firsts[scan->nonfinite_index / layout->width] * (uint64_t)layout->width +
            scan->nonfinite_index % layout->width;
}

/* A search, since nobody but who is refused waits for it. */
enum ps_status ps_row_push_fail_nonfinite(const struct ps_row_push *push,
                                          const struct ps_gradient_scan *scan,
                                          struct ps_error *error)
{
    uint64_t width = push->table->shape.layout.width;
    uint32_t at = 0;
    PS_ASSERT(scan->nonfinite && push->unique > 0);
    while (at + 1 < push->unique && push->firsts[at] != scan->nonfinite_index / width)
        at++;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "element %" PRIu64 " of the gradient of key %" PRIu64 " is not finite",
                   scan->nonfinite_index % width, push->keys[at]);
}

/* Rows that were to be made and were not have left nothing but empty room. */
void ps_row_push_release(struct ps_row_push *push)
{
    if (push == NULL)
        return;
    const struct ps_allocator *memory = push->table->memory;
    ps_row_push_release(push->counted);
    ps_release(memory, push->victims);
    ps_release(memory, push);
}
