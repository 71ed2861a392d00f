/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration: refused, or a configuration that reads the same after another
 * round. */
#include "fuzz_target.h"

#include "base/bounds.h"
#include "proto/optimizer_config.h"

#include <stdlib.h>
#include <string.h>

static void expect(bool condition)
{
    if (!condition)
        abort();
}

static enum ps_status decode(const void *bytes, size_t size, struct ps_optimizer_config *config)
{
    memset(config, 0, sizeof *config); /* so that configurations can be compared as bytes */
    return ps_optimizer_config_decode((struct ps_bytes){bytes, size}, ps_allocator_heap(), config,
                                      NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_optimizer_config first;
    struct ps_optimizer_config second;
    enum ps_status status = decode(data, size, &first);
    expect(status == PS_OK || status == PS_ERR_BAD_INPUT || status == PS_ERR_NO_MEMORY);
    if (status != PS_OK)
        return 0;
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&first, &bytes);
    expect(!bytes.failed);
    expect(decode(bytes.text, bytes.size, &second) == PS_OK);
    expect(strcmp(first.optimizer, second.optimizer) == 0 && first.policy == second.policy);
    expect(memcmp(first.numbers, second.numbers, sizeof first.numbers) == 0);
    expect(memcmp(&first.learning_rate, &second.learning_rate, sizeof(double)) == 0);
    expect(first.integer_seed == second.integer_seed);
    expect(strcmp(first.segments, second.segments) == 0);
    ps_buffer_fini(&bytes);
    return 0;
}
