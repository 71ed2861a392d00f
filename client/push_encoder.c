/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding with error feedback: what was left out is added to the next gradient. Seide et al.
 * (2014) showed for gradients of one bit that training converges as without encoding if nothing is
 * lost, only delayed; top-k and int8 here rely on the same.
 *
 * A push takes the residual of its parameter with it: while it is under way the table has none, or
 * that of another push. When it is settled, either what it has left out (it went through) or what
 * it took (it did not) goes back, and is added to what others have put there meanwhile. So each
 * element of a gradient is either applied or kept, exactly once, in whatever order pushes end.
 *
 * Without feedback (the plain encodings of floats) nothing is kept and the lock is not touched. */
#include "client/push_encoder.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#include <string.h>

struct ps_residual {
    struct ps_bytes name; /* behind the struct */
    enum ps_dtype dtype;  /* of `left` */
    size_t size;
    void *left; /* owned; NULL: nothing, or a push has it */
};

/* Memory of one push until it is settled: behind it the ranges, then the encoded bytes. One
 * allocation, so that it is there as a whole or the push fails before anything was taken. */
struct push {
    struct ps_encoded_push public; /* first: what the item points to */
    struct ps_residual *residual;  /* borrowed; NULL: without feedback */
    enum ps_dtype dtype;
    size_t size; /* of each of these two */
    void *taken; /* owned: what had been left out before; may be NULL */
    void *left;  /* owned: what this push leaves out */
    struct ps_bytes ranges[];
};

/* Stands for a push that there was no memory for: one constant for all of them, which settle knows
 * and leaves alone. */
static const struct ps_encoded_push no_memory = {
    .error = {.status = PS_ERR_NO_MEMORY, .text = "no memory for an encoded gradient"}};

static struct push *create_push(struct ps_push_encoder *encoder, const struct ps_item *item,
                                const struct ps_placement *placement);
static void encode(struct ps_push_encoder *encoder, struct push *push, const struct ps_item *item,
                   const struct ps_placement *placement);
static enum ps_status take(struct ps_push_encoder *encoder, struct push *push,
                           const struct ps_item *item, struct ps_error *error);
static enum ps_status encode_range(enum ps_encoding encoding, enum ps_dtype dtype,
                                   const void *elements, size_t count, struct ps_bytes range,
                                   struct ps_error *error);
static void subtract_decoded(enum ps_encoding encoding, enum ps_dtype dtype, struct ps_bytes range,
                             size_t count, void *left);
static void add(enum ps_dtype dtype, const void *from, size_t count, void *to);
static void give_back(struct ps_push_encoder *encoder, struct push *push, bool went_through);
static void drop(struct ps_push_encoder *encoder, void *elements, size_t size);

void ps_push_encoder_init(struct ps_push_encoder *encoder, const struct ps_allocator *memory)
{
    *encoder = (struct ps_push_encoder){.memory = memory};
    ps_mutex_init(&encoder->lock, PS_RANK_CLIENT);
}

/* No push is under way any more: settling it would touch a residual that is gone. */
void ps_push_encoder_fini(struct ps_push_encoder *encoder)
{
    for (size_t i = 0; i < encoder->count; i++) {
        ps_release(encoder->memory, encoder->residuals[i]->left);
        ps_release(encoder->memory, encoder->residuals[i]);
    }
    ps_release(encoder->memory, encoder->residuals);
    ps_mutex_fini(&encoder->lock);
}

/* For the counters. Pushes that are under way count, because their memory does. */
uint64_t ps_push_encoder_bytes(struct ps_push_encoder *encoder)
{
    ps_mutex_lock(&encoder->lock);
    uint64_t bytes = encoder->bytes;
    ps_mutex_unlock(&encoder->lock);
    return bytes;
}

/* Gradients are encoded range by range, as they will be sent, since each range is decoded by
 * another server: scales and indices count within it. */
void ps_push_encoder_encode(struct ps_push_encoder *encoder, struct ps_item *item,
                            const struct ps_layout *layout)
{
    item->encoded = NULL;
    if ((unsigned)item->dtype >= PS_DTYPE_COUNT || !ps_dtype_is_float(item->dtype) ||
        ps_encoding_is_native(encoder->encoding, item->dtype))
        return;
    size_t element_size = ps_dtype_size(item->dtype);
    if (item->content == NULL || item->size == 0 || item->size % element_size != 0)
        return; /* wrong in itself: the engine says how */
    struct ps_placement placement = ps_placement_of(item->size, element_size, layout);
    struct push *push = create_push(encoder, item, &placement);
    /* The item carries its failure in `encoded`, where the engine looks before it makes calls. */
    if (push == NULL) {
        item->encoded = &no_memory;
        return;
    }
    item->encoded = &push->public;
    encode(encoder, push, item, &placement);
}

/* Nothing is encoded and nothing left out: only where each range lies is said. */
void ps_push_encoder_pass(struct ps_push_encoder *encoder, struct ps_item *item,
                          enum ps_encoding encoding, const uint8_t *content,
                          const struct ps_layout *layout)
{
    size_t element_size = ps_dtype_size(item->dtype);
    size_t width = ps_encoding_width(encoding, item->dtype);
    struct ps_placement placement = ps_placement_of(item->size, element_size, layout);
    size_t ranges_size = placement.range_count * sizeof(struct ps_bytes);
    struct push *push = ps_zeroed(encoder->memory, sizeof *push + ranges_size);
    item->encoded = &no_memory;
    if (push == NULL)
        return;
    push->public.encoding = encoding;
    push->public.ranges = push->ranges;
    /* The ranges are those of the parameter as float32: by elements, not by bytes. */
    for (uint32_t k = 0; k < placement.range_count; k++) {
        struct ps_range range = ps_placement_range(&placement, item->name, k);
        push->ranges[k] = (struct ps_bytes){content + range.offset / element_size * width,
                                            range.size / element_size * width};
    }
    item->encoded = &push->public;
}

/* Elements of a range that TOP_K keeps, or simply elements. Rounded up and at least one: a share of
 * a small parameter that was rounded to nothing would never be sent. */
static size_t count_sent(const struct ps_push_encoder *encoder, size_t count)
{
    if (encoder->encoding != PS_ENCODING_TOP_K)
        return count;
    /* The product may reach `count` by rounding: then every element is sent. */
    double wanted = encoder->share * (double)count;
    size_t kept = wanted < (double)count ? (size_t)wanted : count;
    kept += (double)kept < wanted && kept < count;
    return kept > 0 ? kept : 1;
}

/* The sizes are added up first and laid out second, by the same two functions, so that the sum is
 * exact. The memory is not zeroed but for the head: every encoded byte is written. */
static struct push *create_push(struct ps_push_encoder *encoder, const struct ps_item *item,
                                const struct ps_placement *placement)
{
    size_t ranges_size = placement->range_count * sizeof(struct ps_bytes);
    size_t size = 0;
    for (uint32_t k = 0; k < placement->range_count; k++) {
        struct ps_range range = ps_placement_range(placement, item->name, k);
        size_t count = count_sent(encoder, range.size / placement->element_size);
        size += (size_t)ps_encoding_bytes(encoder->encoding, item->dtype, count);
    }
    struct push *push = ps_plain(encoder->memory, sizeof *push + ranges_size + size);
    if (push == NULL)
        return NULL;
    memset(push, 0, sizeof *push);
    push->dtype = item->dtype;
    push->size = item->size;
    push->public.encoding = encoder->encoding;
    push->public.ranges = push->ranges;
    /* The encoded bytes need no alignment: they are only sent, and decoded by memcpy. */
    const uint8_t *content = (const uint8_t *)push->ranges + ranges_size;
    for (uint32_t k = 0; k < placement->range_count; k++) {
        struct ps_range range = ps_placement_range(placement, item->name, k);
        size_t count = count_sent(encoder, range.size / placement->element_size);
        push->ranges[k].data = content;
        push->ranges[k].size = (size_t)ps_encoding_bytes(encoder->encoding, item->dtype, count);
        content += push->ranges[k].size;
    }
    return push;
}

/* `left` begins as the gradient and the old residual together; each range is encoded from it, and
 * what the encoded form stands for is taken off again. The rest is what this push leaves out.
 *
 * A range that cannot be encoded (int8 of a NaN, for example) fails the push as a whole, and the
 * old residual goes back untouched. */
static void encode(struct ps_push_encoder *encoder, struct push *push, const struct ps_item *item,
                   const struct ps_placement *placement)
{
    enum ps_encoding encoding = encoder->encoding;
    struct ps_error *error = &push->public.error;
    bool feeds_back = encoding == PS_ENCODING_INT8 || encoding == PS_ENCODING_TOP_K;
    enum ps_status status = feeds_back ? take(encoder, push, item, error) : PS_OK;
    /* Without feedback the caller's gradient is read where it lies. */
    const uint8_t *elements = push->left != NULL ? push->left : item->content;
    for (uint32_t k = 0; status == PS_OK && k < placement->range_count; k++) {
        struct ps_range range = ps_placement_range(placement, item->name, k);
        size_t count = range.size / placement->element_size;
        status = encode_range(encoding, item->dtype, elements + range.offset, count,
                              push->ranges[k], error);
        if (status == PS_OK && feeds_back)
            subtract_decoded(encoding, item->dtype, push->ranges[k], count,
                             (uint8_t *)push->left + range.offset);
    }
    if (status != PS_OK)
        give_back(encoder, push, false);
}

/* The size of the range was laid out by create_push; top-k reads from it how many pairs there
 * are. */
static enum ps_status encode_range(enum ps_encoding encoding, enum ps_dtype dtype,
                                   const void *elements, size_t count, struct ps_bytes range,
                                   struct ps_error *error)
{
    void *to = (void *)(uintptr_t)range.data;
    if (encoding != PS_ENCODING_TOP_K)
        return ps_encode_all(encoding, dtype, elements, count, to, error);
    /* Indices have 32 bits on the wire. */
    if (count > UINT64_C(1) << 32)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "top_k of more than 2^32 elements");
    ps_encode_top_k(dtype, elements, count, range.size / PS_ENCODING_PAIR_BYTES, to);
    return PS_OK;
}

/* ---- What is left out ---- */

/* Where the residual of that name is, or would be. Sorted, since there is one for each parameter of
 * a model and every push looks for its own. */
static size_t place_of(const struct ps_push_encoder *encoder, struct ps_bytes name, bool *found)
{
    size_t low = 0;
    size_t high = encoder->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = ps_bytes_compare(encoder->residuals[middle]->name, name);
        *found = *found || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Residuals stay where they are when the table grows: pushes under way point to them. The name is
 * behind the struct, because the caller's ends with the call. */
static struct ps_residual *insert(struct ps_push_encoder *encoder, size_t at, struct ps_bytes name)
{
    PS_ASSERT(at <= encoder->count && encoder->count <= encoder->capacity);
    if (encoder->count == encoder->capacity) {
        size_t capacity = encoder->capacity * 2 + 16;
        struct ps_residual **more =
            ps_zeroed_array(encoder->memory, capacity, sizeof encoder->residuals[0]);
        if (more == NULL)
            return NULL;
        if (encoder->count > 0)
            memcpy(more, encoder->residuals, encoder->count * sizeof more[0]);
        ps_release(encoder->memory, encoder->residuals);
        encoder->residuals = more;
        encoder->capacity = capacity;
    }
    struct ps_residual *made = ps_zeroed(encoder->memory, sizeof *made + name.size);
    if (made == NULL)
        return NULL;
    if (name.size > 0)
        memcpy(made + 1, name.data, name.size);
    made->name = (struct ps_bytes){(const uint8_t *)(made + 1), name.size};
    /* Only pointers move, and only when a parameter is pushed for the first time. */
    memmove(encoder->residuals + at + 1, encoder->residuals + at,
            (encoder->count - at) * sizeof encoder->residuals[0]);
    encoder->residuals[at] = made;
    encoder->count++;
    return made;
}

/* The limit is asked for here, under the lock, and holds for everything that is kept: a model with
 * more parameters than the limit allows fails with a reason instead of growing for ever. */
static enum ps_status find(struct ps_push_encoder *encoder, const struct ps_item *item,
                           struct ps_residual **residual, struct ps_error *error)
{
    bool found;
    size_t at = place_of(encoder, item->name, &found);
    if (encoder->bytes + item->size > encoder->bytes_max)
        return ps_fail(error, PS_ERR_BUSY,
                       "%zu bytes for what the encoding leaves out, with %llu of at most %llu kept",
                       item->size, (unsigned long long)encoder->bytes,
                       (unsigned long long)encoder->bytes_max);
    /* An entry is never removed: a push that is under way may point to it. */
    *residual = found ? encoder->residuals[at] : insert(encoder, at, item->name);
    if (*residual == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for what the encoding leaves out");
    return PS_OK;
}

/* A parameter may be initialised anew with another type or length; a residual of the old one means
 * nothing for it. */
static bool fits(const struct ps_residual *residual, const struct push *push)
{
    return residual->size == push->size && residual->dtype == push->dtype;
}

/* A residual of another length or type belongs to a parameter that is no more, and is dropped.
 * Under the lock. A residual that another push has taken is not waited for: this one begins without
 * it, and the two are added up when both are settled. */
static void *take_left(struct ps_push_encoder *encoder, struct ps_residual *residual,
                       const struct push *push)
{
    void *taken = residual->left;
    residual->left = NULL;
    if (taken == NULL || fits(residual, push))
        return taken;
    drop(encoder, taken, residual->size);
    return NULL;
}

/* push->left becomes the gradient and what was left out before it. Only the pointers are moved
 * under the lock; copying and adding, which take as long as the gradient is large, come after
 * it. */
static enum ps_status take(struct ps_push_encoder *encoder, struct push *push,
                           const struct ps_item *item, struct ps_error *error)
{
    PS_ASSERT(push->residual == NULL && push->left == NULL);
    void *left = ps_plain(encoder->memory, item->size);
    if (left == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for what the encoding leaves out");
    ps_mutex_lock(&encoder->lock);
    struct ps_residual *residual;
    enum ps_status status = find(encoder, item, &residual, error);
    if (status == PS_OK) {
        push->residual = residual;
        push->taken = take_left(encoder, residual, push);
        push->left = left;
        encoder->bytes += item->size;
    }
    ps_mutex_unlock(&encoder->lock);
    if (status != PS_OK) {
        ps_release(encoder->memory, left);
        return status;
    }
    memcpy(left, item->content, item->size);
    if (push->taken != NULL)
        add(item->dtype, push->taken, item->size / ps_dtype_size(item->dtype), left);
    return PS_OK;
}

/* Element by element, so that the sums are the same on every machine, however wide its vectors
 * are. */
static void add(enum ps_dtype dtype, const void *from, size_t count, void *to)
{
    if (dtype == PS_F32)
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)from)[i];
    else
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)from)[i];
}

/* `decoded` is an array of doubles in which floats may lie: the decoder writes the parameter's own
 * type. */
static void subtract(enum ps_dtype dtype, const double *decoded, size_t count, uint8_t *left)
{
    if (dtype == PS_F32)
        for (size_t i = 0; i < count; i++)
            ((float *)(void *)left)[i] -= ((const float *)(const void *)decoded)[i];
    else
        for (size_t i = 0; i < count; i++)
            ((double *)(void *)left)[i] -= decoded[i];
}

/* A value that was sent is no longer left out. The encoded bytes are decoded by the server's own
 * functions: what is subtracted is what the server will add, to the last bit. */
static void subtract_decoded(enum ps_encoding encoding, enum ps_dtype dtype, struct ps_bytes range,
                             size_t count, void *left)
{
    double decoded[PS_ENCODING_GROUP]; /* as large as elements of either type */
    size_t element_size = ps_dtype_size(dtype);
    uint8_t *to = left;
    if (encoding == PS_ENCODING_TOP_K) {
        /* First all indices, then all values. */
        size_t kept = range.size / PS_ENCODING_PAIR_BYTES;
        for (size_t i = 0; i < kept; i++) {
            uint32_t index;
            memcpy(&index, range.data + i * sizeof index, sizeof index);
            ps_decode_run(PS_ENCODING_FLOAT32, dtype, range.data + (kept + i) * sizeof(float), 1,
                          decoded);
            subtract(dtype, decoded, 1, to + index * element_size);
        }
        return;
    }
    /* First all scales, then all quanta. */
    const uint8_t *quanta = range.data + ps_encoding_groups(count) * sizeof(float);
    for (size_t first = 0; first < count; first += PS_ENCODING_GROUP) {
        size_t rest = count - first < PS_ENCODING_GROUP ? count - first : PS_ENCODING_GROUP;
        float scale;
        memcpy(&scale, range.data + first / PS_ENCODING_GROUP * sizeof scale, sizeof scale);
        ps_decode_group(dtype, scale, quanta + first, rest, decoded);
        subtract(dtype, decoded, rest, to + first * element_size);
    }
}

/* A push whose end is unknown counts as one that went through. Either guess may be wrong: this one
 * loses what the push brought when it was not applied, the other would apply the old residual twice
 * when it was. */
void ps_push_encoder_settle(struct ps_push_encoder *encoder, struct ps_item *item)
{
    struct push *push = (struct push *)(uintptr_t)item->encoded;
    bool is_ours = push != NULL && item->encoded != &no_memory;
    item->encoded = NULL;
    if (!is_ours)
        return;
    /* Of the failures only these leave open whether the push was applied. */
    bool went_through =
        item->status == PS_OK || ps_status_remedy(item->status) == PS_REMEDY_UNKNOWN;
    give_back(encoder, push, went_through);
    ps_release(encoder->memory, push);
}

/* Under one lock what is not needed goes and what is kept comes back, so that nobody sees the
 * parameter without either. */
static void give_back(struct ps_push_encoder *encoder, struct push *push, bool went_through)
{
    struct ps_residual *residual = push->residual;
    /* An encoding without feedback, or a push that failed before it took anything. */
    if (residual == NULL)
        return;
    void *kept = went_through ? push->left : push->taken;
    ps_mutex_lock(&encoder->lock);
    drop(encoder, went_through ? push->taken : push->left, push->size);
    if (kept != NULL && residual->left == NULL) {
        residual->left = kept;
        residual->dtype = push->dtype;
        residual->size = push->size;
    } else if (kept != NULL) {
        /* Another push of the same parameter was settled before this one. When the residual is of
         * another type or length by now, the parameter is another, and what this push kept is of no
         * use. */
        if (fits(residual, push))
            add(push->dtype, kept, push->size / ps_dtype_size(push->dtype), residual->left);
        drop(encoder, kept, push->size);
    }
    ps_mutex_unlock(&encoder->lock);
    push->residual = NULL;
    push->taken = NULL;
    push->left = NULL;
}

/* The entry stays, as every entry does; only what is kept in it goes, so that a parameter which is
 * defined under the name again does not begin with what the former one was not told. */
void ps_push_encoder_forget(struct ps_push_encoder *encoder, struct ps_bytes name)
{
    bool found;
    ps_mutex_lock(&encoder->lock);
    size_t at = place_of(encoder, name, &found);
    /* Nothing is kept for a parameter that was never pushed to in an encoding. */
    if (found) {
        struct ps_residual *residual = encoder->residuals[at];
        drop(encoder, residual->left, residual->size);
        residual->left = NULL;
    }
    ps_mutex_unlock(&encoder->lock);
}

/* Under the lock, for the sum: `bytes` counts what is kept and what pushes under way hold. */
static void drop(struct ps_push_encoder *encoder, void *elements, size_t size)
{
    if (elements == NULL)
        return;
    PS_ASSERT(encoder->bytes >= size);
    ps_release(encoder->memory, elements);
    encoder->bytes -= size;
}
