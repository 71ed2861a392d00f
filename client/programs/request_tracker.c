/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are open, in a table; of the others nothing but the highest number, and a ring of
 * failures. A request that went well and one that was forgotten long ago look the same: whoever
 * waits for it again is told that it is over.
 *
 * ps-lite's tracker is a list that only grows: a job of a week has as many entries as it ever made
 * requests. Here what is open is in memory, and what is over is a number that is below `next` and
 * not in the table. Nobody may wait twice and be told a failure twice for ever; the ring is for
 * the program that looks once, a little late.
 *
 * Answers are counted by node and not by message: a repeat of an answer, or two answers of a
 * program that is wrong, are one. */
#include "client/programs/request_tracker.h"

#include "base/assert.h"

/* uthash takes its memory from the tracker's allocator, and a refusal leaves the table as it
 * was. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(tracker->memory, (size))
#define uthash_free(pointer, size) ps_release(tracker->memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

struct ps_tracked {
    UT_hash_handle hh;
    int64_t timestamp;
    void *owner; /* borrowed */
    size_t expected, responses;
    struct ps_error why;
    bool answered[];
};

static struct ps_tracked *find(const struct ps_request_tracker *tracker, int64_t timestamp);
static void remember(struct ps_request_tracker *tracker, const struct ps_tracked *tracked);

/* Nothing is allocated before the first request: a customer that only listens has no tracker's
 * memory. */
void ps_request_tracker_init(struct ps_request_tracker *tracker, const struct ps_allocator *memory)
{
    *tracker = (struct ps_request_tracker){.memory = memory};
}

/* Owners are the caller's: whoever ends a tracker with open requests has ended those before. */
void ps_request_tracker_fini(struct ps_request_tracker *tracker)
{
    struct ps_tracked *tracked, *next;
    HASH_ITER(hh, tracker->open, tracked, next)
    {
        HASH_DEL(tracker->open, tracked);
        ps_release(tracker->memory, tracked);
    }
    ps_release(tracker->memory, tracker->failures);
    ps_request_tracker_init(tracker, tracker->memory);
}

/* The ring of failures is made with the first request, so that noting one never fails. */
enum ps_status ps_request_tracker_begin(struct ps_request_tracker *tracker, size_t expected,
                                        void *owner, int64_t *timestamp, struct ps_error *error)
{
    if (tracker->failures == NULL)
        tracker->failures =
            ps_zeroed_array(tracker->memory, PS_TRACKER_FAILURES_MAX, sizeof *tracker->failures);
    struct ps_tracked *tracked =
        ps_zeroed(tracker->memory, sizeof *tracked + expected * sizeof tracked->answered[0]);
    bool refused = tracker->failures == NULL || tracked == NULL;
    if (!refused) {
        tracked->timestamp = tracker->next;
        tracked->owner = owner;
        tracked->expected = expected;
        HASH_ADD(hh, tracker->open, timestamp, sizeof tracked->timestamp, tracked);
    }
    if (refused) {
        ps_release(tracker->memory, tracked);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    }
    tracker->next++;
    *timestamp = tracked->timestamp;
    return PS_OK;
}

/* A late answer to a forgotten request is no fault: its caller has given up, and the server could
 * not know. A second answer of one node is dropped here, so that the count never passes what was
 * expected, and waiting for equality is safe. */
bool ps_request_tracker_answer(struct ps_request_tracker *tracker, int64_t timestamp, size_t i,
                               const struct ps_error *why)
{
    struct ps_tracked *tracked = find(tracker, timestamp);
    if (tracked == NULL)
        return false;
    PS_ASSERT(i < tracked->expected);
    if (tracked->answered[i])
        return false;
    tracked->answered[i] = true;
    tracked->responses++;
    if (tracked->why.status == PS_OK && why != NULL && why->status != PS_OK)
        tracked->why = *why;
    PS_ASSERT(tracked->responses <= tracked->expected);
    return tracked->responses == tracked->expected;
}

/* The ring is searched from its start: it is short, and only those look there who wait twice. */
enum ps_tracked_state ps_request_tracker_look(const struct ps_request_tracker *tracker,
                                              int64_t timestamp, struct ps_error *error)
{
    const struct ps_tracked *tracked = find(tracker, timestamp);
    struct ps_error none = {.status = PS_OK};
    struct ps_error *why = error != NULL ? error : &none;
    *why = none;
    if (timestamp < 0 || timestamp >= tracker->next)
        return PS_TRACKED_NONE;
    if (tracked != NULL) {
        *why = tracked->why;
        return tracked->responses < tracked->expected ? PS_TRACKED_OPEN : PS_TRACKED_OVER;
    }
    size_t known = tracker->failure_count < PS_TRACKER_FAILURES_MAX ? tracker->failure_count
                                                                    : PS_TRACKER_FAILURES_MAX;
    for (size_t i = 0; i < known; i++)
        if (tracker->failures[i].timestamp == timestamp)
            *why = tracker->failures[i].why;
    return PS_TRACKED_FORGOTTEN;
}

/* Of a request that is over and was not collected yet, all of them. */
size_t ps_request_tracker_responses(const struct ps_request_tracker *tracker, int64_t timestamp)
{
    const struct ps_tracked *tracked = find(tracker, timestamp);
    return tracked != NULL ? tracked->responses : 0;
}

void *ps_request_tracker_owner(const struct ps_request_tracker *tracker, int64_t timestamp)
{
    const struct ps_tracked *tracked = find(tracker, timestamp);
    return tracked != NULL ? tracked->owner : NULL;
}

bool ps_request_tracker_has_answered(const struct ps_request_tracker *tracker, int64_t timestamp,
                                     size_t i)
{
    const struct ps_tracked *tracked = find(tracker, timestamp);
    return tracked != NULL && i < tracked->expected && tracked->answered[i];
}

/* Also while answers are missing: the caller has given up then, and the number stays used. */
void ps_request_tracker_forget(struct ps_request_tracker *tracker, int64_t timestamp)
{
    struct ps_tracked *tracked = find(tracker, timestamp);
    if (tracked == NULL)
        return;
    remember(tracker, tracked);
    HASH_DEL(tracker->open, tracked);
    ps_release(tracker->memory, tracked);
}

/* For bounds and for tests of leaks. */
size_t ps_request_tracker_open_count(const struct ps_request_tracker *tracker)
{
    return HASH_COUNT(tracker->open);
}

static struct ps_tracked *find(const struct ps_request_tracker *tracker, int64_t timestamp)
{
    struct ps_tracked *tracked = NULL;
    HASH_FIND(hh, tracker->open, &timestamp, sizeof timestamp, tracked);
    return tracked;
}

/* The oldest failure makes room. */
static void remember(struct ps_request_tracker *tracker, const struct ps_tracked *tracked)
{
    if (tracked->why.status == PS_OK)
        return;
    tracker->failures[tracker->failure_count++ % PS_TRACKER_FAILURES_MAX] =
        (struct ps_tracked_failure){tracked->timestamp, tracked->why};
}
