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

#include <stdint.h>

/* A call waits for one topic, and hears of PS_TOPIC_LIFE in any case: the shard's phase, its
 * owner's proof and the end of the server decide about every call. */
enum ps_topic {
    PS_TOPIC_LIFE,       /* phase, proof, drain, a generation that is over */
    PS_TOPIC_JOURNAL,    /* records became durable, or will not for now */
    PS_TOPIC_CHECKPOINT, /* an attempt to save ended */
    PS_TOPIC_CLUSTER,    /* a server of the job came, went or moved */
    PS_TOPIC_INIT,       /* questions about the right to initialise were answered */
    PS_TOPIC_MEETING     /* this and the rest: members of a barrier are all there (meetings.h) */
};

/* Barriers share so many topics, by their names: the end of one asks few of those that wait in
 * others. More of them would ask fewer still, but a mask of one word is what a wake-up can carry
 * without memory of its own, and what threads can put together without a list. */
enum { PS_TOPIC_MEETINGS = 48, PS_TOPIC_COUNT = PS_TOPIC_MEETING + PS_TOPIC_MEETINGS };

_Static_assert(PS_TOPIC_COUNT <= 64, "a mask has a bit for each topic");

#define PS_TOPIC_BIT(topic) ((uint64_t)1 << (topic))

#endif
