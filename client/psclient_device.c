/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin of a device, for the side that shares its memory. The library links nothing of CUDA:
 * what a GPU is, the same plugin knows that servers load. */
#include "client/psclient_device.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/client_device.h"
#include "client/status_map.h"
#include "optimizer/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Letters of a name: it becomes a part of a file's. */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz"

/* Where the library itself is: neither the working folder nor the environment decides what code is
 * loaded. A program that has the client linked in finds plugins beside itself. */
static bool find(const char *name, char path[PATH_MAX])
{
    static const char *const folders[] = {"", "pserver/", "../lib/pserver/"};
    static const char here = 0;
    char file[PATH_MAX];
    Dl_info info;
    if (dladdr(&here, &info) == 0 || realpath(info.dli_fname, file) == NULL)
        return false;
    char *slash = strrchr(file, '/');
    PS_ASSERT(slash != NULL);
    slash[1] = '\0';
    /* A build and a wheel have both in one folder; an installation has plugins in a folder of their
     * own, since they are no libraries to link with. */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        int size = snprintf(path, PATH_MAX, "%s%slibpserver_%s.so", file, folders[i], name);
        if (size > 0 && size < PATH_MAX && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* The version is compared twice: by the entry, which may know older ones, and by us. */
static enum ps_status load(const char *path, const struct ps_device_plugin **plugin,
                           struct ps_error *error)
{
    /* Never closed: CUDA keeps threads that would run into nothing. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, PS_DEVICE_ENTRY) : NULL;
    if (symbol == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the plugin cannot be loaded: %.140s", dlerror());
    /* The entry is the only symbol that a plugin shows.
     * C has no cast from an object's pointer to a function's; POSIX promises the same bytes. */
    ps_device_entry_fn *entry;
    memcpy(&entry, &symbol, sizeof entry);
    *plugin = entry(PS_DEVICE_ABI);
    if (*plugin == NULL || (*plugin)->abi != PS_DEVICE_ABI)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the plugin %.140s is of another version", path);
    return PS_OK;
}

/* A path is the caller's own choice, and is taken as it is; a name is looked for. Neither needs a
 * driver yet: a program may load the plugin before it knows whether it will use a GPU. */
static enum ps_status open_device(const char *plugin, struct psclient_device **device,
                                  struct ps_error *error)
{
    const struct ps_device_plugin *found = NULL;
    char path[PATH_MAX];
    const char *name = plugin != NULL ? plugin : "cuda";
    bool is_path = strchr(name, '/') != NULL;
    if (!is_path && strspn(name, NAME_LETTERS) != strlen(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.40s is no plugin's name", name);
    if (!is_path && !find(name, path))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "there is no plugin libpserver_%.40s.so beside the library", name);
    PS_TRY(load(is_path ? name : path, &found, error));
    /* Of the heap, and not of a client's memory: it belongs to no client. */
    struct psclient_device *made = ps_zeroed(ps_allocator_heap(), sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a device");
    made->sharing = &found->sharing;
    *device = made;
    return PS_OK;
}

/* In the public words, which are fewer. */
static int told(enum ps_status status, const struct ps_error *why, struct psclient_error *error)
{
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why->text);
}

PS_EXPORT int psclient_device_load(const char *plugin, struct psclient_device **device,
                                   struct psclient_error *error)
{
    struct ps_error why = {0};
    return told(open_device(plugin, device, &why), &why, error);
}

/* Only our own struct ends. The library behind it stays, since CUDA's threads may run in it. */
PS_EXPORT void psclient_device_unload(struct psclient_device *device)
{
    if (device != NULL)
        ps_release(ps_allocator_heap(), device);
}

/* Memory that this gives has a name in any case, which cannot be said of memory of others. */
PS_EXPORT int psclient_device_acquire(struct psclient_device *device, size_t size, void **memory,
                                      struct psclient_error *error)
{
    struct ps_error why = {0};
    return told(device->sharing->acquire(size, memory, &why), &why, error);
}

PS_EXPORT void psclient_device_release(struct psclient_device *device, void *memory)
{
    device->sharing->release(memory);
}

/* Both copies wait: whoever calls them is a test, or a program that does so once. */
PS_EXPORT int psclient_device_copy_in(struct psclient_device *device, void *memory,
                                      const void *from, size_t size, struct psclient_error *error)
{
    struct ps_error why = {0};
    return told(device->sharing->copy(memory, from, size, PS_DEVICE_COPY_FROM_HOST, &why), &why,
                error);
}

PS_EXPORT int psclient_device_copy_out(struct psclient_device *device, void *to, const void *memory,
                                       size_t size, struct psclient_error *error)
{
    struct ps_error why = {0};
    return told(device->sharing->copy(to, memory, size, PS_DEVICE_COPY_TO_HOST, &why), &why, error);
}

/* For a server that cannot reach the memory. On the thread that drives the client, which waits for
 * the bus meanwhile: so do all other calls of the client, as they would for any copy of that size.
 * */
static bool fetch(void *self, void *to, const uint8_t *from, size_t size)
{
    /* Why it failed is not told: the push then fails with what the server has said. */
    const struct psclient_device *device = self;
    return device->sharing->copy(to, from, size, PS_DEVICE_COPY_TO_HOST, NULL) == PS_OK;
}

/* Asked with every call and not remembered: an address may belong to another piece by now, and the
 * driver answers in microseconds. What has been told to servers is known by the name. */
enum ps_status ps_client_device_place(struct psclient_device *device, const void *memory,
                                      struct ps_device_place *place, struct ps_error *error)
{
    uint8_t *base = NULL;
    /* Whole, also where it fails: the caller may keep it in a list. */
    *place = (struct ps_device_place){.fetch = fetch, .self = device};
    PS_TRY(device->sharing->name(memory, &place->share, &base, error));
    place->base = base;
    return PS_OK;
}
