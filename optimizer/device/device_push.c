/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients on their way: cut into parts, copied once from wherever the message left them into a
 * slot, and applied by one launch for each slot. What fits into one slot together goes together. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

/* The slot that is being filled. */
struct pack {
    struct ps_device *device;
    struct ps_slot *slot; /* NULL: none yet */
    uint64_t number;
    size_t used; /* bytes of gradients */
    size_t entry_count;
    struct ps_cuda_apply first; /* the only entry, if there is one alone */
    const uint8_t *direct;      /* the only gradient, in registered memory; NULL: in the slot */
    struct ps_slot *lent; /* not held: its last copy came from registered memory; NULL: none */
};

static enum ps_status push_one(struct pack *pack, const struct ps_device_push *push,
                               struct ps_error *error);
static enum ps_status add_part(struct pack *pack, const struct ps_device_push *push,
                               const struct ps_gradient_source *source,
                               const struct ps_gradient_part *part, struct ps_error *error);
static bool goes_in(const struct pack *pack, const struct ps_device_push *push,
                    const struct ps_gradient_part *part);
static enum ps_status open_pack(struct pack *pack, struct ps_error *error);
static void add_entry(struct pack *pack, const struct ps_optimizer_step *step,
                      const struct ps_cuda_run *run);
static enum ps_status close_pack(struct pack *pack, struct ps_error *error);
static enum ps_status await_lent(struct pack *pack, struct ps_error *error);
static size_t fill_chunks(struct pack *pack, uint64_t *chunk_count);
static enum ps_status queue_launch(struct pack *pack, uint64_t chunk_count, struct ps_error *error);
static enum ps_status mark_push(struct ps_device *device, struct ps_device_ticket *ticket,
                                struct ps_error *error);

/* All pushes of a message together, since many small ones fill one slot and go in one launch.
 * Snapshots that still share memory with a parameter are given their copy first. On an error the
 * parameters are in no known state, and the device is dead: the server continues from its
 * journal. */
enum ps_status ps_device_push_all(struct ps_device *device, const struct ps_device_push *pushes,
                                  size_t count, struct ps_device_ticket *ticket,
                                  struct ps_error *error)
{
    PS_TRY(ps_device_enter(device, error));
    for (size_t i = 0; i < count; i++)
        /* All of them first: once a launch is queued, nothing may fail that could be known
         * before. */
        PS_TRY(ps_device_make_way(pushes[i].parameter, error));
    struct pack pack = {.device = device};
    enum ps_status status = PS_OK;
    for (size_t i = 0; status == PS_OK && i < count; i++)
        status = push_one(&pack, &pushes[i], error);
    if (status == PS_OK)
        status = close_pack(&pack, error);
    if (status == PS_OK)
        status = await_lent(&pack, error);
    if (status != PS_OK) {
        ps_slot_return(device, pack.slot);
        return status;
    }
    atomic_fetch_add(&device->push_count, count);
    return mark_push(device, ticket, error);
}

/* A skipped push never comes here, and its size was checked when the message was read. */
static enum ps_status push_one(struct pack *pack, const struct ps_device_push *push,
                               struct ps_error *error)
{
    const struct ps_device_parameter *parameter = push->parameter;
    const struct ps_gradient_source source = {.content = push->gradient,
                                              .encoding = push->encoding,
                                              .dtype = parameter->dtype,
                                              .count = parameter->count};
    PS_ASSERT(!push->step->skip);
    PS_ASSERT(push->step->dtype == parameter->dtype);
    PS_ASSERT(source.encoding == PS_ENCODING_TOP_K ||
              source.content.size == ps_gradient_source_bytes(&source));
    const uint8_t *place = ps_device_in_place(pack->device, &source);
    if (place != NULL) {
        /* Behind what was packed before it, which may be of the same parameter. */
        PS_TRY(close_pack(pack, error));
        return ps_device_push_in_place(push->parameter, &source, place, push->step, error);
    }
    struct ps_gradient_part part = {0};
    /* Usually one part; a gradient that is larger than a slot has several, each in a slot of its
     * own. */
    for (;;) {
        part = ps_gradient_part_next(&source, &part, pack->device->ring.slot_bytes);
        if (part.count == 0)
            break;
        PS_TRY(add_part(pack, push, &source, &part, error));
    }
    atomic_fetch_add(&pack->device->bytes_in, push->gradient.size);
    return PS_OK;
}

/* Reads that were begun before must see what was there: the update waits for those that touch
 * these elements, on the device, while this thread goes on. */
static enum ps_status add_part(struct pack *pack, const struct ps_device_push *push,
                               const struct ps_gradient_source *source,
                               const struct ps_gradient_part *part, struct ps_error *error)
{
    struct ps_device_parameter *parameter = push->parameter;
    /* Bytes of others go alone, from where they are. */
    const uint8_t *direct = ps_device_direct(pack->device, source, part);
    if (direct != NULL || !goes_in(pack, push, part))
        PS_TRY(close_pack(pack, error));
    PS_TRY(open_pack(pack, error));
    PS_TRY(ps_device_await_readers(parameter, part->first, part->count, error));
    uint8_t *place = pack->slot->device + pack->used;
    PS_ASSERT(direct == NULL || pack->used == 0);
    /* The slot's host half stays unused then; the table behind it does not. */
    if (direct == NULL)
        ps_gradient_part_copy(source, part, pack->slot->host + pack->used);
    struct ps_cuda_run run = ps_device_run(parameter, source, part, place);
    add_entry(pack, push->step, &run);
    pack->direct = direct;
    pack->used += direct == NULL ? part->bytes : ps_gradient_part_bytes(source, part);
    parameter->pack = pack->number;
    return PS_OK;
}

/* The same description serves a launch for one run and an entry of a table. */
struct ps_cuda_run ps_device_run(const struct ps_device_parameter *parameter,
                                 const struct ps_gradient_source *source,
                                 const struct ps_gradient_part *part, const uint8_t *place)
{
    struct ps_cuda_run run = {.first = part->first,
                              .count = part->count,
                              .gradient = ps_gradient_part_at(source, part, place)};
    size_t offset = (size_t)part->first * ps_dtype_size(parameter->dtype);
    run.values = ps_device_parameter_array(parameter, 0) + offset;
    for (uint32_t i = 1; i < parameter->array_count; i++)
        run.states[i - 1] = ps_device_parameter_array(parameter, i) + offset;
    return run;
}

/* One launch has one rule and one type, and never two gradients for one element. A list has no
 * bound on the elements it stands for, and so none on its chunks: it goes alone. */
static bool goes_in(const struct pack *pack, const struct ps_device_push *push,
                    const struct ps_gradient_part *part)
{
    if (pack->slot == NULL || pack->entry_count == 0)
        return true;
    /* What lies in memory of others is copied by itself: there is no second place in its slot. */
    if (pack->direct != NULL)
        return false;
    const struct ps_ring *ring = &pack->device->ring;
    /* The first entry stands for all: what goes in agrees with it. */
    const struct ps_optimizer_step *first = pack->first.step;
    /* Neither slot nor table has room for another. */
    if (part->bytes > ring->slot_bytes - pack->used || pack->entry_count == ring->entries_max)
        return false;
    /* A list stands for any number of elements, and the table's chunks are counted for gradients
     * that have a byte each. */
    if (push->encoding == PS_ENCODING_TOP_K ||
        pack->first.run.gradient.encoding == PS_ENCODING_TOP_K)
        return false;
    /* The same parameter twice in one message: two updates of one element have an order, which
     * one launch does not keep. */
    if (part->first == 0 && push->parameter->pack == pack->number)
        return false;
    return first->dtype == push->step->dtype &&
           first->settings->rule == push->step->settings->rule &&
           first->settings->overflow == push->step->settings->overflow;
}

/* The number of the pack is what tells two gradients for one parameter in one launch apart; it
 * is unique over all lanes. */
static enum ps_status open_pack(struct pack *pack, struct ps_error *error)
{
    struct ps_device *device = pack->device;
    if (pack->slot != NULL)
        return PS_OK;
    PS_TRY(ps_slot_take(device, &pack->slot, error));
    ps_mutex_lock(&device->lock);
    pack->number = ++device->pack_newest;
    ps_mutex_unlock(&device->lock);
    return PS_OK;
}

/* Entries are written on the host behind the gradients, and go over the bus with them. */
static void add_entry(struct pack *pack, const struct ps_optimizer_step *step,
                      const struct ps_cuda_run *run)
{
    struct ps_cuda_entry *entries = (void *)(pack->slot->host + pack->device->ring.slot_bytes);
    if (pack->entry_count == 0)
        pack->first = (struct ps_cuda_apply){.step = step, .run = *run};
    ps_cuda_entry_fill(step, run, NULL, &entries[pack->entry_count]);
    pack->entry_count++;
}

/* One entry is a launch of its own with the step in the kernel's arguments: no table has to be
 * fetched. Copy and launch are queued under one lock, so that the order of launches is that of
 * the slots. */
static enum ps_status close_pack(struct pack *pack, struct ps_error *error)
{
    struct ps_device *device = pack->device;
    if (pack->slot == NULL)
        return PS_OK;
    uint64_t chunk_count = 0;
    /* A table for many; for one, the arguments of the kernel are enough. */
    size_t table_bytes = pack->entry_count > 1 ? fill_chunks(pack, &chunk_count) : 0;
    ps_mutex_lock(&device->lock);
    const uint8_t *from = pack->direct == NULL ? pack->slot->host : pack->direct;
    enum ps_status status = ps_slot_send(device, pack->slot, from, pack->used, table_bytes, error);
    if (status == PS_OK)
        status = queue_launch(pack, chunk_count, error);
    ps_mutex_unlock(&device->lock);
    ps_slot_return(device, pack->slot);
    *pack = (struct pack){.device = device, .lent = pack->direct == NULL ? pack->lent : pack->slot};
    return status;
}

/* The caller's memory is the caller's again when the last of the copies is done, since copies keep
 * their order. The slot may have been given to others meanwhile: then this waits for a copy that
 * came later, which is as good. */
static enum ps_status await_lent(struct pack *pack, struct ps_error *error)
{
    if (pack->lent == NULL)
        return PS_OK;
    return ps_device_await_event(pack->device, pack->lent->copied, "waiting for a gradient's copy",
                                 error);
}

/* The list of chunks comes right behind the entries; returns the bytes of both. */
static size_t fill_chunks(struct pack *pack, uint64_t *chunk_count)
{
    const struct ps_ring *ring = &pack->device->ring;
    uint8_t *table = pack->slot->host + ring->slot_bytes;
    size_t entry_bytes = pack->entry_count * sizeof(struct ps_cuda_entry);
    const struct ps_cuda_entry *entries = (const void *)table;
    struct ps_cuda_chunk *chunks = (void *)(table + entry_bytes);
    for (size_t i = 0; i < pack->entry_count; i++)
        *chunk_count +=
            ps_cuda_chunks_fill((uint32_t)i, entries[i].run.count, &chunks[*chunk_count]);
    size_t bytes = entry_bytes + (size_t)*chunk_count * sizeof *chunks;
    /* choose_sizes has reckoned with the worst: every entry with a chunk that is not full. */
    PS_ASSERT(bytes <= ring->behind_bytes);
    return bytes;
}

/* The event behind the launch is what the next user of the slot waits for (W2). */
static enum ps_status queue_launch(struct pack *pack, uint64_t chunk_count, struct ps_error *error)
{
    struct ps_device *device = pack->device;
    struct ps_driver *driver = &device->driver;
    struct ps_slot *slot = pack->slot;
    struct ps_driver_stream *stream = device->compute.stream;
    const struct ps_optimizer_step *step = pack->first.step;
    int code = 0;
    if (PS_DEVICE_MISSING_WAIT != 3)
        code = driver->stream_wait(driver->self, stream, slot->copied); /* W3 */
    if (code == 0 && pack->entry_count == 1)
        code = driver->apply(driver->self, &pack->first, stream);
    /* Addresses in the table are the device's, computed here from the slot's. */
    if (code == 0 && pack->entry_count > 1) {
        const uint8_t *table = slot->device + device->ring.slot_bytes;
        size_t entry_bytes = pack->entry_count * sizeof(struct ps_cuda_entry);
        const struct ps_cuda_table launch = {.rule = step->settings->rule,
                                             .dtype = step->dtype,
                                             .overflow = step->settings->overflow,
                                             .entries = (const void *)table,
                                             .chunks = (const void *)(table + entry_bytes),
                                             .chunk_count = chunk_count};
        code = driver->table(driver->self, &launch, stream);
    }
    if (code == 0)
        code = driver->record(driver->self, slot->done, stream);
    atomic_fetch_add(&device->launch_count, 1);
    return ps_device_check_code(device, code, "launching an update", error);
}

/* One ticket for all pushes of the call: its wait is for the last of them. */
static enum ps_status mark_push(struct ps_device *device, struct ps_device_ticket *ticket,
                                struct ps_error *error)
{
    *ticket = (struct ps_device_ticket){0};
    ps_mutex_lock(&device->lock);
    enum ps_status status = ps_timeline_mark(device, &device->compute, &ticket->compute, error);
    ps_mutex_unlock(&device->lock);
    return status;
}
