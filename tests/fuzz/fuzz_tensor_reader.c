/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a plain safetensors file of another program; and what was taken is spread. */
#include "fuzz_target.h"

#include "tests/support/memory_files.h"
#include "tools/psckpt/spread_state.h"
#include "tools/psckpt/tensor_reader.h"

#include <stdlib.h>

#define SHARDS 3

static void spread(const struct shard_state *whole)
{
    struct shard_state shards[SHARDS];
    struct ps_error error;
    for (size_t i = 0; i < SHARDS; i++)
        shard_state_init(&shards[i], ps_allocator_heap());
    enum ps_status status = spread_state(whole, 4, shards, SHARDS, &error);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT && status != PS_ERR_CORRUPT)
        abort();
    for (size_t i = 0; i < SHARDS; i++)
        shard_state_fini(&shards[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_files *disk = memory_files_create(1);
    struct progress progress;
    struct shard_state state;
    struct ps_error error;
    memory_files_put(disk, "file", (struct ps_bytes){data, size});
    progress_init(&progress, ps_clock_real(), false);
    shard_state_init(&state, ps_allocator_heap());
    const struct toolbox box = {memory_files_files(disk), ps_allocator_heap(), &progress};
    enum ps_status status = tensor_reader_read(&state, &box, "file", &error);
    if (status != PS_OK && status != PS_ERR_CORRUPT && status != PS_ERR_UNSUPPORTED)
        abort();
    if (memory_files_open_count(disk) != 0)
        abort();
    if (status == PS_OK)
        spread(&state);
    shard_state_fini(&state);
    memory_files_destroy(disk);
    return 0;
}
