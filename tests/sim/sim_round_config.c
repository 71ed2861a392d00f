/* SPDX-License-Identifier: Apache-2.0 */
/* How a parameter in rounds is configured when it comes. */
#include "base/assert.h"
#include "proto/optimizer_config.h"
#include "proto/wire.h"
#include "tests/sim/sim_rounds.h"

#include <string.h>

#define ROUNDS_FIELD 210 /* of OptimizerConfig */

/* The message is written as the .proto numbers its fields: what the server reads of it is the
 * server's own affair. */
struct ps_bytes sim_rounds_config(const struct sim_round_rules *rules,
                                  char to[SIM_CONFIG_BYTES_MAX])
{
    struct ps_optimizer_config config;
    struct ps_buffer rounds, bytes;
    ps_optimizer_config_defaults(&config);
    if (rules->rule == SIM_RULE_ADD)
        (void)ps_optimizer_config_choose(&config, "add");
    if (rules->rule == SIM_RULE_MOMENTUM)
        ps_optimizer_config_set(&config, "momentum", 0.5);
    ps_buffer_init(&rounds, ps_allocator_heap(), SIM_CONFIG_BYTES_MAX);
    ps_wire_put_uint(&rounds, 1, rules->workers);
    ps_wire_put_uint(&rounds, 2, rules->quorum);
    ps_wire_put_uint(&rounds, 3, rules->grace_ms);
    ps_wire_put_uint(&rounds, 4, (uint64_t)rules->combine);
    ps_wire_put_uint(&rounds, 5, rules->late_is_next ? 1 : 0);
    ps_buffer_init(&bytes, ps_allocator_heap(), SIM_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&config, &bytes);
    ps_wire_put_bytes(&bytes, ROUNDS_FIELD, (struct ps_bytes){(uint8_t *)rounds.text, rounds.size});
    PS_ASSERT(!bytes.failed && bytes.size <= SIM_CONFIG_BYTES_MAX);
    memcpy(to, bytes.text, bytes.size);
    const struct ps_bytes encoded = {(const uint8_t *)to, bytes.size};
    ps_buffer_fini(&rounds);
    ps_buffer_fini(&bytes);
    return encoded;
}
