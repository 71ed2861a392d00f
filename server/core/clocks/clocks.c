/* SPDX-License-Identifier: Apache-2.0 */
/* A list, since there are few: a job has clocks for each group of its workers and no more. One lock
 * for all of them: what is done with it held is a look at a heap and a place in the journal's
 * queue, which is one for the whole shard anyway. */
#include "server/core/clocks/clocks.h"

#include "base/assert.h"

#include <utlist.h>

static enum ps_status check_name(struct ps_bytes name, struct ps_error *error);

/* The rank of a parameter's lock: a step of the clocks is one of a push, and nothing that holds a
 * parameter asks for clocks. */
void ps_clocks_init(struct ps_clocks *clocks, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    *clocks = (struct ps_clocks){.memory = memory};
    ps_mutex_init(&clocks->lock, PS_RANK_PARAMETER);
}

/* No call is under way any more. */
void ps_clocks_fini(struct ps_clocks *clocks)
{
    ps_clocks_clear(clocks);
    ps_mutex_fini(&clocks->lock);
}

/* Whoever waits by them is told by the shard's end, and not by its clocks. */
void ps_clocks_clear(struct ps_clocks *clocks)
{
    PS_ASSERT(clocks->count == 0 || clocks->groups != NULL);
    /* From the newest to the oldest; nobody keeps a group beyond the lock. */
    while (clocks->groups != NULL) {
        struct ps_clock_group *group = clocks->groups;
        LL_DELETE(clocks->groups, group);
        ps_clock_group_destroy(group);
    }
    clocks->count = 0;
    /* Positions of another life of the shard are none of this one's. */
    clocks->removed_at = 0;
}

/* Asked by every read of a worker: names are short, and the newest are looked at first. */
struct ps_clock_group *ps_clocks_find(const struct ps_clocks *clocks, struct ps_bytes name)
{
    PS_ASSERT(clocks->count <= PS_CLOCKS_MAX);
    /* Names are compared whole: "job" and "job/2" are different clocks. */
    for (struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next)
        if (ps_bytes_equal(ps_clock_group_name(group), name))
            return group;
    return NULL;
}

/* A server that has just joined a running job has no clocks before somebody sets them there: the
 * text says what to do. */
enum ps_status ps_clocks_get(const struct ps_clocks *clocks, struct ps_bytes name,
                             struct ps_clock_group **group, struct ps_error *error)
{
    PS_TRY(check_name(name, error));
    struct ps_clock_group *found = ps_clocks_find(clocks, name);
    PS_ASSERT(group != NULL);
    if (found == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND,
                       "clocks %.*s are not set at this server: call SetClocks", (int)name.size,
                       (const char *)name.data);
    *group = found;
    return PS_OK;
}

/* The codec holds names to text and to their bound; a caller in the same process may not. */
static enum ps_status check_name(struct ps_bytes name, struct ps_error *error)
{
    /* No name stands for all clocks in Progress, and so for none here. */
    if (name.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "clocks have a name: say which");
    if (name.size > PS_CLOCKS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the name of the clocks is %zu bytes long, at most "
                       "%d",
                       name.size, PS_CLOCKS_NAME_BYTES_MAX);
    return PS_OK;
}

/* Whatever may be refused is refused here, before the journal has a record of it. */
enum ps_status ps_clocks_prepare(struct ps_clocks *clocks, struct ps_bytes name, uint32_t workers,
                                 struct ps_clock_group **group, struct ps_error *error)
{
    PS_TRY(check_name(name, error));
    struct ps_clock_group *found = ps_clocks_find(clocks, name);
    if (found == NULL && clocks->count >= PS_CLOCKS_MAX)
        return ps_fail(error, PS_ERR_BUSY,
                       "this server has %d clocks, as many as it may: remove one "
                       "(psctl drop-clocks NAME)",
                       PS_CLOCKS_MAX);
    if (found == NULL)
        PS_TRY(ps_clock_group_create(clocks->memory, name, &found, error));
    /* One of the present groups keeps what it has when this is refused. */
    enum ps_status status = ps_clock_group_reserve(found, workers, error);
    if (status != PS_OK) {
        ps_clocks_give_up(clocks, found);
        return status;
    }
    *group = found;
    return PS_OK;
}

/* Its record has its place by now, so that nothing can fail here. */
void ps_clocks_keep(struct ps_clocks *clocks, struct ps_clock_group *group)
{
    /* Settings that change are those of a group that is there. */
    if (ps_clocks_find(clocks, ps_clock_group_name(group)) != NULL)
        return;
    PS_ASSERT(clocks->count < PS_CLOCKS_MAX);
    LL_PREPEND(clocks->groups, group);
    clocks->count++;
}

/* Room that one of the present groups has got meanwhile stays with the group. */
void ps_clocks_give_up(struct ps_clocks *clocks, struct ps_clock_group *group)
{
    /* A fresh group has nothing that anybody else has seen. */
    PS_ASSERT(group != NULL);
    if (ps_clocks_find(clocks, ps_clock_group_name(group)) == NULL)
        ps_clock_group_destroy(group);
}

/* Nobody keeps a group beyond the lock: a read that waits by it looks it up anew when it is asked
 * again. */
void ps_clocks_remove(struct ps_clocks *clocks, struct ps_clock_group *group, uint64_t position)
{
    PS_ASSERT(clocks->count > 0);
    PS_ASSERT(ps_clocks_find(clocks, ps_clock_group_name(group)) == group);
    LL_DELETE(clocks->groups, group);
    ps_clock_group_destroy(group);
    clocks->count--;
    clocks->removed_at = position;
}

/* Asked with each read of rows. Few groups have any: the others are one number each to look at. */
size_t ps_clocks_room(const struct ps_clocks *clocks)
{
    /* One bound for the shard: names of clocks cost nobody anything. */
    size_t keys = 0;
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next)
        keys += group->sparse.key_count;
    PS_ASSERT(keys <= PS_CLOCK_ANNOUNCED_KEYS_MAX);
    return PS_CLOCK_ANNOUNCED_KEYS_MAX - keys;
}

/* Names are told apart by finding each: the first of two would hide the other. */
void ps_clocks_check(const struct ps_clocks *clocks)
{
    /* A group without workers is one that was prepared and never set. */
    uint32_t count = 0;
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next) {
        ps_clock_group_check(group);
        PS_ASSERT(group->settings.workers > 0);
        PS_ASSERT(ps_clocks_find(clocks, ps_clock_group_name(group)) == group);
        count++;
    }
    PS_ASSERT(count == clocks->count);
}
