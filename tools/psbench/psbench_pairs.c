/* SPDX-License-Identifier: Apache-2.0 */
/* Several pairs and not several values of one: a receive is a call that waits, and the next of
 * its key would wait behind it. With pairs the server has as many values coming and going at any
 * time as there are, in no order that anybody has chosen, which is what a job of many workers
 * looks like.
 *
 * Two threads for each pair, and a lock between them that says how far each is. The lock is
 * taken once for each value on each side; beside a call over a network that is nothing.
 *
 * A sender ends when its time is over, and says so; its receiver takes what was sent by then. So
 * nothing is left at the server, and the next measurement begins with empty queues. */
#include "tools/psbench/psbench_pairs.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "tools/psbench/psbench_load.h"
#include "tools/psbench/psbench_load_state.h"

#include <stdio.h>
#include <string.h>

static void send_main(void *argument);
static void receive_main(void *argument);
static void note(struct ps_bench_pair *pair, uint64_t *count, bool is_over, int result,
                 const struct psclient_error *reason);

/* At three places: a value that was put together wrongly has another value's bytes somewhere. */
static void stamp(uint8_t *bytes, uint64_t size, uint64_t number)
{
    /* Rounded down to whole words. */
    const uint64_t places[] = {0, size / 2, size - sizeof number};
    PS_ASSERT(size >= sizeof number);
    for (size_t i = 0; i < PS_ARRAY_COUNT(places); i++)
        memcpy(bytes + places[i] / sizeof number * sizeof number, &number, sizeof number);
}

/* The places may lie within one another in a value of a few bytes: they have the same number. */
static bool has_stamp(const uint8_t *bytes, uint64_t size, uint64_t number)
{
    const uint64_t places[] = {0, size / 2, size - sizeof number};
    bool is_right = true;
    PS_ASSERT(size >= sizeof number);
    for (size_t i = 0; i < PS_ARRAY_COUNT(places); i++) {
        uint64_t read;
        memcpy(&read, bytes + places[i] / sizeof number * sizeof number, sizeof read);
        is_right = is_right && read == number;
    }
    return is_right;
}

/* Keys differ between sizes, too: a value that an earlier measurement has left behind would be
 * found by its length. */
static enum ps_status open_pair(struct ps_bench_pair *pair, struct ps_bench_pairs *run,
                                size_t number, struct ps_error *error)
{
    *pair = (struct ps_bench_pair){.run = run};
    /* Nothing is called with it held. */
    ps_mutex_init(&pair->lock, PS_RANK_LEAF);
    ps_condition_init(&pair->changed);
    (void)snprintf(pair->key, sizeof pair->key, "pair %zu of %llu", number,
                   (unsigned long long)run->size);
    /* Touched before anything is measured. */
    pair->sent_bytes = ps_plain(ps_allocator_heap(), run->size);
    pair->received_bytes = ps_plain(ps_allocator_heap(), run->size);
    if (pair->sent_bytes == NULL || pair->received_bytes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for values");
    memset(pair->sent_bytes, 1, run->size);
    memset(pair->received_bytes, 2, run->size);
    return PS_OK;
}

/* Also of a pair whose memory was refused. */
static void close_pair(struct ps_bench_pair *pair)
{
    if (pair->run == NULL)
        return;
    ps_condition_fini(&pair->changed);
    ps_mutex_fini(&pair->lock);
    ps_release(ps_allocator_heap(), pair->sent_bytes);
    ps_release(ps_allocator_heap(), pair->received_bytes);
    pair->run = NULL;
}

/* A receiver before its sender, so that the first value is waited for. */
static void start_all(struct ps_bench_pairs *run, size_t *senders, size_t *receivers,
                      enum ps_status *status, struct ps_error *error)
{
    while (*status == PS_OK && *senders < run->pair_count) {
        struct ps_bench_pair *pair = &run->pairs[*senders];
        *status = ps_thread_start(&pair->receiver, "receive", receive_main, pair, error);
        *receivers += *status == PS_OK;
        if (*status == PS_OK)
            *status = ps_thread_start(&pair->sender, "send", send_main, pair, error);
        *senders += *status == PS_OK;
        /* A receiver whose sender never began would wait for it. */
        if (*status != PS_OK && *receivers > *senders)
            note(pair, NULL, true, PSCLIENT_OK, NULL);
    }
}

/* What was received until the last value was is counted, over that time. */
enum ps_status ps_bench_pairs_run(struct ps_bench_pairs *run,
                                  struct psclient_rendezvous *const steps[2], uint64_t size,
                                  uint64_t pair_count, uint64_t ahead, uint64_t time_ms,
                                  struct ps_bench_figures *figures, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    size_t opened = 0;
    *run = (struct ps_bench_pairs){.from = steps[0],
                                   .to = steps[1],
                                   .size = size,
                                   .ahead = ahead,
                                   .pair_count = (size_t)pair_count};
    while (status == PS_OK && opened < run->pair_count) {
        status = open_pair(&run->pairs[opened], run, opened, error);
        opened++;
    }
    uint64_t begin_ns = ps_clock_precise_ns();
    run->end_ns = begin_ns + time_ms * 1000000;
    size_t senders = 0;
    size_t receivers = 0;
    start_all(run, &senders, &receivers, &status, error);
    /* A sender that has failed has told its receiver, and the other way round. */
    for (size_t i = 0; i < senders; i++)
        ps_thread_join(&run->pairs[i].sender);
    for (size_t i = 0; i < receivers; i++)
        ps_thread_join(&run->pairs[i].receiver);
    /* Behind the last value: the receivers end only when they have all that was sent. */
    uint64_t elapsed_ns = ps_clock_precise_ns() - begin_ns;
    uint64_t count = 0;
    for (size_t i = 0; i < opened; i++) {
        /* The first pair that failed; the others had their own ends. */
        if (status == PS_OK && run->pairs[i].error.status != PS_OK) {
            *error = run->pairs[i].error;
            status = error->status;
        }
        count += run->pairs[i].received;
        close_pair(&run->pairs[i]);
    }
    *figures = ps_bench_figures_of(count, elapsed_ns, NULL);
    return status;
}

/* Waits until the receiver is near enough; false: it has failed. */
static bool may_send(struct ps_bench_pair *pair)
{
    ps_mutex_lock(&pair->lock);
    /* The value that a receiver is busy with counts as one ahead. */
    while (pair->error.status == PS_OK && pair->sent - pair->received > pair->run->ahead)
        (void)ps_condition_wait(&pair->changed, &pair->lock, PS_DEADLINE_NEVER);
    bool may = pair->error.status == PS_OK;
    ps_mutex_unlock(&pair->lock);
    return may;
}

/* One more was sent or received, or it failed, or this was the last. */
static void note(struct ps_bench_pair *pair, uint64_t *count, bool is_over, int result,
                 const struct psclient_error *reason)
{
    ps_mutex_lock(&pair->lock);
    if (result != PSCLIENT_OK && pair->error.status == PS_OK) {
        enum ps_status failed = ps_bench_load_status(result, reason, &pair->error);
        PS_ASSERT(failed != PS_OK);
    }
    /* Both counts are under the lock of the pair, whose other side waits for them. */
    if (result == PSCLIENT_OK && count != NULL)
        (*count)++;
    pair->is_over = pair->is_over || is_over;
    ps_condition_signal_all(&pair->changed);
    ps_mutex_unlock(&pair->lock);
}

/* At least as many as everything else that is compared: one is chance. */
static void send_main(void *argument)
{
    struct ps_bench_pair *pair = argument;
    struct ps_bench_pairs *run = pair->run;
    struct psclient_error reason = {0};
    uint64_t number = 0;
    while (may_send(pair) &&
           (number < PS_BENCH_REFERENCE_COUNT_MIN || ps_clock_precise_ns() < run->end_ns)) {
        const struct psclient_tensor tensor = {.dtype = 1,
                                               .element_size = 1,
                                               .rank = 1,
                                               .shape = {run->size},
                                               .content = pair->sent_bytes,
                                               .size = run->size};
        /* The call has returned for the value before: its bytes are the sender's again. */
        stamp(pair->sent_bytes, run->size, ++number);
        int result =
            psclient_rendezvous_send(run->from, pair->key, &tensor, PS_BENCH_ANSWER_MS, &reason);
        note(pair, &pair->sent, false, result, &reason);
    }
    note(pair, NULL, true, PSCLIENT_OK, &reason);
}

/* Is one more on its way? A receive that is begun before its value was sent waits in the server;
 * this one waits for the send to return, so that the time of a value is that of both calls. */
static bool has_more(struct ps_bench_pair *pair)
{
    ps_mutex_lock(&pair->lock);
    while (pair->error.status == PS_OK && !pair->is_over && pair->sent == pair->received)
        (void)ps_condition_wait(&pair->changed, &pair->lock, PS_DEADLINE_NEVER);
    bool has = pair->error.status == PS_OK && pair->sent != pair->received;
    ps_mutex_unlock(&pair->lock);
    return has;
}

/* Into the same memory each time, as a trainer would: memory that the library makes is touched for
 * the first time by each value, and that is what would be measured. */
static void receive_main(void *argument)
{
    struct ps_bench_pair *pair = argument;
    struct ps_bench_pairs *run = pair->run;
    struct psclient_error reason = {0};
    for (uint64_t number = 1; has_more(pair); number++) {
        struct psclient_tensor tensor = {.content = pair->received_bytes, .size = run->size};
        int result =
            psclient_rendezvous_recv(run->to, pair->key, &tensor, PS_BENCH_ANSWER_MS, &reason);
        if (result == PSCLIENT_OK &&
            (tensor.size != run->size || !has_stamp(pair->received_bytes, run->size, number))) {
            result = PSCLIENT_FAILED;
            (void)snprintf(reason.text, sizeof reason.text, "%s: value %llu is another one",
                           pair->key, (unsigned long long)number);
        }
        note(pair, &pair->received, false, result, &reason);
    }
}
