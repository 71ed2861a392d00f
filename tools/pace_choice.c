/* SPDX-License-Identifier: Apache-2.0 */
/* Options into rounds or clocks. What excludes each other is refused here, before a file is read or
 * a server is asked: each mistake with a sentence of its own. */
#include "tools/pace_choice.h"

#include "base/bounds.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status choose_clocks(const struct ps_pace_choice *choice,
                                    struct psclient_clocks *clocks, struct ps_error *error);
static enum ps_status check(const struct ps_pace_choice *choice, bool has_clocks,
                            struct ps_error *error);
static void write_rounds(const struct ps_pace_choice *choice, struct ps_buffer *rounds);

/* The clocks first, since their words may be wrong, too. */
enum ps_status ps_pace_choose(const struct ps_pace_choice *choice, struct ps_buffer *rounds,
                              struct psclient_clocks *clocks, struct ps_error *error)
{
    PS_TRY(choose_clocks(choice, clocks, error));
    PS_TRY(check(choice, clocks->workers > 0, error));
    if (choice->sync > 0)
        write_rounds(choice, rounds);
    return ps_buffer_status(rounds, error);
}

/* Clocks for all workers of all processes, or none: "asp" needs none. */
static enum ps_status choose_clocks(const struct ps_pace_choice *choice,
                                    struct psclient_clocks *clocks, struct ps_error *error)
{
    const char *wish = choice->consistency;
    char *end = NULL;
    *clocks = (struct psclient_clocks){.consistency = PSCLIENT_BSP, .ttl_ms = choice->grace_ms};
    /* The same word as for rounds: what a worker that died may cost the others. */
    if (choice->grace_ms > 0)
        clocks->straggler = PSCLIENT_STRAGGLER_EVICT;
    if (strcmp(wish, "asp") == 0)
        return PS_OK;
    if (choice->workers > PS_CLOCK_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--consistency: more than %d workers",
                       PS_CLOCK_WORKERS_MAX);
    clocks->workers = (uint32_t)choice->workers;
    if (strcmp(wish, "bsp") == 0)
        return PS_OK;
    clocks->consistency = PSCLIENT_SSP;
    bool is_number = strncmp(wish, "ssp:", 4) == 0 && wish[4] >= '0' && wish[4] <= '9';
    unsigned long staleness = is_number ? strtoul(wish + 4, &end, 10) : 0;
    clocks->staleness = (uint32_t)staleness;
    /* A number that is too long for the wire is none that anybody means. */
    if (is_number && *end == '\0' && staleness <= UINT32_MAX)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "--consistency %s: asp, bsp, or ssp:S", wish);
}

/* A round of fewer workers than it waits for would never be over. A gradient of values that are a
 * step old is of another round, and of another clock, than the one that it would be counted in. */
static enum ps_status check(const struct ps_pace_choice *choice, bool has_clocks,
                            struct ps_error *error)
{
    if (choice->sync == 0 && !has_clocks && choice->grace_ms > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--grace is of rounds and clocks: give --sync or --consistency, too");
    if (choice->sync > 0 && has_clocks)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--consistency and --sync exclude each other");
    /* Of all processes: each of them is told the same, and none can see the others. */
    if (choice->sync > choice->workers)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--sync %" PRIu64 " of %" PRIu64
                       " workers: --workers times --parts must be as many",
                       choice->sync, choice->workers);
    if (choice->sync > 0 && choice->workers > PS_ROUND_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--sync: more than %d workers",
                       PS_ROUND_WORKERS_MAX);
    if ((choice->sync > 0 || has_clocks) && choice->pipeline)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--pipeline 1 excludes --sync and --consistency");
    return PS_OK;
}

/* One field of a message whose numbers are optional. Zeros are written, too: in a change they take
 * the place of what the parameter has. */
static void put_number(struct ps_buffer *message, uint8_t field, uint64_t value)
{
    const uint8_t zero[] = {(uint8_t)(field << 3), 0};
    if (value > 0)
        ps_wire_put_uint(message, field, value);
    else
        ps_buffer_append(message, (struct ps_bytes){zero, sizeof zero});
}

/* RoundConfig, as one field of an OptimizerConfig that has no other: merged into what the
 * parameters have, it leaves the rule and its numbers as they are. The gradients are averaged, as
 * those of one large batch are. */
static void write_rounds(const struct ps_pace_choice *choice, struct ps_buffer *rounds)
{
    enum { ROUNDS_FIELD = 210, ROUNDS_BYTES_MAX = 64 };
    /* Five numbers of at most ten bytes each, with their tags. */
    char room[ROUNDS_BYTES_MAX];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, room, sizeof room);
    put_number(&message, 1, choice->workers);
    put_number(&message, 2, choice->sync);
    put_number(&message, 3, choice->grace_ms);
    put_number(&message, 4, 0);
    put_number(&message, 5, choice->late_next ? 1 : 0);
    ps_wire_put_bytes(rounds, ROUNDS_FIELD,
                      (struct ps_bytes){(const uint8_t *)message.text, message.size});
}
