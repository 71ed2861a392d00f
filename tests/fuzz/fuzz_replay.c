/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on every file of the folders that are given as arguments. */
#include "fuzz_target.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

#define INPUT_BYTES_MAX (1u << 20)

struct replay {
    const char *folder;
    size_t count;
};

static void replay_file(void *context, const char *name)
{
    struct replay *replay = context;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", replay->folder, name);
    uint8_t *content = NULL;
    size_t size = 0;
    struct ps_error error = {0};
    if (ps_file_read_all(ps_files_real(), path, INPUT_BYTES_MAX, ps_allocator_heap(), &content,
                         &size, &error) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error.text);
        exit(EXIT_FAILURE);
    }
    (void)LLVMFuzzerTestOneInput(content, size);
    ps_release(ps_allocator_heap(), content);
    replay->count++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct replay replay = {.folder = argv[i]};
        struct ps_error error = {0};
        const struct ps_files *files = ps_files_real();
        if (files->list(files->self, argv[i], replay_file, &replay, &error) != PS_OK) {
            (void)fprintf(stderr, "%s\n", error.text);
            return EXIT_FAILURE;
        }
        printf("%s: %zu inputs\n", argv[i], replay.count);
        if (replay.count == 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
