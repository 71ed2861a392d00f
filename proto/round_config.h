/* SPDX-License-Identifier: Apache-2.0 */
/* RoundConfig of a configuration <-> struct. Private to proto/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none; the numbers are judged by the settings' check, as all others.
 * Memory:   written into the caller's structs.
 */
#ifndef PS_PROTO_ROUND_CONFIG_H
#define PS_PROTO_ROUND_CONFIG_H

#include "proto/optimizer_config.h"

/* protobuf-c's, which only the sources of this folder see. */
struct Paddle__RoundConfig;

/* `read` NULL, as of most configurations: no rounds, `*rounds` stays as it was. */
void ps_round_config_read(const struct Paddle__RoundConfig *read, struct ps_config_rounds *rounds);

/* The message of `rounds` in `message`; NULL where all of them is zero. */
struct Paddle__RoundConfig *ps_round_config_write(const struct ps_config_rounds *rounds,
                                                  struct Paddle__RoundConfig *message);

#endif
