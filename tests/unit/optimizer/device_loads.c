/* SPDX-License-Identifier: Apache-2.0 */
/* Random work loads: parameters of any size, type and rule; gradients pushed alone and together,
 * looked at by the host or by the device, in any encoding, some of them refused; reads, writes and
 * snapshots that are still on their way while pushes go on; parameters that end and are made again.
 * The CPU does the same one after another. */
#include "device_member.h"
#include "device_orders.h"

#include "base/assert.h"
#include "base/random.h"
#include "optimizer/device.h"
#include "optimizer/device/runtime.h"
#include "optimizer/sum.h"
#include "rule_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_LARGE 17000
#define MEMBERS 4
#define HELD_MAX 3
#define READINGS 3
#define COPIES 2
#define TOGETHER_MAX 3
#define ACTIONS_MIN 30

extern ps_device_entry_fn ps_device_entry;

/* A gradient that the device has looked at, and that somebody may yet push. */
struct held {
    struct ps_device_judged *judged; /* NULL: this place is free */
    struct member *member;
    struct ps_gradient_scan scan; /* the CPU's */
    double gradient[MEMBER_COUNT_MAX];
};

struct reading {
    uint8_t *pinned;
    bool begun;
    struct ps_device_ticket ticket;
    enum ps_dtype dtype;
    size_t count;
    double expected[MEMBER_COUNT_MAX];
};

struct copy {
    struct ps_device_snapshot *snapshot; /* NULL: this place is free */
    enum ps_dtype dtype;
    size_t count;
    uint32_t array_count;
    double arrays[MEMBER_ARRAYS_MAX][MEMBER_COUNT_MAX];
};

struct loads {
    uint64_t seed;
    const struct ps_device_plugin *plugin;
    struct ps_device *device;
    struct ps_random random;
    struct member members[MEMBERS];
    struct held held[HELD_MAX];
    struct reading readings[READINGS];
    struct copy copies[COPIES];
    double gradients[TOGETHER_MAX][MEMBER_COUNT_MAX];
    uint8_t contents[TOGETHER_MAX][MEMBER_CONTENT_MAX];
    double seen[MEMBER_COUNT_MAX];
    bool right;
};

static void expect(struct loads *loads, bool is_so, const char *what)
{
    if (!is_so && loads->right)
        (void)fprintf(stderr, "device_loads: seed %llu: %s\n", (unsigned long long)loads->seed,
                      what);
    loads->right = loads->right && is_so;
}

static size_t below(struct loads *loads, size_t bound)
{
    return (size_t)ps_random_below(&loads->random, bound);
}

static struct member *any_member(struct loads *loads)
{
    return &loads->members[below(loads, MEMBERS)];
}

/* The first is large, and its gradients take several slots, two are small, and theirs go together;
 * the last is anything. */
static size_t any_count(struct loads *loads, const struct member *member)
{
    static const size_t most[] = {300, 9000, MEMBER_COUNT_MAX};
    if (member == loads->members)
        return COUNT_LARGE + below(loads, MEMBER_COUNT_MAX - COUNT_LARGE);
    if (member != &loads->members[MEMBERS - 1])
        return 1 + below(loads, most[0]);
    return 1 + below(loads, most[below(loads, sizeof most / sizeof most[0])]);
}

/* ---- Parameters ---- */

/* Most as the first: what goes in one launch has one rule and one type. */
static void choose(struct loads *loads, struct member *member)
{
    bool is_first = member == loads->members;
    if (is_first || below(loads, 4) == 0) {
        member_choose(member, &loads->random, is_first);
    } else {
        member->dtype = loads->members[0].dtype;
        member->settings = loads->members[0].settings;
    }
    member->count = any_count(loads, member);
}

static void create(struct loads *loads, struct member *member)
{
    struct ps_error error = {0};
    struct ps_device_parameter_wish wish = {
        .settings = &member->settings, .dtype = member->dtype, .count = member->count};
    enum ps_status status =
        loads->plugin->parameter_create(loads->device, &wish, &member->parameter, &error);
    if (status == PS_ERR_BUSY) { /* The budget: a small one finds room. */
        wish.count = member->count = 1;
        status = loads->plugin->parameter_create(loads->device, &wish, &member->parameter, &error);
    }
    member_must(status, &error);
    member_start(member, &loads->random);
    const struct ps_bytes values = {(const uint8_t *)member->arrays[0],
                                    member->count * ps_dtype_size(member->dtype)};
    member_must(loads->plugin->write(member->parameter, 0, 0, ps_view_of(&values), &error), &error);
}

static void let_go(struct loads *loads, struct held *held)
{
    loads->plugin->judged_release(held->judged);
    held->judged = NULL;
}

/* Reads and snapshots of it may be on their way. Every other time it is like the one before, and
 * may get the same memory. */
static void create_again(struct loads *loads)
{
    struct member *member = any_member(loads);
    bool is_alike = below(loads, 2) == 0;
    for (size_t i = 0; i < HELD_MAX; i++)
        if (loads->held[i].judged != NULL && loads->held[i].member == member)
            let_go(loads, &loads->held[i]);
    loads->plugin->parameter_destroy(member->parameter);
    if (!is_alike)
        choose(loads, member);
    create(loads, member);
}

static void write_part(struct loads *loads)
{
    struct ps_error error = {0};
    struct member *member = any_member(loads);
    size_t width = ps_dtype_size(member->dtype);
    size_t first = below(loads, member->count);
    size_t count = 1 + below(loads, member->count - first);
    uint8_t *place = (uint8_t *)member->arrays[0] + first * width;
    member_fill(member, &loads->random, place, count);
    const struct ps_bytes values = {place, count * width};
    member_must(
        loads->plugin->write(member->parameter, 0, first * width, ps_view_of(&values), &error),
        &error);
}

/* ---- Pushes ---- */

/* One or a few, of parameters that may be the same: from number `first` on. */
static void push_from(struct loads *loads, size_t first)
{
    struct ps_error error = {0};
    struct member *members[TOGETHER_MAX];
    struct ps_bytes contents[TOGETHER_MAX];
    struct ps_optimizer_step steps[TOGETHER_MAX];
    struct ps_device_push pushes[TOGETHER_MAX];
    struct ps_device_ticket ticket = {0};
    size_t count = 1 + below(loads, TOGETHER_MAX);
    for (size_t i = 0; i < count; i++) {
        struct ps_gradient_scan scan = {0};
        struct member *member = members[i] = &loads->members[first + below(loads, MEMBERS - first)];
        pushes[i].parameter = member->parameter;
        pushes[i].step = &steps[i];
        contents[i] = member_gradient(member, &loads->random, &pushes[i].encoding,
                                      loads->contents[i], loads->gradients[i]);
        pushes[i].gradient = ps_view_of(&contents[i]);
        ps_optimizer_scan(&member->settings, member->dtype, loads->gradients[i], member->count,
                          &scan);
        member_apply(member, &scan, loads->gradients[i], &steps[i]);
    }
    member_must(loads->plugin->push(loads->device, pushes, count, &ticket, &error), &error);
    for (size_t i = 0; i < count; i++)
        members[i]->newest = ticket;
}

static void push(struct loads *loads)
{
    push_from(loads, 0);
}

/* Many small ones: what goes together is a table, and the ring comes round. */
static void push_often(struct loads *loads)
{
    for (size_t times = 2 + below(loads, 6); times > 0; times--)
        push_from(loads, 1);
}

static struct held *free_place(struct loads *loads)
{
    for (size_t i = 0; i < HELD_MAX; i++)
        if (loads->held[i].judged == NULL)
            return &loads->held[i];
    return NULL;
}

/* Nobody but this thread gives slots back, so that it may ask only for what is there. */
static bool has_room(const struct loads *loads)
{
    const struct ps_ring *ring = &loads->device->ring;
    return ring->judged_room.free >= ring->judged_slots_max;
}

static void judge(struct loads *loads)
{
    struct ps_error error = {0};
    struct held *held = free_place(loads);
    struct member *member = below(loads, 2) == 0 ? loads->members : any_member(loads);
    struct ps_gradient_scan found = {0};
    enum ps_encoding encoding;
    if (held == NULL || !has_room(loads) || !member_is_float(member) ||
        !ps_optimizer_scans(&member->settings, member->dtype))
        return;
    const struct ps_bytes content =
        member_gradient(member, &loads->random, &encoding, loads->contents[0], held->gradient);
    if (encoding == PS_ENCODING_NATIVE && below(loads, 4) == 0) {
        size_t place = below(loads, member->count) * ps_dtype_size(member->dtype);
        memset(loads->contents[0] + place, 0xff, ps_dtype_size(member->dtype));
        memcpy(held->gradient, content.data, content.size);
    }
    if (!loads->plugin->judges(member->parameter, ps_view_of(&content), encoding))
        return;
    member_must(loads->plugin->judge(member->parameter, &member->settings, ps_view_of(&content),
                                     encoding, &held->judged, &found, &error),
                &error);
    held->member = member;
    held->scan = (struct ps_gradient_scan){0};
    ps_optimizer_scan(&member->settings, member->dtype, held->gradient, member->count, &held->scan);
    double sum = ps_sum_total(&held->scan);
    bool finite = !held->scan.nonfinite;
    expect(loads, found.nonfinite == !finite && found.nonfinite_index == held->scan.nonfinite_index,
           "another element is not finite");
    expect(loads, !finite || memcmp(&found.square_sum, &sum, sizeof sum) == 0, "another norm");
    if (!finite || !loads->right)
        let_go(loads, held);
}

/* Any of those that wait, not the oldest first; now and then one is not pushed at all. */
static void push_held(struct loads *loads)
{
    struct ps_error error = {0};
    struct ps_optimizer_step step;
    struct held *held = &loads->held[below(loads, HELD_MAX)];
    for (size_t i = 0; held->judged == NULL && i < HELD_MAX; i++)
        held = &loads->held[i];
    if (held->judged == NULL)
        return;
    if (below(loads, 8) > 0) {
        member_apply(held->member, &held->scan, held->gradient, &step);
        member_must(loads->plugin->push_judged(held->judged, &step, &held->member->newest, &error),
                    &error);
    }
    let_go(loads, held);
}

/* As a server with several trainers has it: large gradients and small ones, and nobody waits. */
static void push_all_kinds(struct loads *loads)
{
    for (size_t times = 2 + below(loads, 3); times > 0; times--) {
        judge(loads);
        push_held(loads);
        push_often(loads);
    }
}

static void wait_for_push(struct loads *loads)
{
    struct ps_error error = {0};
    member_must(loads->plugin->wait(loads->device, any_member(loads)->newest, &error), &error);
}

/* ---- Reads and snapshots ---- */

static void read_now(struct loads *loads, struct member *member, uint32_t array)
{
    struct ps_error error = {0};
    size_t size = member->count * ps_dtype_size(member->dtype);
    member_must(loads->plugin->read(member->parameter, array, 0, loads->seen, size, &error),
                &error);
    expect(loads, rule_case_equal(member->dtype, loads->seen, member->arrays[array], member->count),
           array == 0 ? "other values" : "another state");
}

static void read_any(struct loads *loads)
{
    struct member *member = any_member(loads);
    read_now(loads, member, (uint32_t)below(loads, member_arrays(member)));
}

static void end_reading(struct loads *loads, struct reading *reading)
{
    struct ps_error error = {0};
    member_must(loads->plugin->wait(loads->device, reading->ticket, &error), &error);
    expect(loads,
           rule_case_equal(reading->dtype, reading->pinned, reading->expected, reading->count),
           "a read saw other values");
    reading->begun = false;
}

/* Begins one, in pieces that lie one after another or do not, or ends one that was begun. */
static void read_late(struct loads *loads)
{
    struct ps_error error = {0};
    struct reading *reading = &loads->readings[below(loads, READINGS)];
    if (reading->begun) {
        end_reading(loads, reading);
        return;
    }
    struct member *member = any_member(loads);
    size_t width = ps_dtype_size(member->dtype);
    size_t first = below(loads, member->count);
    reading->dtype = member->dtype;
    reading->count = 1 + below(loads, member->count - first);
    memcpy(reading->expected, (const uint8_t *)member->arrays[0] + first * width,
           reading->count * width);
    size_t cut = below(loads, reading->count) * width;
    const struct ps_bytes pieces[] = {{reading->pinned, cut},
                                      {reading->pinned + cut, reading->count * width - cut}};
    size_t empty = cut == 0 ? 1 : 0;
    member_must(loads->plugin->read_begin(member->parameter, 0, first * width, pieces + empty,
                                          2 - empty, &reading->ticket, &error),
                &error);
    reading->begun = true;
}

static void take_copy(struct loads *loads, struct copy *copy)
{
    struct ps_error error = {0};
    struct member *member = any_member(loads);
    member_must(loads->plugin->snapshot_reserve(member->parameter, &copy->snapshot, &error),
                &error);
    member_must(loads->plugin->snapshot_take(member->parameter, copy->snapshot, &error), &error);
    copy->dtype = member->dtype;
    copy->count = member->count;
    copy->array_count = member_arrays(member);
    memcpy(copy->arrays, member->arrays, sizeof copy->arrays);
}

/* Takes one, or reads an array of one, or ends it. */
static void use_copy(struct loads *loads)
{
    struct ps_error error = {0};
    struct copy *copy = &loads->copies[below(loads, COPIES)];
    if (copy->snapshot == NULL) {
        take_copy(loads, copy);
        return;
    }
    if (below(loads, 3) == 0) {
        loads->plugin->snapshot_release(copy->snapshot);
        copy->snapshot = NULL;
        return;
    }
    uint32_t array = (uint32_t)below(loads, copy->array_count);
    member_must(loads->plugin->snapshot_read(copy->snapshot, array, 0, loads->seen,
                                             copy->count * ps_dtype_size(copy->dtype), &error),
                &error);
    expect(loads, rule_case_equal(copy->dtype, loads->seen, copy->arrays[array], copy->count),
           "a snapshot has other elements");
}

/* ---- A whole run ---- */

/* False when the probe, which is the first to compute, has got other bits already. */
static bool open_device(struct loads *loads)
{
    static const size_t slots[] = {2, 4, 4, 8};
    char text[32];
    struct ps_error error = {0};
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)loads->seed);
    (void)setenv("PS_EMULATOR_SEED", text, 1);
    const struct ps_device_options options = {
        .memory_bytes = (1u << 19) * (1 + below(loads, 12)),
        .pinned_bytes = PS_SLOT_BYTES_MIN * slots[below(loads, sizeof slots / sizeof slots[0])],
        .memory = ps_allocator_heap()};
    loads->plugin = ps_device_entry(PS_DEVICE_ABI);
    enum ps_status status = loads->plugin->open(&options, &loads->device, &error);
    if (status == PS_ERR_INTERNAL)
        return false;
    member_must(status, &error);
    for (size_t i = 0; i < READINGS; i++)
        loads->readings[i].pinned = loads->plugin->host_acquire(loads->device, MEMBER_CONTENT_MAX);
    return true;
}

static void close_device(struct loads *loads)
{
    for (size_t i = 0; i < HELD_MAX; i++)
        let_go(loads, &loads->held[i]);
    for (size_t i = 0; i < COPIES; i++)
        loads->plugin->snapshot_release(loads->copies[i].snapshot);
    for (size_t i = 0; i < MEMBERS; i++)
        loads->plugin->parameter_destroy(loads->members[i].parameter);
    for (size_t i = 0; i < READINGS; i++)
        loads->plugin->host_release(loads->device, loads->readings[i].pinned, MEMBER_CONTENT_MAX);
    loads->plugin->close(loads->device);
}

static void run(struct loads *loads)
{
    static void (*const actions[])(struct loads *) = {
        push,      push_all_kinds, push_all_kinds, push_often,   judge,
        judge,     judge,          judge,          push_held,    push_held,
        push_held, push_held,      read_any,       read_late,    read_late,
        use_copy,  use_copy,       write_part,     create_again, wait_for_push};
    for (size_t i = 0; i < MEMBERS; i++) {
        choose(loads, &loads->members[i]);
        create(loads, &loads->members[i]);
    }
    for (size_t left = ACTIONS_MIN + below(loads, ACTIONS_MIN); left > 0 && loads->right; left--)
        actions[below(loads, sizeof actions / sizeof actions[0])](loads);
    for (size_t i = 0; i < READINGS; i++)
        if (loads->readings[i].begun)
            end_reading(loads, &loads->readings[i]);
    for (size_t i = 0; i < MEMBERS; i++)
        for (uint32_t array = 0; array < member_arrays(&loads->members[i]); array++)
            read_now(loads, &loads->members[i], array);
}

bool ps_device_order_is_right(uint64_t seed)
{
    struct loads *loads = calloc(1, sizeof *loads);
    PS_ASSERT(loads != NULL);
    loads->seed = seed;
    loads->right = true;
    ps_random_init(&loads->random, seed);
    bool opened = open_device(loads);
    if (opened) {
        run(loads);
        close_device(loads);
    }
    bool right = opened && loads->right;
    free(loads);
    return right;
}
