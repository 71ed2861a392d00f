/* Between the core and a device's plugin. */
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
    const struct ps_slab_source source = {take_pinned, give_pinned, store};
    *store = (struct ps_device_store){.plugin = plugin, .device = device, .log = log};
    store->pinned = ps_block_pool_create_over(&source, ps_allocator_heap());
    if (store->pinned == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the device's store");
    enum ps_status status = ps_device_gather_open(&store->gather, plugin, device, error);
    if (status != PS_OK)
        ps_device_store_close(store);
    return status;
}

void ps_device_store_close(struct ps_device_store *store)
{
    ps_device_gather_close(&store->gather);
    ps_block_pool_destroy(store->pinned);
    *store = (struct ps_device_store){0};
}

static void *take_pinned(void *self)
{
    struct ps_device_store *store = self;
    uint64_t bytes = atomic_fetch_add(&store->pinned_bytes, PS_SLAB_BYTES) + PS_SLAB_BYTES;
    void *slab = NULL;
    if (bytes <= ps_device_store_pinned_max(store))
        slab = store->plugin->host_acquire(store->device, PS_SLAB_BYTES);
    if (slab == NULL)
        atomic_fetch_sub(&store->pinned_bytes, PS_SLAB_BYTES);
    return slab;
}

static void give_pinned(void *self, void *slab)
{
    struct ps_device_store *store = self;
    store->plugin->host_release(store->device, slab, PS_SLAB_BYTES);
    atomic_fetch_sub(&store->pinned_bytes, PS_SLAB_BYTES);
}

/* Whole slabs. */
uint64_t ps_device_store_pinned_max(const struct ps_device_store *store)
{
    uint64_t copies = atomic_load(&store->copies_bytes);
    uint64_t readers = store->readers_bytes;
    if (readers == 0)
        readers = copies > PS_READERS_BYTES ? copies : PS_READERS_BYTES;
    return (copies + readers + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
}

enum ps_status ps_resident_place(struct ps_device_store *store, struct ps_parameter_spec *spec,
                                 struct ps_resident *resident, struct ps_error *reason)
{
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
    if (status == PS_ERR_UNAVAILABLE)
        return status;
    PS_LOG(store->log, PS_LOG_WARN, "device", "parameter stays on the cpu",
           PS_FIELD_TEXT("name", (const char *)spec->name.data),
           PS_FIELD_UINT("bytes", ps_parameter_spec_bytes(spec) *
                                      (1 + (uint64_t)ps_rule_states(spec->settings.rule))),
           PS_FIELD_ERROR(reason));
    return PS_OK;
}

static size_t block_count_of(const struct ps_parameter_spec *spec)
{
    return (ps_parameter_spec_bytes(spec) + PS_BLOCK_BYTES - 1) / PS_BLOCK_BYTES;
}

/* The flags come behind the versions. */
static bool get_marks(struct ps_resident *resident, const struct ps_parameter_spec *spec)
{
    size_t count = block_count_of(spec);
    resident->memory = spec->memory;
    resident->written = ps_zeroed(spec->memory, count * (sizeof resident->written[0] + 1));
    if (resident->written == NULL)
        return false;
    resident->stale = (bool *)&resident->written[count];
    memset(resident->stale, true, count);
    resident->block_count = count;
    atomic_fetch_add(&resident->store->copies_bytes, (uint64_t)count * PS_BLOCK_BYTES);
    return true;
}

void ps_resident_wrote(struct ps_resident *resident, const struct ps_parameter_spec *spec,
                       const bool *touched, uint64_t version)
{
    size_t count = block_count_of(spec);
    for (size_t i = 0; i < count; i++) {
        if (touched != NULL && !touched[i])
            continue;
        resident->written[i] = version;
        resident->stale[i] = true;
    }
}

void ps_resident_release(struct ps_resident *resident)
{
    if (resident->store == NULL)
        return;
    ps_blocks_release(resident->shadow);
    ps_release(resident->memory, resident->written);
    atomic_fetch_sub(&resident->store->copies_bytes,
                     (uint64_t)resident->block_count * PS_BLOCK_BYTES);
    (void)!flush(resident, NULL);
    resident->store->plugin->parameter_destroy(resident->handle);
    *resident = (struct ps_resident){0};
}

enum ps_status ps_resident_set(struct ps_resident *resident, uint32_t array, uint64_t offset,
                               struct ps_view content, struct ps_error *error)
{
    return resident->store->plugin->write(resident->handle, array, offset, content, error);
}

enum ps_status ps_resident_make_way(const struct ps_resident *resident, struct ps_error *error)
{
    return resident->store->plugin->make_way(resident->handle, error);
}

bool ps_resident_judges(const struct ps_resident *resident, const struct ps_parameter_spec *spec,
                        struct ps_gradient gradient)
{
    const struct ps_device_store *store = resident->store;
    return store != NULL && gradient.content.size > PS_GATHER_GRADIENT_BYTES &&
           ps_gradient_scan_is_long(spec, gradient) &&
           store->plugin->judges(resident->handle, gradient.content, gradient.encoding);
}

enum ps_status ps_resident_judge(const struct ps_resident *resident,
                                 const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                                 struct ps_device_judged **judged, struct ps_gradient_scan *scan,
                                 struct ps_error *error)
{
    return resident->store->plugin->judge(resident->handle, &spec->settings, gradient.content,
                                          gradient.encoding, judged, scan, error);
}

enum ps_status ps_resident_push_judged(struct ps_resident *resident,
                                       struct ps_device_judged *judged,
                                       const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device_due due = {0};
    PS_TRY(flush(resident, error));
    PS_TRY(resident->store->plugin->push_judged(judged, step, &due.ticket, error));
    resident->newest = due;
    return PS_OK;
}

void ps_resident_judged_release(const struct ps_resident *resident, struct ps_device_judged *judged)
{
    if (judged != NULL)
        resident->store->plugin->judged_release(judged);
}

enum ps_status ps_resident_push(struct ps_resident *resident, struct ps_gradient gradient,
                                const struct ps_optimizer_step *step, struct ps_error *error)
{
    struct ps_device_store *store = resident->store;
    const struct ps_device_push push = {.parameter = resident->handle,
                                        .gradient = gradient.content,
                                        .encoding = gradient.encoding,
                                        .step = step};
    struct ps_device_due due = {0};
    if (gradient.content.size <= PS_GATHER_GRADIENT_BYTES) {
        PS_TRY(ps_device_gather_put(&store->gather, &push, &due.gather, error));
    } else {
        PS_TRY(flush(resident, error));
        PS_TRY(store->plugin->push(store->device, &push, 1, &due.ticket, error));
    }
    resident->newest = due;
    return PS_OK;
}

/* Nothing of this parameter is gathered any more. */
static enum ps_status flush(struct ps_resident *resident, struct ps_error *error)
{
    struct ps_device_due *newest = &resident->newest;
    if (newest->gather == 0)
        return PS_OK;
    PS_TRY(
        ps_device_gather_flush(&resident->store->gather, newest->gather, &newest->ticket, error));
    newest->gather = 0;
    return PS_OK;
}

/* While a reader holds a block it stays as it is, and there will be another. */
enum ps_status ps_resident_look(struct ps_resident *resident, struct ps_parameter_spec *spec,
                                struct ps_blocks **values, struct ps_device_due *ready,
                                struct ps_error *error)
{
    if (resident->shadow == NULL)
        resident->shadow = ps_blocks_create(spec);
    if (resident->shadow == NULL)
        return fail_shadow(resident->store, spec, error);
    if (is_stale(resident))
        PS_TRY(refresh(resident, error));
    *values = ps_blocks_acquire(resident->shadow);
    *ready = resident->shadow_ready;
    return PS_OK;
}

static bool is_stale(const struct ps_resident *resident)
{
    for (size_t i = 0; i < resident->shadow->block_count; i++)
        if (resident->stale[i])
            return true;
    return false;
}

static enum ps_status refresh(struct ps_resident *resident, struct ps_error *error)
{
    struct ps_blocks *from = resident->shadow;
    PS_TRY(flush(resident, error));
    struct ps_blocks *to = ps_blocks_begin_update(from, resident->stale);
    if (to == NULL)
        return fail_shadow(resident->store, from->spec, error);
    for (size_t i = 0; i < to->block_count; i++)
        if (resident->stale[i])
            (void)ps_blocks_update(from, to, i, resident->written[i]);
    ps_blocks_end_update(from, to);
    resident->shadow = to;
    return read_stale(resident, error);
}

/* What is smaller than a block lies in the heap, and is waited for; into the pinned memory of the
 * rest the device copies when it comes to it. */
static enum ps_status read_stale(struct ps_resident *resident, struct ps_error *error)
{
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
    memset(resident->stale, false, shadow->block_count);
    resident->shadow_ready = ready;
    return PS_OK;
}

/* From block `first` on, one after another. */
static size_t count_stale(const struct ps_resident *resident, size_t first)
{
    size_t end = first;
    while (end < resident->shadow->block_count && resident->stale[end])
        end++;
    return end - first;
}

/* Whole blocks come from pinned memory alone. */
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

enum ps_status ps_resident_snapshot(struct ps_resident *resident,
                                    struct ps_device_snapshot *snapshot, struct ps_error *error)
{
    PS_TRY(flush(resident, error));
    return resident->store->plugin->snapshot_take(resident->handle, snapshot, error);
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void ps_device_due_join(struct ps_device_due *all, const struct ps_device_due *one)
{
    all->gather = most_of(all->gather, one->gather);
    all->ticket.compute = most_of(all->ticket.compute, one->ticket.compute);
    all->ticket.copy_out = most_of(all->ticket.copy_out, one->ticket.copy_out);
}

enum ps_status ps_device_store_wait(struct ps_device_store *store, struct ps_device_due due,
                                    struct ps_error *error)
{
    if (due.gather == 0 && due.ticket.compute == 0 && due.ticket.copy_out == 0)
        return PS_OK;
    PS_ASSERT(store != NULL);
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

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t present = atomic_load(most);
    while (present < value && !atomic_compare_exchange_weak(most, &present, value)) {
    }
}
