/* SPDX-License-Identifier: Apache-2.0 */
/* A death is met by any thread that asks the device for something, with whatever locks it holds:
 * nothing here waits for one but for the coordinator's mail box. */
#include "server/device_guard.h"

#include "base/assert.h"
#include "server/device_record.h"

#include <signal.h>
#include <unistd.h>

static void on_died(void *self, const char *text);

/* The guard is told of a death from here on, when nobody is there yet who could be told further. */
enum ps_status ps_device_guard_open(struct ps_device_guard *guard,
                                    const struct ps_pserver_options *options,
                                    const struct ps_log *log, int signal, struct ps_error *error)
{
    PS_ASSERT(options != NULL && signal >= 0);
    const struct ps_device_choice_options wish = {
        .device = options->device,
        .data_dir = options->data_dir,
        .memory_bytes = options->device_memory_bytes,
        .min_bytes = options->device_min_bytes,
        .readers_bytes = options->device_readers_bytes,
        .wait_ms = options->device_timeout_ms,
        .log = log,
        .died = on_died,
        .self = guard,
    };
    /* The guard is filled in first, since the device may die while it is tried. */
    *guard = (struct ps_device_guard){.log = log, .data_dir = options->data_dir, .signal = signal};
    return ps_device_choose(&wish, &guard->choice, error);
}

void ps_device_guard_close(struct ps_device_guard *guard)
{
    ps_device_choice_close(&guard->choice);
}

/* NULL means the host, which is what the service takes. */
struct ps_device_store *ps_device_guard_store(struct ps_device_guard *guard)
{
    return guard->choice.store.device != NULL ? &guard->choice.store : NULL;
}

/* By the first push that gains by it, on that push's thread: whoever shares memory waits for this
 * once, and nobody else does.
 * A refusal is said once for each memory: pushes from it take longer, and nothing else. */
static bool pin(void *self, void *memory, size_t size)
{
    struct ps_device_guard *guard = self;
    const struct ps_device_store *store = &guard->choice.store;
    struct ps_error why = {0};
    /* Without a device nobody was given this function. */
    PS_ASSERT(store->device != NULL && size > 0);
    if (store->plugin->host_register(store->device, memory, size, &why) == PS_OK)
        return true;
    PS_LOG(guard->log, PS_LOG_INFO, "device", "a client's memory is not registered",
           PS_FIELD_ERROR(&why));
    return false;
}

/* Also of a dead device, which says no more: what it was given to copy from is unmapped next. */
static void unpin(void *self, void *memory)
{
    struct ps_device_guard *guard = self;
    const struct ps_device_store *store = &guard->choice.store;
    PS_ASSERT(store->device != NULL);
    store->plugin->host_unregister(store->device, memory);
}

/* The device is closed when no client's memory is mapped any more: the lanes end before it, and
 * with them the thread that takes memory. */
struct ps_shared_pins ps_device_guard_pins(struct ps_device_guard *guard)
{
    /* On the host an update reads the memory where it is, and pages that nobody touched need not
     * exist: nothing is registered there. The same for a device that could not be had. */
    if (guard->choice.store.device == NULL)
        return (struct ps_shared_pins){0};
    return (struct ps_shared_pins){.pin = pin, .unpin = unpin, .self = guard};
}

/* On the thread that takes memory from clients. */
static enum ps_status import(void *self, const struct ps_device_share *share, uint8_t **memory,
                             struct ps_error *error)
{
    const struct ps_device_store *store = &((struct ps_device_guard *)self)->choice.store;
    PS_ASSERT(store->device != NULL);
    return store->plugin->import(store->device, share, memory, error);
}

/* Also of a dead device: the client is told that nobody reads its memory any more. */
static void unimport(void *self, uint8_t *memory)
{
    const struct ps_device_store *store = &((struct ps_device_guard *)self)->choice.store;
    store->plugin->unimport(store->device, memory);
}

/* For what the host has to look at: a journal's record, a parameter that lives on the host. */
static enum ps_status read_device(void *self, void *to, const uint8_t *from, size_t size,
                                  struct ps_error *error)
{
    const struct ps_device_store *store = &((struct ps_device_guard *)self)->choice.store;
    return store->plugin->import_read(store->device, to, from, size, error);
}

/* For values that the host has: those of a version that is kept, or of a parameter that lives
 * there. */
static enum ps_status write_device(void *self, uint8_t *to, struct ps_view content,
                                   struct ps_error *error)
{
    const struct ps_device_store *store = &((struct ps_device_guard *)self)->choice.store;
    return store->plugin->import_write(store->device, to, content, error);
}

/* As the pins: nothing without a device. */
struct ps_shared_devices ps_device_guard_devices(struct ps_device_guard *guard)
{
    if (guard->choice.store.device == NULL)
        return (struct ps_shared_devices){0};
    return (struct ps_shared_devices){.import = import,
                                      .unimport = unimport,
                                      .read = read_device,
                                      .write = write_device,
                                      .self = guard};
}

/* Before the first parameter is placed, and again with no driver before that one ends: a death in
 * between is seen by the main thread's signal. */
void ps_device_guard_watch(struct ps_device_guard *guard, struct ps_service *service,
                           struct ps_coordinator_driver *driver)
{
    PS_ASSERT(service != NULL || driver == NULL);
    guard->service = service;
    guard->driver = driver;
}

/* Any thread may ask. Once the answer is true, the text of the death is whole. */
bool ps_device_guard_died(const struct ps_device_guard *guard)
{
    return atomic_load(&guard->died);
}

/* The order matters. First nothing is acknowledged any more, since every result of the device is in
 * doubt. Then the death is written where others read it, and the flag is set that says so. Only
 * then is the process signalled and the shard given back: whoever is woken finds all of it. kill()
 * is safe from any thread and with any lock held. */
static void on_died(void *self, const char *text)
{
    PS_ASSERT(text != NULL);
    struct ps_device_guard *guard = self;
    if (guard->service != NULL)
        ps_service_break(guard->service);
    PS_LOG(guard->log, PS_LOG_ERROR, "device", "device died",
           PS_FIELD_TEXT("device", guard->choice.text), PS_FIELD_TEXT("error", text));
    (void)ps_fail(&guard->death, PS_ERR_UNAVAILABLE, "%s", text);
    atomic_store(&guard->died, true);
    /* The main thread waits for signals and for nothing else. */
    (void)kill(getpid(), guard->signal);
    if (guard->driver != NULL)
        ps_coordinator_driver_tell_broken(guard->driver, &guard->death);
}

/* By the main thread and after all else, since it waits for the disk. */
void ps_device_guard_note_death(struct ps_device_guard *guard)
{
    const struct ps_device_store *store = &guard->choice.store;
    /* Wall time, since the record outlives the machine's uptime. */
    uint64_t unix_seconds = ps_unix_ns(ps_clock_real()) / 1000000000;
    struct ps_device_facts facts;
    struct ps_error why = {0};
    if (guard->data_dir == NULL || !ps_device_guard_died(guard))
        return;
    store->plugin->facts(store->device, &facts);
    if (ps_device_record_add(ps_files_real(), guard->data_dir, facts.uuid, unix_seconds,
                             guard->death.text, &why) != PS_OK)
        PS_LOG(guard->log, PS_LOG_WARN, "device", "the failure was not noted",
               PS_FIELD_ERROR(&why));
}
