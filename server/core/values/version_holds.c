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

void ps_version_holds_fini(struct ps_version_holds *holds)
{
    ps_version_holds_clear(holds);
    ps_mutex_fini(&holds->lock);
}

static void end_hold(struct ps_version_holds *holds, struct ps_version_hold *hold,
                     struct leaving *leaving)
{
    PS_ASSERT(holds->count > 0 && holds->bytes >= hold->values->size);
    holds->count--;
    holds->bytes -= hold->values->size;
    leaving->values[leaving->count++] = hold->values;
    *hold = (struct ps_version_hold){0};
}

static void let_go(struct leaving *leaving)
{
    for (size_t i = 0; i < leaving->count; i++)
        ps_blocks_release(leaving->values[i]);
}

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

static struct ps_version_hold *find_hold(struct ps_version_holds *holds,
                                         const struct ps_parameter_spec *spec, uint64_t version)
{
    for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++) {
        struct ps_version_hold *hold = &holds->holds[i];
        if (hold->values != NULL && hold->values->spec == spec && hold->version == version)
            return hold;
    }
    return NULL;
}

static void end_idle(struct ps_version_holds *holds, uint64_t now_ms, struct leaving *leaving)
{
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
        struct ps_version_hold *idlest = NULL;
        struct ps_version_hold *empty = NULL;
        for (size_t i = 0; i < PS_VERSION_HOLDS_MAX; i++) {
            struct ps_version_hold *hold = &holds->holds[i];
            if (hold->values == NULL)
                empty = hold;
            else if (idlest == NULL || hold->used_ms < idlest->used_ms)
                idlest = hold;
        }
        bool fits = idlest == NULL || (holds->bytes <= PS_VERSION_HOLDS_BYTES_MAX &&
                                       bytes <= PS_VERSION_HOLDS_BYTES_MAX - holds->bytes);
        if (empty != NULL && fits)
            return empty;
        end_hold(holds, idlest, leaving);
    }
}

void ps_version_holds_begin(struct ps_version_holds *holds, struct ps_blocks *values,
                            uint64_t version, uint64_t bytes, uint64_t now_ms)
{
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

struct ps_blocks *ps_version_holds_find(struct ps_version_holds *holds,
                                        const struct ps_parameter_spec *spec, uint64_t version,
                                        uint64_t now_ms)
{
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

void ps_version_holds_given(struct ps_version_holds *holds, const struct ps_parameter_spec *spec,
                            uint64_t version, uint64_t bytes)
{
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&holds->lock);
    struct ps_version_hold *hold = find_hold(holds, spec, version);
    if (hold != NULL) {
        hold->owed -= bytes < hold->owed ? bytes : hold->owed;
        if (hold->owed == 0)
            end_hold(holds, hold, &leaving);
    }
    ps_mutex_unlock(&holds->lock);
    let_go(&leaving);
}

void ps_version_holds_look(struct ps_version_holds *holds, uint64_t *bytes, size_t *count)
{
    ps_mutex_lock(&holds->lock);
    *bytes = holds->bytes;
    *count = holds->count;
    ps_mutex_unlock(&holds->lock);
}
