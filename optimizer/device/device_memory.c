/* SPDX-License-Identifier: Apache-2.0 */
/* The device's memory for parameters and copies of them. What is given back is kept, and given out
 * again to whoever asks for as much: freeing would wait for all that is queued, and a checkpoint
 * asks for the same pieces each time. What is kept counts for nobody, and goes where the budget, or
 * the device, has no room for something new. */
#include "optimizer/device/runtime.h"

#include "base/assert.h"

static void *take_kept(struct ps_device *device, uint64_t size, struct ps_error *error);
static enum ps_status ask_driver(struct ps_device *device, uint64_t size, const char *purpose,
                                 void **memory, struct ps_error *error);
static bool free_oldest(struct ps_device *device, bool anyway);
static void free_piece(struct ps_device *device, void *memory);
static struct ps_kept_piece remove_piece(struct ps_kept_memory *kept, size_t i);

/* The budget is asked first, and pays for kept memory as for new: what is kept belongs to
 * nobody, and may be freed to make room. */
enum ps_status ps_device_acquire_memory(struct ps_device *device, uint64_t size,
                                        const char *purpose, uint8_t **out, struct ps_error *error)
{
    PS_TRY(ps_budget_reserve(&device->budget, size, error));
    void *memory = take_kept(device, size, error);
    enum ps_status status = PS_OK;
    if (memory == NULL)
        status = ask_driver(device, size, purpose, &memory, error);
    if (status != PS_OK) {
        ps_budget_release(&device->budget, size);
        return status;
    }
    *out = memory;
    return PS_OK;
}

/* Whoever had it queued his last work on the compute stream, or reads that copy_out may not have
 * come to: the next one's work comes behind both. */
static void *take_kept(struct ps_device *device, uint64_t size, struct ps_error *error)
{
    struct ps_kept_memory *kept = &device->kept;
    struct ps_kept_piece piece = {0};
    enum ps_status status = PS_OK;
    ps_mutex_lock(&device->lock);
    for (size_t i = 0; i < kept->count && piece.memory == NULL; i++)
        if (kept->pieces[i].size == size)
            piece = remove_piece(kept, i);
    if (piece.read != 0 && PS_DEVICE_MISSING_WAIT != 10)
        status =
            ps_timeline_await(device, &device->copy_out, piece.read, device->compute.stream, error);
    ps_mutex_unlock(&device->lock);
    /* Dead: its memory is nobody's any more. */
    return status == PS_OK ? piece.memory : NULL;
}

/* Kept pieces of other sizes go first where the budget has no room beside them, and all of them
 * one by one where the device itself has none: fragmentation is no reason to refuse. */
static enum ps_status ask_driver(struct ps_device *device, uint64_t size, const char *purpose,
                                 void **memory, struct ps_error *error)
{
    struct ps_driver *driver = &device->driver;
    while (free_oldest(device, false)) {
    }
    int code = driver->device_acquire(driver->self, (size_t)size, memory);
    while (code == PS_FAULT_OUT_OF_MEMORY && free_oldest(device, true))
        code = driver->device_acquire(driver->self, (size_t)size, memory);
    return ps_device_check_memory(device, code, purpose, size, error);
}

/* False when there is none, or, but for `anyway`, when the budget has room for what is kept beside
 * what is used. */
static bool free_oldest(struct ps_device *device, bool anyway)
{
    struct ps_kept_memory *kept = &device->kept;
    struct ps_kept_piece piece = {0};
    ps_mutex_lock(&device->lock);
    uint64_t used = atomic_load(&device->budget.used);
    /* The budget counts what is used; kept pieces may take what is left of it and no more. */
    bool is_tight = anyway || kept->bytes > device->budget.limit - used;
    if (is_tight && kept->count > 0)
        piece = remove_piece(kept, 0);
    ps_mutex_unlock(&device->lock);
    if (piece.memory != NULL)
        free_piece(device, piece.memory);
    return piece.memory != NULL;
}

/* A dead device takes its memory along.
 * The driver waits for all that is queued before it frees, which may be long: the watch knows of
 * it. */
static void free_piece(struct ps_device *device, void *memory)
{
    static const char action[] = "giving memory back";
    struct ps_wait wait;
    if (ps_device_enter(device, NULL) != PS_OK)
        return;
    ps_wait_begin(&device->watch, &wait, action);
    int code = device->driver.device_release(device->driver.self, memory);
    ps_wait_end(&device->watch, &wait);
    (void)!ps_device_check_code(device, code, action, NULL);
}

/* In order of age; there are few of them. */
static struct ps_kept_piece remove_piece(struct ps_kept_memory *kept, size_t i)
{
    struct ps_kept_piece piece = kept->pieces[i];
    kept->count--;
    kept->bytes -= piece.size;
    for (; i < kept->count; i++)
        kept->pieces[i] = kept->pieces[i + 1];
    return piece;
}

/* Nothing waits here: the piece remembers the newest read, and the next owner's work comes
 * behind it. */
void ps_device_release_memory(struct ps_device *device, uint8_t *memory, uint64_t size)
{
    struct ps_kept_memory *kept = &device->kept;
    struct ps_kept_piece unwanted = {0};
    ps_mutex_lock(&device->lock);
    if (kept->count == PS_KEPT_MAX)
        unwanted = remove_piece(kept, 0);
    kept->pieces[kept->count++] =
        (struct ps_kept_piece){.memory = memory, .size = size, .read = device->copy_out.newest};
    kept->bytes += size;
    ps_budget_release(&device->budget, size);
    ps_mutex_unlock(&device->lock);
    if (unwanted.memory != NULL)
        free_piece(device, unwanted.memory);
}

void ps_device_free_kept(struct ps_device *device)
{
    while (free_oldest(device, true)) {
    }
}
