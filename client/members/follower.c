/* The thread that knows where the servers are. It reads all of them, tells whoever waits, and
 * watches for the next change; then it reads all of them again. A change is never applied to what
 * was read before: a reader of a whole, small prefix cannot end up with a mixture of two states,
 * and a watch that broke costs one more reading and nothing else.
 *
 * The store belongs to this thread alone. Others see `latest`, under the lock, and take it over
 * without a copy; how long they wait does not depend on the store. */
#include "client/members/follower.h"

#include "base/assert.h"
#include "client/calls/retry.h"

/* Most for one look at the store; it is asked again afterwards in any case. */
#define LOOK_MS 5000
/* Without any change, everything is read again after this long. */
#define REFRESH_MS 30000
/* Pauses between failures double between these, half of each by chance. A store that does not
 * answer is asked more often: to learn that it is back costs it nothing before. */
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 2000
#define PAUSE_AWAY_MAX_MS 250

struct ps_follower {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    struct ps_wake *wake;              /* borrowed */
    struct ps_kv *kv;                  /* owned; the thread's */
    struct ps_registry registry;       /* the thread's */
    struct ps_thread thread;
    struct ps_random random; /* the thread's */
    struct ps_wake stop;     /* woken once, at the end */

    struct ps_mutex mutex;
    struct ps_members latest; /* owned */
    bool fresh;               /* `latest` was not taken yet */
    uint32_t shard_count;     /* 0: not known yet */
    struct ps_error why;      /* of the last failure before that */
};

/* The thread may be in the store for LOOK_MS, but never while it holds the lock. */
static void run(void *argument);

/* Fails only for want of memory or a thread: the store need not answer now. A trainer that starts
 * before its etcd waits for it in psclient_open, by the shard count. */
enum ps_status ps_follower_create(struct ps_kv *kv, const char *job, struct ps_wake *wake,
                                  const struct ps_clock *clock, const struct ps_allocator *memory,
                                  struct ps_follower **out, struct ps_error *error)
{
    struct ps_follower *follower = ps_zeroed(memory, sizeof *follower);
    if (follower == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to follow the servers");
    follower->memory = memory;
    follower->clock = clock;
    follower->wake = wake;
    follower->latest.memory = memory;
    uint64_t seed = 0;
    ps_random_system(&seed, sizeof seed);
    ps_random_init(&follower->random, seed);
    ps_wake_init(&follower->stop);
    ps_mutex_init(&follower->mutex, PS_RANK_QUEUE);
    ps_fail(&follower->why, PS_ERR_NOT_FOUND, "the store was not read yet");

    enum ps_status status = ps_registry_init(&follower->registry, kv, job, error);
    if (status == PS_OK)
        status = ps_thread_start(&follower->thread, "ps_follower", run, follower, error);
    if (status != PS_OK) {
        ps_follower_destroy(follower);
        return status;
    }
    /* Only now is the store the follower's: after a failure the caller ends it, and a follower that
     * was made half-way must not. */
    follower->kv = kv;
    *out = follower;
    return PS_OK;
}

/* A watch ends at once by the interrupt, a pause by the wake-up; a reading ends at its own
 * deadline, so that this may take LOOK_MS at worst. */
void ps_follower_destroy(struct ps_follower *follower)
{
    if (follower == NULL)
        return;
    ps_wake_all(&follower->stop);
    if (follower->kv != NULL)
        ps_kv_interrupt(follower->kv);
    ps_thread_join(&follower->thread);
    ps_kv_destroy(follower->kv);
    ps_members_release(&follower->latest);
    ps_mutex_fini(&follower->mutex);
    ps_wake_fini(&follower->stop);
    ps_release(follower->memory, follower);
}

/* Known for ever once it was read: the number is fixed for the life of a job, so that a store that
 * fails later does not take it away. */
enum ps_status ps_follower_shard_count(struct ps_follower *follower, uint32_t *shard_count,
                                       struct ps_error *error)
{
    ps_mutex_lock(&follower->mutex);
    uint32_t count = follower->shard_count;
    struct ps_error why = follower->why;
    ps_mutex_unlock(&follower->mutex);
    if (count == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "the number of shards is not known: %.200s",
                       why.text);
    *shard_count = count;
    return PS_OK;
}

/* A server that refuses a call as not its own knows more than the watch has told. The interrupt
 * ends the wait for a change, and what follows a wait is a reading of everything. */
void ps_follower_look_again(struct ps_follower *follower)
{
    PS_ASSERT(follower->kv != NULL);
    ps_kv_interrupt(follower->kv);
}

/* The two structs change places: the rows that the client had are freed by the next publish, and
 * nothing is allocated here, so that this cannot fail. */
bool ps_follower_take(struct ps_follower *follower, struct ps_members *members)
{
    ps_mutex_lock(&follower->mutex);
    bool fresh = follower->fresh;
    if (fresh) {
        struct ps_members old = *members;
        *members = follower->latest;
        follower->latest = old;
        follower->fresh = false;
    }
    ps_mutex_unlock(&follower->mutex);
    return fresh;
}

/* ---- The thread ---- */

/* The wake-up comes when the lock was left: whoever is woken takes it next. The old rows are freed
 * outside of it for the same reason. */
static void publish(struct ps_follower *follower, struct ps_members *members)
{
    ps_mutex_lock(&follower->mutex);
    struct ps_members old = follower->latest;
    follower->latest = *members;
    follower->fresh = true;
    follower->shard_count = members->shard_count;
    ps_mutex_unlock(&follower->mutex);
    ps_members_release(&old);
    ps_wake_all(follower->wake);
}

/* For the text of a client that waits for the number of shards: "no such host" helps its user more
 * than "not in time". */
static void note_failure(struct ps_follower *follower, const struct ps_error *error)
{
    ps_mutex_lock(&follower->mutex);
    follower->why = *error;
    ps_mutex_unlock(&follower->mutex);
}

/* Reads everything, then waits for the next change. The watch begins right behind the revision that
 * was read, so that no change falls between the two.
 *
 * A wait that passes its deadline is not a failure: then everything is read again, in case a change
 * was missed by a gateway in between. */
static enum ps_status follow_once(struct ps_follower *follower, bool *watching,
                                  struct ps_error *error)
{
    struct ps_members members = {.memory = follower->memory};
    uint64_t deadline_ms = ps_deadline_after(follower->clock, LOOK_MS);
    enum ps_status status = ps_registry_read_members(&follower->registry, follower->memory,
                                                     deadline_ms, &members, error);
    if (status != PS_OK) {
        ps_members_release(&members);
        return status;
    }
    int64_t revision = members.revision;
    publish(follower, &members);

    if (!*watching)
        PS_TRY(ps_registry_watch_members(&follower->registry, revision + 1, deadline_ms, error));
    *watching = true;
    bool changed = false;
    uint64_t refresh_ms = ps_deadline_after(follower->clock, REFRESH_MS);
    status = ps_kv_watch_wait(follower->registry.kv, refresh_ms, &changed, error);
    /* A watch that broke, or whose revision was compacted away, is opened anew after the next
     * reading. */
    *watching = status == PS_OK;
    return status;
}

/* The members that were read last stay valid while the store fails: servers mostly stay where they
 * are, and pushes go on without the store. */
static void run(void *argument)
{
    struct ps_follower *follower = argument;
    bool watching = false;
    uint32_t failures = 0;
    while (ps_wake_count(&follower->stop) == 0) {
        struct ps_error error = {.status = PS_OK};
        if (follow_once(follower, &watching, &error) == PS_OK) {
            failures = 0;
            continue;
        }
        note_failure(follower, &error);
        /* A store that answers with a refusal may be overloaded and is left alone for longer. */
        bool away = error.status == PS_ERR_UNAVAILABLE || error.status == PS_ERR_TIMEOUT;
        ps_wake_wait(&follower->stop, 0,
                     ps_retry_pause_ms(&follower->random, ++failures, PAUSE_MIN_MS,
                                       away ? PAUSE_AWAY_MAX_MS : PAUSE_MAX_MS));
    }
}
