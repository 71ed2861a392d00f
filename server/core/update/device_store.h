/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that live in the memory of a device (optimizer/device.h), as the rest of the core sees
 * them: a resident is the device's part of one parameter. Whether a parameter becomes one is
 * decided once, when it is made; it is whole on the device or whole on the host, and the bits are
 * the same.
 *
 * A push is queued and not waited for, a small one gathered with others before that; its
 * acknowledgement waits until it is done. Whether it counts is known before it gets its version and
 * its record in the journal: where the device looks at the gradient, that is done before the
 * parameter's lock is taken, as the host does it, and by several threads at once. Under the lock
 * only the update is queued. A snapshot for which the device has no room takes what it needs while
 * pushes go on: the first push to a parameter after it waits, without a lock, until that one
 * parameter has come to the host.
 *
 * Readers get a shadow, a list of blocks on the host, which is brought up to date when somebody
 * reads and the version has changed since; whoever holds it keeps it. Only blocks that were written
 * since come over the bus, and each says the version at which that was, as on the host: a push that
 * names its elements writes theirs alone. A large shadow lies in memory that the device copies into
 * by itself: readers wait for that without any lock, and pushes go on.
 *
 * Threads:  open, close, place, make_way, judges, judge, judged_release and wait from any thread;
 *           the rest with the parameter's lock, or before it is shared.
 * Blocking: set, wait, make_way and judge wait for the device, look where the shadow is small; push
 *           when the device is far behind.
 * Errors:   PS_ERR_UNAVAILABLE: the device is dead, and what is in its memory is lost.
 * Memory:   a resident belongs to its parameter. The store's own memory for shadows is bounded, and
 *           goes back when it was not needed for long (block_pool.h): that may stop the device.
 */
#ifndef PS_SERVER_CORE_DEVICE_STORE_H
#define PS_SERVER_CORE_DEVICE_STORE_H

#include "base/log.h"
#include "optimizer/device.h"
#include "server/core/update/device_gather.h"
#include "server/core/update/gradient_runs.h"
#include "server/core/values/blocks.h"
#include "server/core/values/parameter_spec.h"

struct ps_block_pool;

/* Readers hold what they were given, and pushes go on: so much for what they hold, at least. */
#define PS_READERS_BYTES (UINT64_C(1) << 30)

/* The device of a server. */
struct ps_device_store {
    const struct ps_device_plugin *plugin; /* borrowed; outlives this */
    struct ps_device *device;              /* borrowed; outlives this */
    const struct ps_log *log;              /* borrowed; may be NULL */
    struct ps_block_pool *pinned;          /* owned; where large shadows lie */
    uint64_t readers_bytes; /* of pinned memory beyond one copy of each parameter; 0: as much as
                               those, at least PS_READERS_BYTES. Set after open, if at all */
    uint64_t min_bytes;     /* of the values of what is put there. Set after open, if at all */
    _Atomic uint64_t copies_bytes; /* one of each parameter that lives there */
    _Atomic uint64_t pinned_bytes; /* that the pool has */
    struct ps_device_gather gather;
    /* Gathers and tickets are done in their order: up to here they are. */
    _Atomic uint64_t gather_done;
    _Atomic uint64_t compute_done;
    _Atomic uint64_t copy_out_done;
};

/* PS_ERR_NO_MEMORY. `store` stays where it is until close. */
PS_MUST_USE enum ps_status ps_device_store_open(struct ps_device_store *store,
                                                const struct ps_device_plugin *plugin,
                                                struct ps_device *device, const struct ps_log *log,
                                                struct ps_error *error);

/* Everything that lived there has ended, and nobody holds a shadow. Accepts a zeroed one. */
void ps_device_store_close(struct ps_device_store *store);

/* Work to be waited for: a gather that has no ticket yet (0: none), and a ticket. */
struct ps_device_due {
    uint64_t gather;
    struct ps_device_ticket ticket;
};

struct ps_resident {
    struct ps_device_store *store;      /* borrowed; NULL: the parameter lives on the host */
    struct ps_device_parameter *handle; /* owned */
    struct ps_device_due newest;        /* of the last push */
    const struct ps_allocator *memory;  /* borrowed; of what comes next */
    uint64_t *written;                  /* owned; of each block, the version that last wrote it */
    bool *stale;                        /* of each block: the shadow has an older one */
    size_t block_count;
    struct ps_blocks *shadow;          /* a reference; NULL: nobody has read yet */
    struct ps_device_due shadow_ready; /* when it has what is not stale */
};

/* Puts a parameter on the device, values undefined, states at their start, if the device supports
 * it and has room. Otherwise `resident` is zeroed, and a line in the log and `reason` say why, but
 * for what is smaller than the store's min_bytes.
 *
 * store               borrowed; NULL: there is no device
 * spec                its blocks are those of shadows from now on, if it gets a place
 * reason              may not be NULL; untouched without a reason
 *
 * PS_OK               on the device, or to be kept on the host
 * PS_ERR_NO_MEMORY    the host has none for what it keeps of it
 * PS_ERR_UNAVAILABLE  the device is dead
 */
PS_MUST_USE enum ps_status ps_resident_place(struct ps_device_store *store,
                                             struct ps_parameter_spec *spec,
                                             struct ps_resident *resident, struct ps_error *reason);

/* Accepts a zeroed one. */
void ps_resident_release(struct ps_resident *resident);

/* `content` becomes the bytes of an array (0: the values, then the states) from `offset` on. */
PS_MUST_USE enum ps_status ps_resident_set(struct ps_resident *resident, uint32_t array,
                                           uint64_t offset, struct ps_view content,
                                           struct ps_error *error);

/* Before a push, without the parameter's lock: returns when no snapshot needs what it will
 * overwrite. Whoever asks holds the cut (service_state.h), so that none is taken meanwhile. */
PS_MUST_USE enum ps_status ps_resident_make_way(const struct ps_resident *resident,
                                                struct ps_error *error);

/* Does the device itself look whether the gradient is finite, and what its norm is? Otherwise
 * whoever pushes does so before (ps_gradient_scan), on the host:
 *   - small gradients, which are gathered: their bytes have just come and are in the cache, and
 *     what is gathered could not wait for verdicts;
 *   - those of which a small part tells (ps_gradient_scan_is_long);
 *   - those that fill more than half of the ring: before anything changes, all of it has to be
 *     seen, and the device has no room to keep it so long.
 * Scales and indices that cannot be (ps_gradient_check) are always found on the host. */
bool ps_resident_judges(const struct ps_resident *resident, const struct ps_parameter_spec *spec,
                        struct ps_gradient gradient);

/* Can a gradient whose address is the device's go all the way without the host's reading it: does
 * the device look at it, where somebody has to, and is it none that would be gathered? Then
 * ps_update applies it like any other. Of memory that the device does not know it is not to be
 * asked. */
bool ps_resident_reads(const struct ps_resident *resident, const struct ps_parameter_spec *spec,
                       struct ps_gradient gradient);

/* Queues an update. The gradient was checked and scanned, the step is not to be skipped. */
PS_MUST_USE enum ps_status ps_resident_push(struct ps_resident *resident,
                                            struct ps_gradient gradient,
                                            const struct ps_optimizer_step *step,
                                            struct ps_error *error);

/* Brings a gradient that was checked and not scanned (ps_resident_judges) to the device, and
 * returns when that has looked at it: `scan` is what ps_gradient_scan would find. Nothing changes.
 * End `*judged` with ps_resident_judged_release: it holds a part of the ring. PS_ERR_NO_MEMORY: the
 * host's. */
PS_MUST_USE enum ps_status ps_resident_judge(const struct ps_resident *resident,
                                             const struct ps_parameter_spec *spec,
                                             struct ps_gradient gradient,
                                             struct ps_device_judged **judged,
                                             struct ps_gradient_scan *scan, struct ps_error *error);

/* Queues an update with it; the step is prepared from what was found, and not to be skipped. */
PS_MUST_USE enum ps_status ps_resident_push_judged(struct ps_resident *resident,
                                                   struct ps_device_judged *judged,
                                                   const struct ps_optimizer_step *step,
                                                   struct ps_error *error);

/* Takes `judged`; NULL is allowed, also on the host. */
void ps_resident_judged_release(const struct ps_resident *resident,
                                struct ps_device_judged *judged);

/* A push that made `version` wrote the blocks whose flag is set; NULL: all. */
void ps_resident_wrote(struct ps_resident *resident, const struct ps_parameter_spec *spec,
                       const bool *touched, uint64_t version);

/* Returns a reference to the values, which are those of now when `*ready` is done; end it with
 * ps_blocks_release, and not before that is so.
 *
 * PS_ERR_NO_MEMORY    the host has none for the shadow
 * PS_ERR_BUSY         readers of older values hold all that there may be
 */
PS_MUST_USE enum ps_status ps_resident_look(struct ps_resident *resident,
                                            struct ps_parameter_spec *spec,
                                            struct ps_blocks **values, struct ps_device_due *ready,
                                            struct ps_error *error);

/* Queues a copy of the values, as they are behind what was pushed so far, to imported memory with
 * room for them; they are there when `*ready` is done. */
PS_MUST_USE enum ps_status ps_resident_copy_out(struct ps_resident *resident,
                                                const struct ps_parameter_spec *spec, uint8_t *to,
                                                struct ps_device_due *ready,
                                                struct ps_error *error);

/* Fills a snapshot that the plugin reserved for it with all of it as it is now. */
PS_MUST_USE enum ps_status ps_resident_snapshot(struct ps_resident *resident,
                                                struct ps_device_snapshot *snapshot,
                                                struct ps_error *error);

/* Most bytes that shadows may take now. */
uint64_t ps_device_store_pinned_max(const struct ps_device_store *store);

/* `*all` becomes what `one` needs as well. */
void ps_device_due_join(struct ps_device_due *all, const struct ps_device_due *one);

/* Returns when the work is done. For nothing `store` may be NULL. */
PS_MUST_USE enum ps_status ps_device_store_wait(struct ps_device_store *store,
                                                struct ps_device_due due, struct ps_error *error);

#endif
