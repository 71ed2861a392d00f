/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a device plugin as a server does, and prints how many devices it sees, or why none, and
 * when the library was told to load kernels.
 *
 * usage: device_count PLUGIN */
#include "optimizer/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library != NULL ? dlsym(library, PS_DEVICE_ENTRY) : NULL;
    if (symbol == NULL) {
        const char *reason = argc == 2 ? dlerror() : NULL;
        (void)fprintf(stderr, "device_count: %s\n", reason != NULL ? reason : "which plugin?");
        return EXIT_FAILURE;
    }
    /* C has no cast from an object's pointer to a function's; POSIX promises the same bytes. */
    ps_device_entry_fn *entry;
    memcpy(&entry, &symbol, sizeof entry);
    const struct ps_device_plugin *plugin = entry(PS_DEVICE_ABI);
    if (plugin == NULL || entry(PS_DEVICE_ABI + 1) != NULL) {
        (void)fprintf(stderr, "device_count: the plugin does not keep to its ABI\n");
        return EXIT_FAILURE;
    }
    uint32_t count = 0;
    struct ps_error error = {0};
    enum ps_status status = plugin->count(&count, &error);
    if (status == PS_OK)
        printf("%s: %u\n", plugin->name, (unsigned)count);
    else
        printf("%s: %s\n", plugin->name, error.text);
    const char *loading = getenv("CUDA_MODULE_LOADING");
    printf("kernels: %s\n", loading != NULL ? loading : "when they are launched");
    return EXIT_SUCCESS;
}
