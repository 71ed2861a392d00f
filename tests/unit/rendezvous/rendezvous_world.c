/* SPDX-License-Identifier: Apache-2.0 */
/* The condition is told after each call that may have changed what others wait for, as a server
 * tells its lanes: a wait counts the tellings, and looks again after each. */
#include "rendezvous_world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct ps_rendezvous world;
struct ps_error world_error; /* written under the mutex; read when the threads are over */
uint64_t world_now_ms;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static uint64_t changes; /* under the mutex */
static size_t waiting;   /* calls that wait at this moment, of any key; under the mutex */
static _Atomic uint64_t last_id;

struct ps_rendezvous_bounds world_bounds(void)
{
    return (struct ps_rendezvous_bounds){.bytes_max = UINT64_C(1) << 40,
                                         .step_bytes_max = UINT64_C(1) << 40,
                                         .steps_max = 1000,
                                         .step_entries_max = 100000,
                                         .lifetime_ms = 600000};
}

void world_begin_with(const struct ps_allocator *memory, const struct ps_rendezvous_bounds *bounds)
{
    world_now_ms = 1000;
    ps_rendezvous_init(&world, memory, bounds, 77);
}

void world_begin(void)
{
    const struct ps_rendezvous_bounds bounds = world_bounds();
    world_begin_with(ps_allocator_heap(), &bounds);
}

void world_end(void)
{
    ps_rendezvous_check(&world);
    ps_rendezvous_fini(&world);
}

static void note(const struct ps_error *error)
{
    (void)pthread_mutex_lock(&mutex);
    world_error = *error;
    (void)pthread_mutex_unlock(&mutex);
}

static void tell(void)
{
    (void)pthread_mutex_lock(&mutex);
    changes++;
    (void)pthread_cond_broadcast(&told);
    (void)pthread_mutex_unlock(&mutex);
}

struct ps_held_value *world_value(const char *text)
{
    const struct ps_bytes bytes = ps_bytes_of_text(text);
    const struct ps_value_facts facts = {
        .dtype = 5, .element_size = 1, .rank = 1, .extents = {bytes.size}};
    const struct ps_hold none = {.keep = NULL};
    return ps_held_value_create(world.memory, &facts, ps_view_of(&bytes), &none);
}

static struct ps_rendezvous_of of_step(uint64_t step)
{
    return (struct ps_rendezvous_of){.step = step, .now_ms = world_now_ms};
}

enum ps_status world_send_value(const struct ps_rendezvous_of *of, const char *key, uint64_t token,
                                struct ps_held_value *value, uint64_t *epoch, bool *wakes,
                                struct ps_error *error)
{
    bool is_whole;
    const struct ps_rendezvous_sent sent = {
        .key = ps_bytes_of_text(key), .token = token, .value = value};
    enum ps_status status = ps_rendezvous_send(&world, of, &sent, epoch, &is_whole, wakes, error);
    ck_assert(status != PS_OK || is_whole);
    return status;
}

enum ps_status world_send_to(uint64_t step, const char *key, const char *text, uint64_t token)
{
    const struct ps_rendezvous_of of = of_step(step);
    struct ps_error error;
    uint64_t epoch;
    bool wakes;
    struct ps_held_value *value = world_value(text);
    ck_assert(value != NULL);
    enum ps_status status = world_send_value(&of, key, token, value, &epoch, &wakes, &error);
    if (status != PS_OK)
        note(&error);
    if (wakes)
        tell();
    return status;
}

enum ps_status world_send(const char *key, const char *text)
{
    return world_send_to(WORLD_STEP, key, text, 0);
}

static enum ps_status ask(uint64_t step, const struct ps_rendezvous_asked *asked,
                          struct ps_receiving *receiving, struct ps_error *error)
{
    const struct ps_rendezvous_of of = of_step(step);
    bool wakes;
    *receiving = (struct ps_receiving){.step = NULL};
    enum ps_status status = ps_rendezvous_receive(&world, &of, asked, receiving, &wakes, error);
    if (wakes)
        tell();
    return status;
}

enum ps_status world_ask(uint64_t step, uint64_t id, const char *key,
                         struct ps_receiving *receiving)
{
    const struct ps_rendezvous_wish wish = {.id = id, .key = ps_bytes_of_text(key)};
    struct ps_error error;
    enum ps_status status = ask(
        step, &(struct ps_rendezvous_asked){.wishes = &wish, .wish_count = 1}, receiving, &error);
    if (status != PS_OK)
        note(&error);
    return status;
}

static void append_piece(void *self, struct ps_held_value *holder, struct ps_bytes piece)
{
    char *text = self;
    size_t used = strlen(text);
    ck_assert(holder != NULL);
    memcpy(text + used, piece.data, piece.size);
    text[used + piece.size] = '\0';
}

static enum ps_status collect(struct ps_receiving *receiving, bool is_last,
                              char text[WORLD_TEXT_BYTES])
{
    struct ps_error error = {.text = ""};
    enum ps_status status =
        ps_rendezvous_collect(&world, receiving, 1, UINT64_C(1) << 30, is_last, &error);
    if (status == PS_OK)
        status = receiving->rows[0].status;
    if (status == PS_ERR_ABORTED && error.text[0] != '\0')
        note(&error);
    if (status != PS_OK)
        return status;
    struct ps_held_value *value = receiving->rows[0].value;
    ck_assert_uint_lt(value->content.size, WORLD_TEXT_BYTES);
    text[0] = '\0';
    ps_held_value_walk(value, 0, value->content.size, append_piece, text);
    return PS_OK;
}

enum ps_status world_look(struct ps_receiving *receiving, char text[WORLD_TEXT_BYTES])
{
    enum ps_status status = collect(receiving, false, text);
    if (status != PS_ERR_NOT_READY)
        ps_rendezvous_release(&world, receiving);
    return status;
}

enum ps_status world_poll(uint64_t step, const char *key, char text[WORLD_TEXT_BYTES])
{
    struct ps_receiving receiving;
    uint64_t id = world_new_id();
    enum ps_status status = world_ask(step, id, key, &receiving);
    if (status != PS_OK)
        return status;
    status = collect(&receiving, true, text);
    ps_rendezvous_release(&world, &receiving);
    if (status == PS_OK)
        world_done(step, id);
    return status;
}

/* Asked before the count of changes is taken: a change in between is seen by the look. */
enum ps_status world_receive_of(uint64_t step, uint64_t id, const char *key,
                                char text[WORLD_TEXT_BYTES])
{
    struct ps_receiving receiving;
    enum ps_status status = world_ask(step, id, key, &receiving);
    if (status != PS_OK)
        return status;
    (void)pthread_mutex_lock(&mutex);
    waiting++;
    (void)pthread_cond_broadcast(&told);
    for (;;) {
        uint64_t seen = changes;
        (void)pthread_mutex_unlock(&mutex);
        status = world_look(&receiving, text);
        (void)pthread_mutex_lock(&mutex);
        if (status != PS_ERR_NOT_READY)
            break;
        while (changes == seen)
            (void)pthread_cond_wait(&told, &mutex);
    }
    waiting--;
    (void)pthread_mutex_unlock(&mutex);
    if (status == PS_OK)
        world_done(step, id);
    return status;
}

enum ps_status world_receive(const char *key, char text[WORLD_TEXT_BYTES])
{
    return world_receive_of(WORLD_STEP, world_new_id(), key, text);
}

uint64_t world_new_id(void)
{
    return atomic_fetch_add(&last_id, 1) + 1;
}

void world_give_back(uint64_t step, uint64_t id)
{
    struct ps_receiving receiving;
    struct ps_error error;
    enum ps_status status =
        ask(step, &(struct ps_rendezvous_asked){.give_back = &id, .give_back_count = 1}, &receiving,
            &error);
    if (status == PS_OK)
        ps_rendezvous_release(&world, &receiving);
    tell();
}

void world_done(uint64_t step, uint64_t id)
{
    struct ps_receiving receiving;
    struct ps_error error;
    enum ps_status status = ask(
        step, &(struct ps_rendezvous_asked){.done_with = &id, .done_count = 1}, &receiving, &error);
    if (status == PS_OK)
        ps_rendezvous_release(&world, &receiving);
}

void world_abort(uint64_t step, const char *text)
{
    const struct ps_rendezvous_of of = of_step(step);
    uint64_t epoch;
    ck_assert_int_eq(ps_rendezvous_abort(&world, &of, PS_ERR_ABORTED, text, &epoch, NULL), PS_OK);
    tell();
}

void world_cleanup(uint64_t step)
{
    ps_rendezvous_cleanup(&world, step);
    tell();
}

void world_cleanup_all(void)
{
    ps_rendezvous_cleanup_all(&world);
    tell();
}

enum ps_status world_step_begin(uint64_t step, const char *session, bool is_strict)
{
    const struct ps_rendezvous_of of = of_step(step);
    uint64_t epoch = 0;
    bool wakes;
    enum ps_status status = ps_rendezvous_begin(&world, &of, ps_bytes_of_text(session), is_strict,
                                                0, &epoch, &wakes, &world_error);
    if (wakes)
        tell();
    return status;
}

void world_await_waiting(size_t count)
{
    (void)pthread_mutex_lock(&mutex);
    while (waiting < count)
        (void)pthread_cond_wait(&told, &mutex);
    (void)pthread_mutex_unlock(&mutex);
}
