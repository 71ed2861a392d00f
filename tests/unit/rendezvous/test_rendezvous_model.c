/* SPDX-License-Identifier: Apache-2.0 */
/* Sends, receives, repeats, lost replies, gifts back and aborts by chance, beside a model of plain
 * arrays: what each receive gets is what the model says. */
#include "rendezvous_world.h"

#include "base/random.h"
#include "run_suite.h"

#include <stdio.h>
#include <string.h>

enum { KEYS = 3, QUEUE_MAX = 4096, CALLS = 6, STEPS = 20000 };

/* Of one key: numbers that were sent and nobody has, or calls that wait; the first first. */
struct queue {
    int values[QUEUE_MAX], calls[QUEUE_MAX];
    int value_count, call_count;
};

struct call {
    bool is_open, has_value; /* by the model */
    int key, value;
    uint64_t id;
    struct ps_receiving receiving;
};

static struct queue queues[KEYS];
static struct call calls[CALLS];
static struct ps_random chance;
static int last_sent;

static const char *key_text(int key)
{
    static const char *const texts[KEYS] = {"a", "b", "c"};
    return texts[key];
}

static void remove_at(int *list, int *count, int at)
{
    (*count)--;
    memmove(&list[at], &list[at + 1], (size_t)(*count - at) * sizeof *list);
}

static void model_give(struct queue *queue, int value, bool to_front)
{
    if (queue->call_count > 0) {
        struct call *call = &calls[queue->calls[0]];
        remove_at(queue->calls, &queue->call_count, 0);
        call->has_value = true;
        call->value = value;
        return;
    }
    if (to_front)
        memmove(&queue->values[1], queue->values, (size_t)queue->value_count * sizeof(int));
    queue->values[to_front ? 0 : queue->value_count] = value;
    queue->value_count++;
}

static void send_one(int key)
{
    char word[16];
    int value = ++last_sent;
    (void)snprintf(word, sizeof word, "%d", value);
    ck_assert_int_eq(world_send_to(WORLD_STEP, key_text(key), word, (uint64_t)value), PS_OK);
    /* A repeat adds nothing. */
    if (ps_random_below(&chance, 4) == 0)
        ck_assert_int_eq(world_send_to(WORLD_STEP, key_text(key), word, (uint64_t)value), PS_OK);
    model_give(&queues[key], value, false);
}

static void open_call(int number, int key)
{
    struct call *call = &calls[number];
    struct queue *queue = &queues[key];
    *call = (struct call){.is_open = true, .key = key, .id = world_new_id()};
    ck_assert_int_eq(world_ask(WORLD_STEP, call->id, key_text(key), &call->receiving), PS_OK);
    if (queue->value_count > 0) {
        call->has_value = true;
        call->value = queue->values[0];
        remove_at(queue->values, &queue->value_count, 0);
    } else {
        queue->calls[queue->call_count++] = number;
    }
}

/* The call ends without a look, as if its connection had broken: a receive that waits is gone. */
static void break_call(int number)
{
    struct call *call = &calls[number];
    struct queue *queue = &queues[call->key];
    ps_rendezvous_release(&world, &call->receiving);
    if (call->has_value) {
        /* It comes again under its id. */
        ck_assert_int_eq(world_ask(WORLD_STEP, call->id, key_text(call->key), &call->receiving),
                         PS_OK);
        return;
    }
    for (int i = 0; i < queue->call_count; i++)
        if (queue->calls[i] == number)
            remove_at(queue->calls, &queue->call_count, i--);
    call->is_open = false;
}

static void look_at(struct call *call)
{
    char text[WORLD_TEXT_BYTES];
    char word[16];
    enum ps_status status = world_look(&call->receiving, text);
    ck_assert_int_eq(status, call->has_value ? PS_OK : PS_ERR_NOT_READY);
    if (status != PS_OK)
        return;
    (void)snprintf(word, sizeof word, "%d", call->value);
    ck_assert_str_eq(text, word);
    call->is_open = false;
    if (ps_random_below(&chance, 3) > 0) {
        world_done(WORLD_STEP, call->id);
        return;
    }
    world_give_back(WORLD_STEP, call->id);
    model_give(&queues[call->key], call->value, true);
}

static void do_something(void)
{
    int number = (int)ps_random_below(&chance, CALLS);
    int key = (int)ps_random_below(&chance, KEYS);
    uint64_t what = ps_random_below(&chance, 10);
    if (what < 4)
        send_one(key);
    else if (!calls[number].is_open)
        open_call(number, key);
    else if (what == 4)
        break_call(number);
    else
        look_at(&calls[number]);
}

START_TEST(every_receive_gets_what_the_model_says)
{
    memset(queues, 0, sizeof queues);
    memset(calls, 0, sizeof calls);
    ps_random_init(&chance, (uint64_t)_i);
    last_sent = 0;
    for (int i = 0; i < STEPS; i++) {
        do_something();
        if (i % 64 == 0)
            ps_rendezvous_check(&world);
        /* The model's arrays are bounded. */
        for (int key = 0; key < KEYS; key++)
            if (queues[key].value_count > QUEUE_MAX - 8) {
                char text[WORLD_TEXT_BYTES];
                ck_assert_int_eq(world_poll(WORLD_STEP, key_text(key), text), PS_OK);
                remove_at(queues[key].values, &queues[key].value_count, 0);
            }
    }
    world_abort(WORLD_STEP, "the end");
    for (int i = 0; i < CALLS; i++)
        if (calls[i].is_open) {
            char text[WORLD_TEXT_BYTES];
            ck_assert_int_eq(world_look(&calls[i].receiving, text), PS_ERR_ABORTED);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_model");
    TCase *tests = tcase_create("rendezvous_model");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_loop_test(tests, every_receive_gets_what_the_model_says, 1, 9);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
