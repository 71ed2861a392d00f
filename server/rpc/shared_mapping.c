/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping is registered once, by whoever comes first; a refusal is for good. */
#include "server/rpc/shared_mapping.h"

#include "base/assert.h"

enum { NOT_ASKED, ASKED, PINNED };

/* A client that shares memory with several servers, or a system that limits what may be pinned,
 * gives the same answer the next time: nobody asks twice. */
void ps_shared_mapping_pin(struct ps_shared_mapping *mapping, size_t size)
{
    int expected = NOT_ASKED;
    PS_ASSERT(atomic_load(&mapping->references) > 0);
    PS_ASSERT(size <= mapping->segment.size);
    if (mapping->pins.pin == NULL || size < PS_SHARED_PIN_BYTES_MIN)
        return;
    /* One of several that come at the same time. */
    if (!atomic_compare_exchange_strong(&mapping->pinned, &expected, ASKED))
        return;
    if (mapping->pins.pin(mapping->pins.self, mapping->segment.bytes, mapping->segment.size))
        atomic_store(&mapping->pinned, PINNED);
}

/* The last user has gone, whoever asked among them: nobody is in the middle of asking. */
void ps_shared_mapping_unpin(struct ps_shared_mapping *mapping)
{
    PS_ASSERT(mapping->segment.bytes != NULL);
    if (atomic_exchange(&mapping->pinned, NOT_ASKED) == PINNED)
        mapping->pins.unpin(mapping->pins.self, mapping->segment.bytes);
}
