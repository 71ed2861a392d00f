/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration file: options are set or there is a complaint; nothing leaks. */
#include "fuzz_target.h"

#include "server/config_file.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <stdlib.h>

struct settings {
    const char *listen;
    uint64_t ttl_ms;
};

static const struct ps_option table[] = {
    {.name = "listen",
     .type = PS_OPTION_TEXT,
     .help = "",
     .offset = offsetof(struct settings, listen)},
    {.name = "etcd-ttl",
     .type = PS_OPTION_DURATION,
     .help = "",
     .offset = offsetof(struct settings, ttl_ms)},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ps_option_set set = {.program = "fuzz", .options = table, .option_count = 2};
    struct memory_files *disk = memory_files_create(1);
    memory_files_put(disk, "file", (struct ps_bytes){data, size});
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct settings settings = {0};
    struct ps_config_file file = {0};
    struct ps_error error = {0};
    enum ps_status status = ps_config_file_read(&file, memory_files_files(disk), &memory, &set,
                                                &settings, "file", &error);
    if (status != PS_OK && error.text[0] == '\0')
        abort();
    ps_config_file_fini(&file);
    if (heap.live != 0 || memory_files_open_count(disk) != 0)
        abort();
    memory_files_destroy(disk);
    return 0;
}
