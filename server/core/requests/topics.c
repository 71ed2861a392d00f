/* SPDX-License-Identifier: Apache-2.0 */
/* By the name, so that what happens to one thing asks few of those that wait for others. Names
 * share topics: two things of one topic wake each other's waiters, which look and wait on. */
#include "server/core/requests/topics.h"

#include "base/assert.h"
#include "base/hash.h"

/* The hash is that by which parameters are placed, taken modulo another number: what lies on one
 * server is spread over all topics. A barrier and a parameter of one name share a topic: each name
 * is hashed as it is, since a kind would only spread the same few waiters differently. */
uint32_t ps_topic_of_name(struct ps_bytes name)
{
    PS_ASSERT(name.data != NULL || name.size == 0);
    return PS_TOPIC_NAMED + ps_hash_fnv1a32(name) % PS_TOPIC_NAMES;
}
