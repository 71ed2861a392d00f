/* SPDX-License-Identifier: Apache-2.0 */
/* A few holds, searched one by one: with PS_VERSION_HOLDS_MAX of them an index would cost more than
 * the search. The blocks of a hold that ends are released outside of the lock, since the last
 * reference gives memory back. */
#include "server/core/values/version_holds.h"

#include "base/assert.h"

/* The references of holds that end, until the lock is let go. */
struct leaving {
    struct ps_blocks *values[PS_VERSION_HOLDS_MAX + 1];
    size_t count;
};

void ps_version_holds_init(struct ps_version_holds *holds)
{
    *holds = (struct ps_version_holds){0};
    ps_mutex_init(&holds->lock, PS_RANK_QUEUE);
}

/* Whoever reads now keeps the blocks by a reference of its own. */
void ps_version_holds_fini(struct ps_version_holds *holds)
{
    ps_version_holds_clear(holds);
    ps_mutex_fini(&holds->lock);
}

/* The reference moves to `leaving`: the last one frees blocks, which may go back to the system, and
 * nobody should wait for that with this lock. */
static void end_hold(struct ps_version_holds *holds, struct ps_version_hold *hold,
                     struct leaving *leaving)
{
    PS_ASSERT(holds->count > 0 && holds->bytes >= hold->values->size);
    PS_ASSERT(leaving->count <= PS_VERSION_HOLDS_MAX);
    holds->count--;
    holds->bytes -= hold->values->size;
    leaving->values[leaving->count++] = hold->values;
    *hold = (struct ps_version_hold){0};
}

/* Without the lock. */
static void let_go(struct leaving *leaving)
{
    PS_ASSERT(leaving->count <= PS_VERSION_HOLDS_MAX + 1);
    for (size_t i = 0; i < leaving->count; i++)
        ps_blocks_release(leaving->values[i]);
}

/* The shard is lost: a reader that comes back is told to begin again, since the same version number
 * may mean other content soon. */
void ps_version_holds_clear(struct ps_version_holds *holds)
{
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&holds->lock);
    for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++)
        if (holds->holds[i].values != NULL)
            end_hold(holds, &holds->holds[i], &leaving);
    ps_mutex_unlock(&holds->lock);
    let_go(&leaving);
}

/* By the specification and not by the name: a parameter that was initialised anew has another one,
 * and its versions have nothing to do with those of the one before. */
static struct ps_version_hold *find_hold(struct ps_version_holds *holds,
                                         const struct ps_parameter_spec *spec, uint64_t version)
{
    PS_ASSERT(spec != NULL);
    for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++) {
        struct ps_version_hold *hold = &holds->holds[i];
        if (hold->values != NULL && hold->version == version &&
            ps_parameter_spec_is_same(hold->values->spec, spec))
            return hold;
    }
    return NULL;
}

/* A reader that died tells nobody; time is the only sign of it. Looked at when somebody else reads,
 * so that no thread is needed for it: without readers the holds stay, but so few of them that this
 * is bounded. */
static void end_idle(struct ps_version_holds *holds, uint64_t now_ms, struct leaving *leaving)
{
    PS_ASSERT(holds->count <= PS_VERSION_HOLDS_MAX);
    for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++) {
        struct ps_version_hold *hold = &holds->holds[i];
        if (hold->values != NULL && now_ms >= hold->used_ms + PS_VERSION_HOLDS_IDLE_MS)
            end_hold(holds, hold, leaving);
    }
}

/* Ends the idlest until a hold and `bytes` have room; returns the free one. */
static struct ps_version_hold *make_room(struct ps_version_holds *holds, uint64_t bytes,
                                         struct leaving *leaving)
{
    for (;;) {
        /* Of equals the first: they are as idle as each other. */
        struct ps_version_hold *idlest = NULL;
        struct ps_version_hold *empty = NULL;
        PS_ASSERT(holds->count <= PS_VERSION_HOLDS_MAX);
        for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++) {
            struct ps_version_hold *hold = &holds->holds[i];
            if (hold->values == NULL)
                empty = hold;
            else if (idlest == NULL || hold->used_ms < idlest->used_ms)
                idlest = hold;
        }
        /* One version always fits, however large it is: a parameter beyond the bound could never be
         * read in ranges otherwise. */
        bool fits = idlest == NULL || (holds->bytes <= PS_VERSION_HOLDS_BYTES_MAX &&
                                       bytes <= PS_VERSION_HOLDS_BYTES_MAX - holds->bytes);
        /* Both are needed: a place in the list and bytes. */
        if (empty != NULL && fits)
            return empty;
        PS_ASSERT(idlest != NULL);
        end_hold(holds, idlest, leaving);
    }
}

/* Readers of one version share one hold, and what they owe is added up: the hold ends when all of
 * it was asked for, whoever asked. A reader that asks twice for one range makes it end early, which
 * costs another reader a new beginning and nothing worse. */
void ps_version_holds_begin(struct ps_version_holds *holds, struct ps_blocks *values,
                            uint64_t version, uint64_t bytes, uint64_t now_ms)
{
    PS_ASSERT(values != NULL && bytes > 0);
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&holds->lock);
    end_idle(holds, now_ms, &leaving);
    struct ps_version_hold *hold = find_hold(holds, values->spec, version);
    if (hold == NULL) {
        hold = make_room(holds, values->size, &leaving);
        *hold = (struct ps_version_hold){.values = ps_blocks_acquire(values), .version = version};
        holds->bytes += values->size;
        holds->count++;
    }
    hold->owed += bytes;
    hold->used_ms = now_ms;
    ps_mutex_unlock(&holds->lock);
    let_go(&leaving);
}

/* The reference is taken under the lock, since the hold may end as soon as it is let go. */
struct ps_blocks *ps_version_holds_find(struct ps_version_holds *holds,
                                        const struct ps_parameter_spec *spec, uint64_t version,
                                        uint64_t now_ms)
{
    PS_ASSERT(spec != NULL);
    struct leaving leaving = {.count = 0};
    struct ps_blocks *values = NULL;
    ps_mutex_lock(&holds->lock);
    struct ps_version_hold *hold = find_hold(holds, spec, version);
    if (hold != NULL) {
        hold->used_ms = now_ms;
        values = ps_blocks_acquire(hold->values);
    }
    end_idle(holds, now_ms, &leaving);
    ps_mutex_unlock(&holds->lock);
    let_go(&leaving);
    return values;
}

/* A version that is not held has ended meanwhile, or was a range of the present version that fitted
 * into one answer. */
void ps_version_holds_given(struct ps_version_holds *holds, const struct ps_parameter_spec *spec,
                            uint64_t version, uint64_t bytes)
{
    PS_ASSERT(spec != NULL);
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&holds->lock);
    struct ps_version_hold *hold = find_hold(holds, spec, version);
    if (hold != NULL) {
        /* Never below none: a range that is asked for twice counts twice. */
        hold->owed -= bytes < hold->owed ? bytes : hold->owed;
        if (hold->owed == 0)
            end_hold(holds, hold, &leaving);
    }
    ps_mutex_unlock(&holds->lock);
    let_go(&leaving);
}

/* Both of one moment, for the gauge. */
void ps_version_holds_look(struct ps_version_holds *holds, uint64_t *bytes, size_t *count)
{
    PS_ASSERT(bytes != NULL && count != NULL);
    ps_mutex_lock(&holds->lock);
    *bytes = holds->bytes;
    *count = holds->count;
    ps_mutex_unlock(&holds->lock);
}
