/* SPDX-License-Identifier: Apache-2.0 */
/* What a call can wait for. A change is told by its topic, so that only those are asked again whom
 * it concerns: without topics every write of the journal would ask every call that waits.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_TOPICS_H
#define PS_SERVER_CORE_TOPICS_H

#include "base/bytes.h"

#include <stdint.h>

/* A call waits for one topic, and hears of PS_TOPIC_LIFE in any case: the shard's phase, its
 * owner's proof and the end of the server decide about every call. */
enum ps_topic {
    PS_TOPIC_LIFE,       /* phase, proof, drain, a generation that is over */
    PS_TOPIC_JOURNAL,    /* records became durable, or will not for now */
    PS_TOPIC_CHECKPOINT, /* an attempt to save ended */
    PS_TOPIC_CLUSTER,    /* a server of the job came, went or moved */
    PS_TOPIC_INIT,       /* questions about the right to initialise were answered */
    PS_TOPIC_WORKERS,    /* a worker came or went, or questions of workers were answered */
    PS_TOPIC_NAMED       /* this and the rest: what clients bring to a thing that has a name, the
                            members of a barrier (meetings.h), a version of a parameter */
};

/* All that has a name shares so many topics, by those names: a change of one thing asks few of
 * those that wait for others. More of them would ask fewer still, but a mask of one word is what a
 * wake-up can carry without memory of its own, and what threads can put together without a list. */
enum { PS_TOPIC_NAMES = 48, PS_TOPIC_COUNT = PS_TOPIC_NAMED + PS_TOPIC_NAMES };

_Static_assert(PS_TOPIC_COUNT <= 64, "a mask has a bit for each topic");

#define PS_TOPIC_BIT(topic) ((uint64_t)1 << (topic))

/* The topic of the thing that has this name. Others may share it. */
uint32_t ps_topic_of_name(struct ps_bytes name);

#endif
