/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that knows where the servers are. It asks its source, tells whoever waits, and asks
 * again.
 *
 * The source belongs to this thread alone. Others see `latest`, under the lock, and take it over
 * without a copy; how long they wait does not depend on the source. */
#include "client/members/follower.h"

#include "client/calls/retry.h"

/* Pauses between failures double between these, half of each by chance. A source that does not
 * answer is asked more often: to learn that it is back costs it nothing before. */
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 2000
#define PAUSE_AWAY_MAX_MS 250

struct ps_follower {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_wake *wake;              /* borrowed */
    struct ps_member_source source;    /* owned; the thread's */
    struct ps_thread thread;
    struct ps_random random; /* the thread's */
    struct ps_wake stop;     /* woken once, at the end */

    struct ps_mutex mutex;
    struct ps_members latest; /* owned */
    bool fresh;               /* `latest` was not taken yet */
    uint32_t shard_count;     /* 0: not known yet */
    struct ps_error why;      /* of the last failure before that */
};

/* The thread may be in its source for seconds, but never while it holds the lock. */
static void run(void *argument);

/* Fails only for want of memory or a thread: the source need not answer now. A trainer that starts
 * before its etcd waits for it in psclient_open, by the shard count. */
enum ps_status ps_follower_create(const struct ps_member_source *source, struct ps_wake *wake,
                                  const struct ps_allocator *memory, struct ps_follower **out,
                                  struct ps_error *error)
{
    struct ps_follower *follower = ps_zeroed(memory, sizeof *follower);
    if (follower == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to follow the servers");
    follower->memory = memory;
    follower->wake = wake;
    follower->latest.memory = memory;
    uint64_t seed = 0;
    ps_random_system(&seed, sizeof seed);
    ps_random_init(&follower->random, seed);
    ps_wake_init(&follower->stop);
    ps_mutex_init(&follower->mutex, PS_RANK_QUEUE);
    ps_fail(&follower->why, PS_ERR_NOT_FOUND, "nobody has answered yet");
    follower->source = *source;
    enum ps_status status = ps_thread_start(&follower->thread, "ps_follower", run, follower, error);
    if (status != PS_OK) {
        /* After a failure the caller ends the source, and a follower that was made half-way must
         * not. */
        follower->source = (struct ps_member_source){0};
        ps_follower_destroy(follower);
        return status;
    }
    *out = follower;
    return PS_OK;
}

/* A wait of the source ends at once by the interrupt, a pause by the wake-up; a question ends at
 * its own deadline, so that this may take seconds at worst. */
void ps_follower_destroy(struct ps_follower *follower)
{
    if (follower == NULL)
        return;
    ps_wake_all(&follower->stop);
    if (follower->source.self != NULL)
        follower->source.interrupt(follower->source.self);
    ps_thread_join(&follower->thread);
    if (follower->source.self != NULL)
        follower->source.destroy(follower->source.self);
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

/* A server that refuses a call as not its own knows more than the source has told. The interrupt
 * ends the wait for a change, and what follows a wait is a question for everything. */
void ps_follower_look_again(struct ps_follower *follower)
{
    follower->source.interrupt(follower->source.self);
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

/* What the source has to tell is everything, or nothing: then there was only a wait that ended. */
static enum ps_status follow_once(struct ps_follower *follower, struct ps_error *error)
{
    struct ps_members members = {0};
    PS_TRY(follower->source.next(follower->source.self, &members, error));
    if (members.shard_count > 0)
        publish(follower, &members);
    return PS_OK;
}

/* The members that were read last stay valid while the source fails: servers mostly stay where they
 * are, and pushes go on without the source. */
static void run(void *argument)
{
    struct ps_follower *follower = argument;
    uint32_t failures = 0;
    bool was_well = true;
    while (ps_wake_count(&follower->stop) == 0) {
        struct ps_error error = {.status = PS_OK};
        bool is_well = follow_once(follower, &error) == PS_OK;
        /* Twice in a row: of a source whose readings work and whose waits do not, each reading
         * would else begin the pauses anew. */
        if (is_well && was_well)
            failures = 0;
        was_well = is_well;
        if (is_well)
            continue;
        note_failure(follower, &error);
        /* A source that answers with a refusal may be overloaded and is left alone for longer. */
        bool away = error.status == PS_ERR_UNAVAILABLE || error.status == PS_ERR_TIMEOUT;
        ps_wake_wait(&follower->stop, 0,
                     ps_retry_pause_ms(&follower->random, ++failures, PAUSE_MIN_MS,
                                       away ? PAUSE_AWAY_MAX_MS : PAUSE_MAX_MS));
    }
}
