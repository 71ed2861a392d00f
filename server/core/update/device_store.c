/* SPDX-License-Identifier: Apache-2.0 */
/* Between the core and a device's plugin. The core thinks in parameters, versions and blocks; a
 * plugin knows arrays, offsets and tickets. Two things are kept here for each parameter: which
 * blocks were written at which version (so that a delta pull from a device says the same as one
 * from the host), and a shadow on the host, which is what readers hold. */
#include "server/core/update/device_store.h"

#include "base/assert.h"
#include "base/slab.h"
#include "server/core/update/gradient_check.h"
#include "server/core/values/block_pool.h"

#include <string.h>

static void *take_pinned(void *self);
static void give_pinned(void *self, void *slab);
static bool get_marks(struct ps_resident *resident, const struct ps_parameter_spec *spec);
static bool is_stale(const struct ps_resident *resident);
static enum ps_status refresh(struct ps_resident *resident, struct ps_error *error);
static enum ps_status read_stale(struct ps_resident *resident, struct ps_error *error);
static size_t count_stale(const struct ps_resident *resident, size_t first);
static enum ps_status fail_shadow(const struct ps_device_store *store,
                                  const struct ps_parameter_spec *spec, struct ps_error *error);
static enum ps_status flush(struct ps_resident *resident, struct ps_error *error);
static void raise_to(_Atomic uint64_t *most, uint64_t value);

enum ps_status ps_device_store_open(struct ps_device_store *store,
                                    const struct ps_device_plugin *plugin, struct ps_device *device,
                                    const struct ps_log *log, struct ps_error *error)
{
    PS_ASSERT(plugin != NULL && device != NULL);
    /* Pinned memory is taken by the slab, since a device registers it page by page and slowly, and
     * handed out by the block, as the heap's is. */
    const struct ps_slab_source source = {take_pinned, give_pinned, store};
    *store = (struct ps_device_store){.plugin = plugin, .device = device, .log = log};
    store->pinned = ps_block_pool_create_over(&source, ps_allocator_heap());
    if (store->pinned == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the device's store");
    enum ps_status status = ps_device_gather_open(&store->gather, plugin, device, error);
    /* Close accepts a gather that was not opened. */
    if (status != PS_OK)
        ps_device_store_close(store);
    return status;
}

void ps_device_store_close(struct ps_device_store *store)
{
    PS_ASSERT(atomic_load(&store->copies_bytes) == 0);
    ps_device_gather_close(&store->gather);
    ps_block_pool_destroy(store->pinned);
    *store = (struct ps_device_store){0};
}

/* Pinned memory is memory that the machine cannot swap or lend to anybody else, so there is a
 * limit. The bytes are counted before the device is asked: two threads that ask at once cannot both
 * pass below the limit. */
static void *take_pinned(void *self)
{
    struct ps_device_store *store = self;
    uint64_t bytes = atomic_fetch_add(&store->pinned_bytes, PS_SLAB_BYTES) + PS_SLAB_BYTES;
    void *slab = NULL;
    if (bytes <= ps_device_store_pinned_max(store))
        slab = store->plugin->host_acquire(store->device, PS_SLAB_BYTES);
    /* Beyond the limit, or the machine has no more to pin. */
    if (slab == NULL)
        atomic_fetch_sub(&store->pinned_bytes, PS_SLAB_BYTES);
    return slab;
}

/* Counted down last: a thread that finds room by the count finds the memory really free. */
static void give_pinned(void *self, void *slab)
{
    struct ps_device_store *store = self;
    PS_ASSERT(store->plugin != NULL);
    store->plugin->host_release(store->device, slab, PS_SLAB_BYTES);
    PS_ASSERT(atomic_load(&store->pinned_bytes) >= PS_SLAB_BYTES);
    atomic_fetch_sub(&store->pinned_bytes, PS_SLAB_BYTES);
}

/* One copy of each parameter, which its shadow needs, and what readers of older versions may hold
 * beside that. In whole slabs, since the pool takes no less. The limit follows the parameters that
 * are there: it is asked for each time, and kept nowhere. */
uint64_t ps_device_store_pinned_max(const struct ps_device_store *store)
{
    uint64_t copies = atomic_load(&store->copies_bytes);
    uint64_t readers = store->readers_bytes;
    if (readers == 0)
        readers = copies > PS_READERS_BYTES ? copies : PS_READERS_BYTES;
    return (copies + readers + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
}

/* Decided once in the life of a parameter, so that no push ever finds half of one on each side. A
 * device that does not support the rule, or has no room, leaves the parameter on the host with a
 * line in the log; a device that is dead fails the call, since the shard cannot go on with it. From
 * here on the blocks of the spec come from pinned memory: all of them are shadows. */
enum ps_status ps_resident_place(struct ps_device_store *store, struct ps_parameter_spec *spec,
                                 struct ps_resident *resident, struct ps_error *reason)
{
    PS_ASSERT(reason != NULL);
    *resident = (struct ps_resident){0};
    if (store == NULL || ps_parameter_spec_bytes(spec) < store->min_bytes)
        return PS_OK;
    const struct ps_device_parameter_wish wish = {
        .settings = &spec->settings, .dtype = spec->dtype, .count = spec->count};
    enum ps_status status = store->plugin->supports(&wish, reason);
    if (status == PS_OK)
        status = store->plugin->parameter_create(store->device, &wish, &resident->handle, reason);
    if (status == PS_OK) {
        resident->store = store;
        spec->block_source = ps_block_pool_source(store->pinned);
        if (get_marks(resident, spec))
            return PS_OK;
        ps_resident_release(resident);
        return ps_fail(reason, PS_ERR_NO_MEMORY, "no memory for the marks of a parameter's blocks");
    }
    /* Everything else is a reason to stay on the host. */
    if (status == PS_ERR_UNAVAILABLE)
        return status;
    PS_LOG(store->log, PS_LOG_WARN, "device", "parameter stays on the cpu",
           PS_FIELD_TEXT("name", (const char *)spec->name.data),
           PS_FIELD_UINT("bytes", ps_parameter_spec_bytes(spec) *
                                      (1 + (uint64_t)ps_rule_states(spec->settings.rule))),
           PS_FIELD_ERROR(reason));
    return PS_OK;
}

/* As many as a list of blocks of this parameter has (blocks.c). */
static size_t block_count_of(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->count > 0);
    return (ps_parameter_spec_bytes(spec) + PS_BLOCK_BYTES - 1) / PS_BLOCK_BYTES;
}

/* Versions and flags are one allocation, the flags behind the versions. All blocks are stale at
 * first: there is no shadow yet, and the first reader needs every one of them. */
static bool get_marks(struct ps_resident *resident, const struct ps_parameter_spec *spec)
{
    size_t count = block_count_of(spec);
    PS_ASSERT(count > 0 && resident->written == NULL);
    resident->memory = spec->memory;
    resident->written = ps_zeroed(spec->memory, count * (sizeof resident->written[0] + 1));
    if (resident->written == NULL)
        return false;
    /* Bytes behind eight-byte numbers: no alignment is lost. */
    resident->stale = (bool *)&resident->written[count];
    memset(resident->stale, true, count);
    resident->block_count = count;
    atomic_fetch_add(&resident->store->copies_bytes, (uint64_t)count * PS_BLOCK_BYTES);
    return true;
}

/* Said when the push is queued and not when the device has done it: a reader gets the shadow
 * together with the ticket to wait for, and both are of the same version. */
void ps_resident_wrote(struct ps_resident *resident, const struct ps_parameter_spec *spec,
                       const bool *touched, uint64_t version)
{
    size_t count = block_count_of(spec);
    PS_ASSERT(count == resident->block_count);
    for (size_t i = 0; i < count; i++) {
        if (touched != NULL && !touched[i])
            continue;
        PS_ASSERT(resident->written[i] <= version); /* versions only grow */
        /* What a delta pull asks for; the flag is what the next reader of the shadow asks for. */
        resident->written[i] = version;
        resident->stale[i] = true;
    }
}

/* What is gathered names the device's parameter, so it is pushed before that ends. If the device
 * refuses, it is dead, and its memory is gone with it. */
void ps_resident_release(struct ps_resident *resident)
{
    if (resident->store == NULL)
        return;
    PS_ASSERT(atomic_load(&resident->store->copies_bytes) >=
              (uint64_t)resident->block_count * PS_BLOCK_BYTES);
    ps_blocks_release(resident->shadow);
    ps_release(resident->memory, resident->written);
    atomic_fetch_sub(&resident->store->copies_bytes,
                     (uint64_t)resident->block_count * PS_BLOCK_BYTES);
    /* Behind the shadow and the marks, which the device does not know of. */
    (void)!flush(resident, NULL);
    resident->store->plugin->parameter_destroy(resident->handle);
    *resident = (struct ps_resident){0};
}

/* For a parameter that nobody pushes to yet: it has no order with pushes to keep. */
enum ps_status ps_resident_set(struct ps_resident *resident, uint32_t array, uint64_t offset,
                               struct ps_view content, struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL);
    PS_ASSERT(array < PS_ARRAYS_MAX);
    PS_ASSERT(resident->newest.gather == 0);
    return resident->store->plugin->write(resident->handle, array, offset, content, error);
}

/* A snapshot that found no room on the device is brought to the host piece by piece, while pushes
 * to the other parameters go on. Waited for without the parameter's lock: readers need it. */
enum ps_status ps_resident_make_way(const struct ps_resident *resident, struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL);
    return resident->store->plugin->make_way(resident->handle, error);
}

/* The cheap questions first: on the host, and for small gradients, this is asked with every
 * push. */
bool ps_resident_judges(const struct ps_resident *resident, const struct ps_parameter_spec *spec,
                        struct ps_gradient gradient)
{
    const struct ps_device_store *store = resident->store;
    return store != NULL && gradient.content.size > PS_GATHER_GRADIENT_BYTES &&
           ps_gradient_scan_is_long(spec, gradient) &&
           store->plugin->judges(resident->handle, gradient.content, gradient.encoding);
}

/* The cheap questions first; the last one looks for the address among the device's pieces. A length
 * that is not the parameter's is refused as such, by whoever judges what requests say. */
bool ps_resident_reads(const struct ps_resident *resident, const struct ps_parameter_spec *spec,
                       struct ps_gradient gradient)
{
    PS_ASSERT(gradient.encoding == PS_ENCODING_NATIVE && gradient.content.piece_count == 1);
    uintptr_t address = (uintptr_t)gradient.content.pieces[0].data;
    if (resident->store == NULL || address % PS_IN_PLACE_ALIGNMENT != 0 ||
        gradient.content.size <= PS_GATHER_GRADIENT_BYTES ||
        gradient.content.size != ps_parameter_spec_bytes(spec))
        return false;
    return !ps_gradient_scan_is_long(spec, gradient) ||
           ps_resident_judges(resident, spec, gradient);
}

enum ps_status ps_resident_judge(const struct ps_resident *resident,
                                 const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                                 struct ps_device_judged **judged, struct ps_gradient_scan *scan,
                                 struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL);
    PS_ASSERT(gradient.content.size > PS_GATHER_GRADIENT_BYTES);
    return resident->store->plugin->judge(resident->handle, &spec->settings, gradient.content,
                                          gradient.encoding, judged, scan, error);
}

/* The gathered pushes of this parameter go first: the device keeps the order in which it is asked,
 * and that has to be the order of the journal. */
enum ps_status ps_resident_push_judged(struct ps_resident *resident,
                                       struct ps_device_judged *judged,
                                       const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device_due due = {0};
    PS_TRY(flush(resident, error));
    PS_ASSERT(!step->skip);
    PS_TRY(resident->store->plugin->push_judged(judged, step, &due.ticket, error));
    resident->newest = due;
    return PS_OK;
}

/* A verdict holds a part of the ring that gradients travel through: it is given back also when the
 * push was refused, or the ring would be full of them soon. */
void ps_resident_judged_release(const struct ps_resident *resident, struct ps_device_judged *judged)
{
    if (judged == NULL)
        return;
    PS_ASSERT(resident->store != NULL);
    resident->store->plugin->judged_release(judged);
}

/* A small gradient is copied and goes with others; whoever needs it done says so by the number of
 * the gather. A larger one goes by itself, behind what is gathered of the same parameter. */
enum ps_status ps_resident_push(struct ps_resident *resident, struct ps_gradient gradient,
                                const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device_store *store = resident->store;
    const struct ps_device_push push = {.parameter = resident->handle,
                                        .gradient = gradient.content,
                                        .encoding = gradient.encoding,
                                        .step = step};
    struct ps_device_due due = {0};
    PS_ASSERT(store != NULL);
    PS_ASSERT(!step->skip); /* a skipped push changes nothing, and the device is not told of it */
    if (gradient.content.size <= PS_GATHER_GRADIENT_BYTES) {
        PS_TRY(ps_device_gather_put(&store->gather, &push, &due.gather, error));
    } else {
        PS_TRY(flush(resident, error));
        PS_TRY(store->plugin->push(store->device, &push, 1, &due.ticket, error));
    }
    resident->newest = due;
    return PS_OK;
}

/* Nothing of this parameter is gathered any more: before anything else is asked of the device about
 * it. Other parameters' pushes of the same gather go along. */
static enum ps_status flush(struct ps_resident *resident, struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL);
    struct ps_device_due *newest = &resident->newest;
    if (newest->gather == 0)
        return PS_OK;
    PS_TRY(
        ps_device_gather_flush(&resident->store->gather, newest->gather, &newest->ticket, error));
    newest->gather = 0;
    return PS_OK;
}

/* A reader holds a list and not the parameter: as long as it holds a block, that block stays as it
 * is, and the next refresh writes into another one. */
enum ps_status ps_resident_look(struct ps_resident *resident, struct ps_parameter_spec *spec,
                                struct ps_blocks **values, struct ps_device_due *ready,
                                struct ps_error *error)
{
    if (resident->shadow == NULL)
        resident->shadow = ps_blocks_create(spec);
    if (resident->shadow == NULL)
        return fail_shadow(resident->store, spec, error);
    PS_ASSERT(resident->shadow->block_count == resident->block_count);
    if (is_stale(resident))
        PS_TRY(refresh(resident, error));
    *values = ps_blocks_acquire(resident->shadow);
    *ready = resident->shadow_ready;
    return PS_OK;
}

/* Asked with each pull: a byte per block, so 4 KiB are read for a parameter of 1 GiB. */
static bool is_stale(const struct ps_resident *resident)
{
    PS_ASSERT(resident->shadow != NULL);
    for (size_t i = 0; i < resident->shadow->block_count; i++)
        if (resident->stale[i])
            return true;
    return false;
}

/* The shadow is updated like any array: blocks that readers hold are replaced, the others are
 * written in place, and each is stamped with the version that wrote it last. Only then are bytes
 * asked for, so that a refused allocation leaves the old shadow whole. When the device fails behind
 * that, the stamped blocks have undefined content; their flags are still set, and the device is
 * dead. */
static enum ps_status refresh(struct ps_resident *resident, struct ps_error *error)
{
    struct ps_blocks *from = resident->shadow;
    PS_ASSERT(from != NULL);
    PS_TRY(flush(resident, error));
    struct ps_blocks *to = ps_blocks_begin_update(from, resident->stale);
    if (to == NULL)
        return fail_shadow(resident->store, from->spec, error);
    /* Opening a block for writing also drops its digest: what the old content hashed to is over. */
    for (size_t i = 0; i < to->block_count; i++)
        if (resident->stale[i])
            (void)ps_blocks_update(from, to, i, resident->written[i]);
    ps_blocks_end_update(from, to);
    resident->shadow = to;
    return read_stale(resident, error);
}

/* A parameter that is smaller than a block lies in the heap, from where the device cannot be told
 * to copy: it is waited for. Into the pinned memory of all others the device copies when it comes
 * to it; stale blocks that are neighbours go as one copy, since each has to be asked for. Behind a
 * run stands a block that is not stale, or the end: one more is passed over. */
static enum ps_status read_stale(struct ps_resident *resident, struct ps_error *error)
{
    PS_ASSERT(resident->shadow != NULL && !ps_blocks_shared(resident->shadow));
    const struct ps_device_plugin *plugin = resident->store->plugin;
    struct ps_blocks *shadow = resident->shadow;
    struct ps_device_due ready = {0};
    if (shadow->size < PS_BLOCK_BYTES)
        PS_TRY(plugin->read(resident->handle, PS_DEVICE_VALUES, 0, ps_blocks_part(shadow, 0),
                            shadow->size, error));
    for (size_t i = 0; shadow->size >= PS_BLOCK_BYTES && i < shadow->block_count;) {
        size_t count = count_stale(resident, i);
        if (count > 0)
            PS_TRY(plugin->read_begin(resident->handle, PS_DEVICE_VALUES, i * PS_BLOCK_BYTES,
                                      &shadow->pieces[i], count, &ready.ticket, error));
        i += count + 1;
    }
    PS_ASSERT(shadow->block_count == resident->block_count);
    memset(resident->stale, false, shadow->block_count);
    resident->shadow_ready = ready;
    return PS_OK;
}

/* How many blocks from `first` on are stale, one after another. */
static size_t count_stale(const struct ps_resident *resident, size_t first)
{
    size_t end = first;
    PS_ASSERT(first < resident->shadow->block_count);
    while (end < resident->shadow->block_count && resident->stale[end])
        end++;
    return end - first;
}

/* The shadow is not asked: what is on the device is newer, and nothing of it is to come to the
 * host. Gathered pushes belong to the version that is copied. */
enum ps_status ps_resident_copy_out(struct ps_resident *resident,
                                    const struct ps_parameter_spec *spec, uint8_t *to,
                                    struct ps_device_due *ready, struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL);
    *ready = (struct ps_device_due){0};
    PS_TRY(flush(resident, error));
    return resident->store->plugin->copy_out(resident->handle, PS_DEVICE_VALUES, 0, to,
                                             ps_parameter_spec_bytes(spec), &ready->ticket, error);
}

/* Which of two it was: the limit on pinned memory, which readers will give back, so that it helps
 * to ask again; or the machine's own memory. Whole blocks come from pinned memory alone. */
static enum ps_status fail_shadow(const struct ps_device_store *store,
                                  const struct ps_parameter_spec *spec, struct ps_error *error)
{
    uint64_t most = ps_device_store_pinned_max(store);
    if (ps_parameter_spec_bytes(spec) >= PS_BLOCK_BYTES &&
        atomic_load(&store->pinned_bytes) + PS_SLAB_BYTES > most)
        return ps_fail(error, PS_ERR_BUSY,
                       "parameter: %.40s, readers of older values hold all of %llu bytes: ask "
                       "again (--device-readers-bytes)",
                       (const char *)spec->name.data, (unsigned long long)most);
    return ps_fail(error, PS_ERR_NO_MEMORY,
                   "parameter: %s, no memory to read %zu bytes from the device",
                   (const char *)spec->name.data, ps_parameter_spec_bytes(spec));
}

/* A snapshot is of one instant: pushes that have their position belong to it, so none may be left
 * in the gather. */
enum ps_status ps_resident_snapshot(struct ps_resident *resident,
                                    struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    PS_ASSERT(resident->store != NULL && snapshot != NULL);
    PS_TRY(flush(resident, error));
    return resident->store->plugin->snapshot_take(resident->handle, snapshot, error);
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Tickets of one queue are done in their order, so the higher one stands for both. */
void ps_device_due_join(struct ps_device_due *all, const struct ps_device_due *one)
{
    all->gather = most_of(all->gather, one->gather);
    all->ticket.compute = most_of(all->ticket.compute, one->ticket.compute);
    all->ticket.copy_out = most_of(all->ticket.copy_out, one->ticket.copy_out);
}

/* A gather that is still open has no ticket: it is flushed, and then waited for by the ticket that
 * this gave. What was seen to be done is remembered for all: most replies wait for work that
 * another reply has waited for before, and asking the driver takes longer than this comparison. */
enum ps_status ps_device_store_wait(struct ps_device_store *store, struct ps_device_due due,
                                    struct ps_error *error)
{
    if (due.gather == 0 && due.ticket.compute == 0 && due.ticket.copy_out == 0)
        return PS_OK;
    PS_ASSERT(store != NULL);
    /* Gathers and tickets are numbers that rise, so "done up to here" is one number for each
     * queue. */
    if (due.gather > atomic_load(&store->gather_done)) {
        struct ps_device_ticket ticket;
        PS_TRY(ps_device_gather_flush(&store->gather, due.gather, &ticket, error));
        due.ticket.compute = most_of(due.ticket.compute, ticket.compute);
    }
    if (due.ticket.compute > atomic_load(&store->compute_done) ||
        due.ticket.copy_out > atomic_load(&store->copy_out_done))
        PS_TRY(store->plugin->wait(store->device, due.ticket, error));
    raise_to(&store->gather_done, due.gather);
    raise_to(&store->compute_done, due.ticket.compute);
    raise_to(&store->copy_out_done, due.ticket.copy_out);
    return PS_OK;
}

/* Never lowers: of two threads that come from two waits, the one that waited for less may be the
 * later. */
static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t present = atomic_load(most);
    while (present < value && !atomic_compare_exchange_weak(most, &present, value)) {
    }
}
