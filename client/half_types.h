/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of two bytes in the caller's memory: bfloat16 and float16. No parameter is of such a
 * type. The wire has them as encodings of float32, so an item of halves is one of float32 whose
 * content is encoded already, and whose reply is taken as it comes.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   what is wrong with an item is left to the engine to say.
 * Memory:   as each function says.
 */
#ifndef PS_CLIENT_HALF_TYPES_H
#define PS_CLIENT_HALF_TYPES_H

#include "client/engine/engine.h"
#include "client/psclient.h"

/* Makes an item whose size is in bytes of the caller's one of float32, if `type` is one of halves:
 * then item->as_is and its encoding say so. Otherwise the item stays as it is. */
void ps_half_fit(struct ps_item *item, enum psclient_type type);

/* Can the content be sent from where it lies? Not when something is wrong with it. */
static inline bool ps_half_is_sound(const struct ps_item *item)
{
    return item->content != NULL && item->size > 0 && item->size % sizeof(float) == 0;
}

/* Lets those of the items that are halves have contents of float32 instead, for an initialisation.
 * These lie in `*memory_of_all`, which is to be released behind the batch; NULL: there is none.
 * False: no memory, and the items are as they were. */
bool ps_half_widen(struct ps_item *items, size_t count, const struct ps_allocator *memory,
                   uint8_t **memory_of_all);

#endif
