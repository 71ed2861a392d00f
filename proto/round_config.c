/* SPDX-License-Identifier: Apache-2.0 */
/* A field more of RoundConfig is a line in each of the two functions. */
#include "proto/round_config.h"

#include "pserver/v1/optimizer_config.pb-c.h"

#include <string.h>

/* Sets an optional field of a protobuf-c struct. */
#define SET(message, field, value_) ((message)->has_##field = 1, (message)->field = (value_))

/* An absent message leaves zeros, which mean that every gradient is a step of its own. */
void ps_round_config_read(const Paddle__RoundConfig *read, struct ps_config_rounds *rounds)
{
    if (read != NULL)
        *rounds = (struct ps_config_rounds){read->workers, read->quorum, read->grace_ms,
                                            (int32_t)read->combine, (int32_t)read->late};
}

/* What says nothing is not written: configurations without rounds keep their bytes. */
Paddle__RoundConfig *ps_round_config_write(const struct ps_config_rounds *rounds,
                                           Paddle__RoundConfig *message)
{
    static const struct ps_config_rounds none;
    if (memcmp(rounds, &none, sizeof none) == 0)
        return NULL;
    /* With the defaults of the .proto, none of which is present and so written. */
    paddle__round_config__init(message);
    SET(message, workers, rounds->workers);
    SET(message, quorum, rounds->quorum);
    SET(message, grace_ms, rounds->grace_ms);
    SET(message, combine, (Paddle__RoundConfig__Combine)rounds->combine);
    SET(message, late, (Paddle__RoundConfig__Late)rounds->late);
    return message;
}
