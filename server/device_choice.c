/* SPDX-License-Identifier: Apache-2.0 */
/* From the words of --device to an open device. With "auto" nothing that goes wrong here keeps a
 * server from starting: it says in the log why it computes on the CPU. With the name of a device
 * everything does, since whoever names one has bought it and wants to know. */
#include "server/device_choice.h"

#include "base/assert.h"
#include "server/device_record.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Digits of an ordinal: nobody has that many devices. */
#define ORDINAL_DIGITS 4

static enum ps_status open_device(const struct ps_device_choice_options *options,
                                  const struct ps_device_name *name,
                                  struct ps_device_choice *choice, struct ps_error *error);
static enum ps_status check_record(const struct ps_device_choice_options *options,
                                   const struct ps_device_choice *choice, struct ps_error *error);
static enum ps_status load_plugin(const char *name, const struct ps_device_plugin **plugin,
                                  struct ps_error *error);
static bool find_plugin(const char *name, char path[PATH_MAX]);
static void choose_cpu(const struct ps_device_choice_options *options,
                       struct ps_device_choice *choice, const char *reason);
static void tell_device(const struct ps_device_choice_options *options,
                        struct ps_device_choice *choice);

/* Ordinals are what CUDA counts, which may change with the next reboot; a uuid names the card
 * itself. */
enum ps_status ps_device_name_parse(const char *text, struct ps_device_name *name,
                                    struct ps_error *error)
{
    PS_ASSERT(text != NULL);
    *name = (struct ps_device_name){.kind = PS_DEVICE_CUDA};
    /* No help names "emu": the emulated device is there for tests, on machines without a GPU. */
    if (strcmp(text, "auto") == 0)
        name->kind = PS_DEVICE_AUTO;
    else if (strcmp(text, "cpu") == 0)
        name->kind = PS_DEVICE_CPU;
    else if (strcmp(text, "emu") == 0)
        name->kind = PS_DEVICE_EMU;
    if (name->kind != PS_DEVICE_CUDA)
        return PS_OK;
    const char *which = strncmp(text, "cuda:", 5) == 0 ? text + 5 : "";
    /* strtoul alone would take "0x1" and " 7". */
    size_t digits = strspn(which, "0123456789");
    if (digits > 0 && digits <= ORDINAL_DIGITS && which[digits] == '\0') {
        name->ordinal = (uint32_t)strtoul(which, NULL, 10);
        return PS_OK;
    }
    if (strncmp(which, "GPU-", 4) == 0 || strncmp(which, "MIG-", 4) == 0) {
        name->uuid = which;
        return PS_OK;
    }
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "--device %.80s: expected auto, cpu, cuda:N or cuda:UUID (GPU-... or MIG-...)",
                   text);
}

/* A device is opened first and judged by its record afterwards, since its uuid is known only then.
 * */
enum ps_status ps_device_choose(const struct ps_device_choice_options *options,
                                struct ps_device_choice *choice, struct ps_error *error)
{
    PS_ASSERT(options->device != NULL);
    struct ps_device_name name;
    struct ps_error reason = {0};
    *choice = (struct ps_device_choice){0};
    PS_TRY(ps_device_name_parse(options->device, &name, error));
    if (name.kind == PS_DEVICE_CPU) {
        choose_cpu(options, choice, "asked for");
        return PS_OK;
    }
    enum ps_status status = open_device(options, &name, choice, &reason);
    if (status == PS_OK)
        status = check_record(options, choice, &reason);
    if (status == PS_OK) {
        tell_device(options, choice);
        return PS_OK;
    }
    /* A device that its record condemns is open already. */
    ps_device_choice_close(choice);
    /* Asked for by name: no CPU in its place, which would be a thousand times slower and look
     * healthy. */
    if (name.kind != PS_DEVICE_AUTO)
        return ps_fail(error, status, "--device %.60s: %s", options->device, reason.text);
    /* With the device's own words as the reason. */
    choose_cpu(options, choice, reason.text);
    return PS_OK;
}

/* Opening computes a few results and compares them with those of the CPU (the plugin's probe): a
 * device whose arithmetic has other bits is refused like one that is not there. */
static enum ps_status open_device(const struct ps_device_choice_options *options,
                                  const struct ps_device_name *name,
                                  struct ps_device_choice *choice, struct ps_error *error)
{
    const struct ps_device_plugin *plugin = NULL;
    struct ps_device *device = NULL;
    uint32_t count = 0;
    /* With one device visible, it is the first; CUDA looks at this when it is loaded. */
    if (name->uuid != NULL && setenv("CUDA_VISIBLE_DEVICES", name->uuid, 1) != 0)
        return ps_fail(error, PS_ERR_NO_MEMORY, "the environment has no room");
    PS_TRY(load_plugin(name->kind == PS_DEVICE_EMU ? "emu" : "cuda", &plugin, error));
    PS_TRY(plugin->count(&count, error));
    /* Also after a uuid: then there is one device or none. */
    if (name->ordinal >= count)
        return ps_fail(error, PS_ERR_NOT_FOUND, "there is no such device, %u are visible",
                       (unsigned)count);
    /* The budget is the device's default unless somebody has said one. */
    const struct ps_device_options wish = {.ordinal = name->ordinal,
                                           .memory_bytes = options->memory_bytes,
                                           .wait_ms = options->wait_ms,
                                           .memory = ps_allocator_heap(),
                                           .died = options->died,
                                           .self = options->self};
    PS_TRY(plugin->open(&wish, &device, error));
    enum ps_status status =
        ps_device_store_open(&choice->store, plugin, device, options->log, error);
    if (status != PS_OK)
        plugin->close(device);
    /* Set before any parameter is placed; after a failure nobody reads them. */
    choice->store.readers_bytes = options->readers_bytes;
    choice->store.min_bytes = options->min_bytes;
    return status;
}

/* A device that computes when it is tried, and yet fails at work again and again. So that a server
 * does not come back to the same card after each restart, and lose its shard each time. */
static enum ps_status check_record(const struct ps_device_choice_options *options,
                                   const struct ps_device_choice *choice, struct ps_error *error)
{
    PS_ASSERT(choice->store.device != NULL);
    struct ps_device_facts facts;
    if (options->data_dir == NULL)
        return PS_OK;
    choice->store.plugin->facts(choice->store.device, &facts);
    return ps_device_record_check(ps_files_real(), options->data_dir, facts.uuid, error);
}

/* Loaded at run time, so that one program serves machines with and without CUDA. RTLD_NOW finds a
 * missing library here and not at the first push; RTLD_LOCAL keeps its symbols from ours. The
 * version is compared twice: by the entry, which may know older ones, and by us. */
static enum ps_status load_plugin(const char *name, const struct ps_device_plugin **plugin,
                                  struct ps_error *error)
{
    char path[PATH_MAX];
    if (!find_plugin(name, path))
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "there is no plugin libpserver_%s.so beside the program", name);
    /* Never closed: CUDA keeps threads that would run into nothing. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, PS_DEVICE_ENTRY) : NULL;
    if (symbol == NULL)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the plugin cannot be loaded: %.140s", dlerror());
    /* C has no cast from an object's pointer to a function's; POSIX promises the same bytes. */
    ps_device_entry_fn *entry;
    memcpy(&entry, &symbol, sizeof entry);
    *plugin = entry(PS_DEVICE_ABI);
    if (*plugin == NULL || (*plugin)->abi != PS_DEVICE_ABI)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the plugin %s is of another version", path);
    return PS_OK;
}

/* Beside the program, by the kernel's word for where that is: neither the working folder nor an
 * environment variable decides what code is loaded. */
static bool find_plugin(const char *name, char path[PATH_MAX])
{
    static const char *const folders[] = {"", "../lib/pserver/"};
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *name_of_program = strrchr(program, '/');
    PS_ASSERT(name_of_program != NULL);
    name_of_program[1] = '\0';
    /* The first folder is that of a build, the second that of an installation. */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        int size = snprintf(path, PATH_MAX, "%s%slibpserver_%s.so", program, folders[i], name);
        if (size > 0 && size < PATH_MAX && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* With the reason, since "why is it slow?" is asked later. */
static void choose_cpu(const struct ps_device_choice_options *options,
                       struct ps_device_choice *choice, const char *reason)
{
    PS_ASSERT(reason != NULL);
    (void)snprintf(choice->text, sizeof choice->text, "cpu");
    PS_LOG(options->log, PS_LOG_INFO, "server", "device chosen", PS_FIELD_TEXT("device", "cpu"),
           PS_FIELD_TEXT("reason", reason));
}

/* The line has everything that differs between two cards of one name. */
static void tell_device(const struct ps_device_choice_options *options,
                        struct ps_device_choice *choice)
{
    PS_ASSERT(choice->store.plugin != NULL);
    const struct ps_device_store *store = &choice->store;
    struct ps_device_facts facts;
    store->plugin->facts(store->device, &facts);
    (void)snprintf(choice->text, sizeof choice->text, "%s: %s, %s", store->plugin->name, facts.name,
                   facts.uuid);
    PS_LOG(options->log, PS_LOG_INFO, "server", "device chosen",
           PS_FIELD_TEXT("device", store->plugin->name), PS_FIELD_TEXT("name", facts.name),
           PS_FIELD_TEXT("uuid", facts.uuid), PS_FIELD_UINT("memory_bytes", facts.memory_bytes),
           PS_FIELD_UINT("context_bytes", facts.context_bytes),
           PS_FIELD_UINT("budget_bytes", facts.budget_bytes),
           PS_FIELD_TEXT("reason", strcmp(options->device, "auto") == 0 ? "it computes as the cpu"
                                                                        : "asked for"));
}

/* The store first: it still holds memory of the device. */
void ps_device_choice_close(struct ps_device_choice *choice)
{
    const struct ps_device_plugin *plugin = choice->store.plugin;
    struct ps_device *device = choice->store.device;
    ps_device_store_close(&choice->store);
    if (device != NULL)
        plugin->close(device);
    *choice = (struct ps_device_choice){0};
}
