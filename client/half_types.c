/* SPDX-License-Identifier: Apache-2.0 */
/* What halves are called on the wire, and how long they are as float32. Items are told as float32
 * from here on, since the placement of a parameter counts its own bytes: a trainer with halves and
 * another with floats must find the same ranges on the same servers. */
#include "client/half_types.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

/* An odd number of bytes stays what it is, a number that is no multiple of an element's: the engine
 * refuses such an item as any other. */
void ps_half_fit(struct ps_item *item, enum psclient_type type)
{
    if (type != PSCLIENT_TYPE_BFLOAT16 && type != PSCLIENT_TYPE_FLOAT16)
        return;
    item->encoding = type == PSCLIENT_TYPE_BFLOAT16 ? PS_ENCODING_BFLOAT16 : PS_ENCODING_FLOAT16;
    item->as_is = true;
    item->dtype = PS_F32;
    if (item->size % 2 == 0 && item->size <= SIZE_MAX / 2)
        item->size *= 2;
}

/* One allocation for all of them, so that there is one thing to give back. The engine, which cuts
 * an initialisation as any other content, needs elements of the parameter's own type. */
bool ps_half_widen(struct ps_item *items, size_t count, const struct ps_allocator *memory,
                   uint8_t **memory_of_all)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].as_is && ps_half_is_sound(&items[i]))
            size += items[i].size;
    *memory_of_all = NULL;
    if (size == 0)
        return true;
    uint8_t *next = ps_plain(memory, size);
    *memory_of_all = next;
    for (size_t i = 0; next != NULL && i < count; i++) {
        if (!items[i].as_is || !ps_half_is_sound(&items[i]))
            continue;
        ps_decode_all(items[i].encoding, PS_F32, items[i].content, items[i].size / sizeof(float),
                      next);
        items[i].content = next;
        next += items[i].size;
    }
    PS_ASSERT(next == NULL || next == *memory_of_all + size);
    return *memory_of_all != NULL;
}
