/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping is registered once, by whoever comes first; a refusal is for good. */
#include "server/rpc/shared_mapping.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "base/random.h"

#include <inttypes.h>

enum { NOT_ASKED, ASKED, PINNED };

/* Of either kind, without its memory. A number of 64 random bits is what keeps one client out of
 * another's memory, and 0 on the wire means "no shared memory". */
static struct ps_shared_mapping *begin(const struct ps_shared_mapping_wish *wish,
                                       struct ps_error *error)
{
    struct ps_shared_mapping *mapping = ps_zeroed(wish->memory, sizeof *mapping);
    if (mapping == NULL) {
        (void)ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table entry");
        return NULL;
    }
    mapping->memory = wish->memory;
    mapping->owner = wish->owner;
    mapping->pins = wish->pins;
    mapping->devices = wish->devices;
    /* The client's, once the table has an entry. */
    mapping->socket = PS_NO_DESCRIPTOR;
    atomic_init(&mapping->references, 1);
    /* Once, but for one of 2^64. */
    while (mapping->number == 0)
        ps_random_system(&mapping->number, sizeof mapping->number);
    return mapping;
}

/* A memory file is mapped whole, and its seals say that it stays as long as it is: no page of it
 * can be taken away under a reader. */
struct ps_shared_mapping *ps_shared_mapping_open(const struct ps_shared_mapping_wish *wish,
                                                 uint64_t size, int descriptor,
                                                 struct ps_error *error)
{
    struct ps_shared_mapping *mapping = begin(wish, error);
    if (mapping == NULL ||
        ps_shared_segment_open(descriptor, size, &mapping->segment, error) == PS_OK)
        return mapping;
    ps_release(wish->memory, mapping);
    return NULL;
}

/* The device has said whether the piece is there, and as large as its name says. */
struct ps_shared_mapping *ps_shared_mapping_import(const struct ps_shared_mapping_wish *wish,
                                                   const struct ps_device_share *share,
                                                   struct ps_error *error)
{
    struct ps_shared_mapping *mapping = begin(wish, error);
    uint8_t *memory = NULL;
    PS_ASSERT(wish->devices.import != NULL);
    if (mapping == NULL)
        return NULL;
    /* Nothing is kept of a piece that was refused. */
    if (wish->devices.import(wish->devices.self, share, &memory, error) != PS_OK) {
        ps_release(wish->memory, mapping);
        return NULL;
    }
    /* In the place of a mapping stands what the device knows it by. Whoever takes it for memory of
     * the host asks `on_device` first, or reads where nothing is. */
    mapping->on_device = true;
    mapping->segment = (struct ps_shared_segment){memory, (size_t)share->bytes};
    return mapping;
}

/* No sum of two numbers of the client's, which could wrap around and pass. */
bool ps_shared_mapping_has(const struct ps_shared_mapping *mapping,
                           const struct ps_shared_range *range, struct ps_error *error)
{
    /* Of a device's piece as of the host's memory: the size is the device's word. */
    size_t size = mapping->segment.size;
    if (range->size > 0 && range->size <= size && range->offset <= size - range->size)
        return true;
    (void)ps_fail(error, PS_ERR_BAD_INPUT,
                  "shared memory: %" PRIu64 " bytes from %" PRIu64 " on are not within its "
                  "%zu bytes",
                  range->size, range->offset, size);
    return false;
}

/* A client that shares memory with several servers, or a system that limits what may be pinned,
 * gives the same answer the next time: nobody asks twice. */
void ps_shared_mapping_pin(struct ps_shared_mapping *mapping, size_t size)
{
    int expected = NOT_ASKED;
    PS_ASSERT(atomic_load(&mapping->references) > 0);
    PS_ASSERT(size <= mapping->segment.size);
    if (mapping->on_device || mapping->pins.pin == NULL || size < PS_SHARED_PIN_BYTES_MIN)
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

/* An update that reads the memory may be queued still when its call was given up: the device waits
 * for it. */
void ps_shared_mapping_end(struct ps_shared_mapping *mapping)
{
    PS_ASSERT(atomic_load(&mapping->references) == 0);
    if (mapping->on_device) {
        /* Then, and not before, the socket is closed by which the client knows. */
        mapping->devices.unimport(mapping->devices.self, mapping->segment.bytes);
        mapping->segment = (struct ps_shared_segment){0};
        return;
    }
    ps_shared_mapping_unpin(mapping);
    ps_shared_segment_close(&mapping->segment);
}
