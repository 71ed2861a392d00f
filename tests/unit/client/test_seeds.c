/* SPDX-License-Identifier: Apache-2.0 */
/* client/members/seeds.c over servers that are only told of: whom it asks, what it makes of the
 * answers, and how it goes on when they stop. */
#include "client/members/seeds.h"

#include "proto/cluster_codec.h"
#include "proto/fields.h"
#include "run_suite.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 4, SLOTS = NODES_MAX + PS_SEEDS_LEARNED };

/* A server at an address. */
struct node {
    const char *address;
    enum ps_status status; /* PS_OK: it answers */
    bool silent;
    bool alone;
    uint32_t shard_count;
    uint32_t self;               /* NODES_MAX: it owns none */
    const char *rows[NODES_MAX]; /* addresses; epochs are those of `epochs` */
    uint64_t epochs[NODES_MAX];
    uint64_t revision;
    uint32_t questions;
};

struct held_call {
    uint64_t call; /* 0: free */
    const char *address;
    uint64_t known;
    struct ps_call_outcome outcome;
    struct ps_buffer reply;
    struct ps_bytes bytes;
    bool done;
};

static struct fake_clock fake;
static struct ps_clock clock_of_test;
static struct node nodes[NODES_MAX];
static char routes[SLOTS][PS_ADDRESS_BYTES_MAX];
static struct held_call calls[SLOTS];
static void (*on_idle)(void); /* called once, when there is nothing to do */
static bool destroyed;
static struct ps_seeds *seeds;
static struct ps_members members;
static struct ps_error error;

static void answer(struct held_call *held)
{
    struct node *node = NULL;
    for (int i = 0; i < NODES_MAX && node == NULL; i++)
        if (nodes[i].address != NULL && strcmp(nodes[i].address, held->address) == 0)
            node = &nodes[i];
    held->outcome = (struct ps_call_outcome){.status = PS_ERR_UNAVAILABLE, .text = "nobody there"};
    held->done = true;
    if (node == NULL)
        return;
    held->outcome.status = node->status;
    held->done = !node->silent && (node->status != PS_OK || node->revision > held->known);
    if (!held->done || node->status != PS_OK)
        return;
    const struct ps_cluster_reply head = {
        .shard_count = node->shard_count, .revision = node->revision, .alone = node->alone};
    ps_buffer_init(&held->reply, ps_allocator_heap(), 4096);
    ps_encode_cluster(&head, "", "1", &held->reply);
    for (uint32_t i = 0; i < node->shard_count; i++) {
        struct ps_cluster_member row = {.epoch = node->epochs[i], .answers = node->self == i};
        snprintf(row.address, sizeof row.address, "%s", node->rows[i]);
        ps_encode_cluster_member(i, &row, NULL, &held->reply);
    }
    held->bytes = (struct ps_bytes){(const uint8_t *)held->reply.text, held->reply.size};
    held->outcome.reply.ask = ps_view_of(&held->bytes);
}

static bool route(void *self, uint32_t slot, const char *address)
{
    (void)self;
    snprintf(routes[slot], sizeof routes[slot], "%s", address != NULL ? address : "");
    return true;
}

static enum ps_status submit(void *self, uint32_t slot, const struct ps_call_part *parts,
                             size_t part_count, uint64_t deadline_ms)
{
    (void)self;
    (void)deadline_ms;
    ck_assert_uint_eq(part_count, 1);
    ck_assert_str_ne(routes[slot], "");
    struct held_call *held = calls;
    while (held->call != 0)
        held++;
    struct ps_fields fields;
    ck_assert_int_eq(ps_fields_read(ps_view_of(&parts->request->ask), &fields, NULL), PS_OK);
    *held =
        (struct held_call){.call = parts->call, .address = routes[slot], .known = fields.number[2]};
    for (int i = 0; i < NODES_MAX; i++)
        if (nodes[i].address != NULL && strcmp(nodes[i].address, held->address) == 0)
            nodes[i].questions++;
    answer(held);
    return PS_OK;
}

static void cancel(void *self, uint64_t call)
{
    (void)self;
    for (int i = 0; i < SLOTS; i++)
        if (calls[i].call == call && !calls[i].done) {
            calls[i].done = true;
            calls[i].outcome.status = PS_ERR_CANCELLED;
        }
}

static bool take(void *self, struct ps_delivery *delivery)
{
    (void)self;
    for (int i = 0; i < SLOTS; i++)
        if (calls[i].call != 0 && calls[i].done) {
            *delivery = (struct ps_delivery){calls[i].call, calls[i].outcome, &calls[i]};
            return true;
        }
    return false;
}

static void release(void *self, struct ps_delivery *delivery)
{
    (void)self;
    struct held_call *held = delivery->held;
    if (held->reply.text != NULL)
        ps_buffer_fini(&held->reply);
    memset(held, 0, sizeof *held);
}

/* Time passes, and what was changed meanwhile is told to whom it concerns. */
static void poll(void *self, uint64_t timeout_ms)
{
    (void)self;
    void (*idle)(void) = on_idle;
    fake.now_ms += timeout_ms < 100 ? timeout_ms : 100;
    on_idle = NULL;
    if (idle != NULL)
        idle();
    for (int i = 0; i < SLOTS; i++)
        if (calls[i].call != 0 && !calls[i].done)
            answer(&calls[i]);
}

static void interrupt(void *self)
{
    (void)self;
}

static void destroy(void *self)
{
    (void)self;
    for (int i = 0; i < SLOTS; i++)
        ck_assert_uint_eq(calls[i].call, 0);
    destroyed = true;
}

static const struct ps_channel channel = {.route = route,
                                          .submit = submit,
                                          .cancel = cancel,
                                          .take = take,
                                          .release = release,
                                          .poll = poll,
                                          .interrupt = interrupt,
                                          .destroy = destroy,
                                          .self = &destroyed};

/* Two servers, each of which knows both. */
static void setup(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    clock_of_test = fake_clock_clock(&fake);
    memset(calls, 0, sizeof calls);
    memset(routes, 0, sizeof routes);
    memset(nodes, 0, sizeof nodes);
    on_idle = NULL;
    destroyed = false;
    for (uint32_t i = 0; i < 2; i++)
        nodes[i] = (struct node){.address = i == 0 ? "a:1" : "b:1",
                                 .shard_count = 2,
                                 .self = i,
                                 .rows = {"a:1", "b:1"},
                                 .epochs = {11, 12},
                                 .revision = 20};
    memset(&members, 0, sizeof members);
}

static void open_list(const char *first, const char *second)
{
    char addresses[2][PS_ADDRESS_BYTES_MAX] = {{0}};
    strcpy(addresses[0], first);
    strcpy(addresses[1], second != NULL ? second : "");
    ck_assert_int_eq(ps_seeds_create(addresses, second != NULL ? 2 : 1, "", &channel,
                                     &clock_of_test, ps_allocator_heap(), &seeds, NULL),
                     PS_OK);
}

static enum ps_status find(enum ps_seeds_verdict *verdict)
{
    return ps_seeds_find(seeds, fake.now_ms + 30000, verdict, &members, &error);
}

static void finish(void)
{
    ps_members_release(&members);
    ps_seeds_destroy(seeds);
    ck_assert(destroyed);
}

static void expect_cluster(void)
{
    enum ps_seeds_verdict verdict;
    ck_assert_int_eq(find(&verdict), PS_OK);
    ck_assert_int_eq(verdict, PS_SEEDS_CLUSTER);
}

/* The source's next news; what it had is released. */
static enum ps_status next(void)
{
    struct ps_member_source source = ps_seeds_source(seeds);
    ps_members_release(&members);
    return source.next(source.self, &members, &error);
}

START_TEST(a_list_is_judged_by_what_its_servers_are)
{
    ck_assert_int_eq(ps_seeds_judge(true, false, 0, 3), PS_SEEDS_LIST);
    ck_assert_int_eq(ps_seeds_judge(false, false, 0, 3), PS_SEEDS_OPEN);
    ck_assert_int_eq(ps_seeds_judge(false, true, 1, 1), PS_SEEDS_LIST);
    ck_assert_int_eq(ps_seeds_judge(false, true, 1, 3), PS_SEEDS_LIST);
    ck_assert_int_eq(ps_seeds_judge(false, true, 4, 2), PS_SEEDS_LIST);
    ck_assert_int_eq(ps_seeds_judge(false, true, 4, 1), PS_SEEDS_CLUSTER);
    ck_assert_int_eq(ps_seeds_judge(false, false, 1, 1), PS_SEEDS_CLUSTER);
    ck_assert_int_eq(ps_seeds_judge(false, false, 1, 3), PS_SEEDS_CLUSTER);
    ck_assert_int_eq(ps_seeds_judge(false, false, 8, 3), PS_SEEDS_CLUSTER);
}
END_TEST

START_TEST(one_seed_leads_to_all_servers)
{
    open_list("b:1", NULL);
    expect_cluster();
    ck_assert_uint_eq(members.shard_count, 2);
    ck_assert_str_eq(members.rows[0].address, "a:1");
    ck_assert_uint_eq(members.rows[1].epoch, 12);
    ck_assert_uint_eq(nodes[0].questions, 0);
    finish();
}
END_TEST

START_TEST(a_dead_seed_does_not_matter)
{
    open_list("gone:1", "a:1");
    expect_cluster();
    ck_assert_str_eq(members.rows[1].address, "b:1");
    finish();
}
END_TEST

START_TEST(a_silent_seed_costs_a_moment)
{
    nodes[1].silent = true;
    open_list("b:1", "a:1");
    uint64_t start_ms = fake.now_ms;
    expect_cluster();
    ck_assert_uint_le(fake.now_ms - start_ms, 300);
    finish();
}
END_TEST

START_TEST(an_older_server_makes_it_a_list)
{
    enum ps_seeds_verdict verdict;
    nodes[0].status = PS_ERR_UNSUPPORTED;
    open_list("gone:1", "a:1");
    ck_assert_int_eq(find(&verdict), PS_OK);
    ck_assert_int_eq(verdict, PS_SEEDS_LIST);
    finish();
}
END_TEST

START_TEST(nobody_is_waited_for_until_the_deadline)
{
    enum ps_seeds_verdict verdict;
    uint64_t start_ms = fake.now_ms;
    open_list("gone:1", "away:1");
    ck_assert_int_eq(find(&verdict), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "nobody there"));
    ck_assert_uint_ge(fake.now_ms - start_ms, 30000);
    finish();
}
END_TEST

static void let_a_come(void)
{
    nodes[0].address = "a:1";
}

START_TEST(a_seed_that_comes_later_is_found)
{
    nodes[0].address = NULL;
    on_idle = let_a_come;
    open_list("a:1", NULL);
    expect_cluster();
    finish();
}
END_TEST

START_TEST(what_repeating_cannot_mend_is_told_at_once)
{
    enum ps_seeds_verdict verdict;
    nodes[0].status = PS_ERR_NOT_FOUND;
    uint64_t start_ms = fake.now_ms;
    open_list("a:1", NULL);
    ck_assert_int_eq(find(&verdict), PS_ERR_NOT_FOUND);
    ck_assert_uint_lt(fake.now_ms - start_ms, 1000);
    finish();
}
END_TEST

START_TEST(servers_are_called_at_the_addresses_of_the_list)
{
    for (int i = 0; i < 2; i++) {
        nodes[i].rows[0] = "inside:1";
        nodes[i].rows[1] = "inside:2";
    }
    open_list("b:1", "a:1");
    expect_cluster();
    ck_assert_str_eq(members.rows[0].address, "a:1");
    ck_assert_str_eq(members.rows[1].address, "b:1");
    finish();
}
END_TEST

static void move_a(void)
{
    nodes[1].rows[0] = "c:1";
    nodes[1].epochs[0] = 30;
    nodes[1].revision = 31;
    nodes[2] = nodes[1];
    nodes[2].address = "c:1";
    nodes[2].self = 0;
    nodes[0].address = NULL;
}

START_TEST(a_server_that_moved_is_followed)
{
    open_list("a:1", "b:1");
    expect_cluster();
    on_idle = move_a;

    while (members.shard_count == 0 || members.rows[0].epoch != 30)
        ck_assert(next() == PS_OK || error.status == PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(members.rows[0].address, "c:1");
    ck_assert_str_eq(members.rows[1].address, "b:1");
    finish();
}
END_TEST

static void lose_b(void)
{
    nodes[1].address = NULL;
    nodes[2].rows[1] = "d:1";
    nodes[2].epochs[1] = 40;
    nodes[2].revision = 41;
}

START_TEST(a_server_that_was_only_told_of_is_asked_when_all_seeds_are_gone)
{
    open_list("a:1", "b:1");
    expect_cluster();
    on_idle = move_a;
    while (members.shard_count == 0 || members.rows[0].epoch != 30)
        ck_assert(next() == PS_OK || error.status == PS_ERR_UNAVAILABLE);

    on_idle = lose_b;
    while (members.shard_count == 0 || members.rows[1].epoch != 40)
        ck_assert(next() == PS_OK || error.status == PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(members.rows[1].address, "d:1");
    finish();
}
END_TEST

static void lose_a_and_cut_b_off(void)
{
    nodes[0].address = NULL;
    nodes[1].silent = true;
    nodes[2].rows[0] = "d:1";
    nodes[2].epochs[0] = 40;
    nodes[2].revision = 41;
}

/* A host that went away without a word answers no connection; the next one knows who is where. */
START_TEST(a_silent_server_does_not_hold_up_the_question_to_the_next)
{
    for (uint32_t i = 0; i < 3; i++)
        nodes[i] = (struct node){.address = i == 0   ? "a:1"
                                            : i == 1 ? "b:1"
                                                     : "c:1",
                                 .shard_count = 3,
                                 .self = i,
                                 .rows = {"a:1", "b:1", "c:1"},
                                 .epochs = {11, 12, 13},
                                 .revision = 20};
    open_list("a:1", NULL);
    expect_cluster();
    uint64_t start_ms = fake.now_ms;
    on_idle = lose_a_and_cut_b_off;

    while (members.shard_count == 0 || members.rows[0].epoch != 40)
        ck_assert(next() == PS_OK || error.status == PS_ERR_UNAVAILABLE);

    ck_assert_uint_le(fake.now_ms - start_ms, 600);
    finish();
}
END_TEST

START_TEST(an_interrupt_ends_a_wait_and_asks_anew)
{
    open_list("a:1", "b:1");
    expect_cluster();
    struct ps_member_source source = ps_seeds_source(seeds);
    source.interrupt(source.self);
    uint32_t before = nodes[0].questions + nodes[1].questions;
    ck_assert_int_eq(next(), PS_OK);
    ck_assert_uint_eq(members.shard_count, 0);

    on_idle = move_a;
    while (members.shard_count == 0)
        ck_assert(next() == PS_OK || error.status == PS_ERR_UNAVAILABLE);
    ck_assert_uint_gt(nodes[0].questions + nodes[1].questions, before);
    finish();
}
END_TEST

START_TEST(a_server_of_another_number_of_shards_is_not_believed)
{
    open_list("a:1", NULL);
    expect_cluster();
    nodes[0].shard_count = 1;
    nodes[0].revision = 99;
    nodes[1].address = NULL;
    for (int i = 0; i < 5; i++) {
        (void)!next();
        ck_assert_uint_eq(members.shard_count, 0);
    }
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("seeds");
    TCase *tests = tcase_create("seeds");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_list_is_judged_by_what_its_servers_are);
    tcase_add_test(tests, one_seed_leads_to_all_servers);
    tcase_add_test(tests, a_dead_seed_does_not_matter);
    tcase_add_test(tests, a_silent_seed_costs_a_moment);
    tcase_add_test(tests, an_older_server_makes_it_a_list);
    tcase_add_test(tests, nobody_is_waited_for_until_the_deadline);
    tcase_add_test(tests, a_seed_that_comes_later_is_found);
    tcase_add_test(tests, what_repeating_cannot_mend_is_told_at_once);
    tcase_add_test(tests, servers_are_called_at_the_addresses_of_the_list);
    tcase_add_test(tests, a_server_that_moved_is_followed);
    tcase_add_test(tests, a_server_that_was_only_told_of_is_asked_when_all_seeds_are_gone);
    tcase_add_test(tests, a_silent_server_does_not_hold_up_the_question_to_the_next);
    tcase_add_test(tests, an_interrupt_ends_a_wait_and_asks_anew);
    tcase_add_test(tests, a_server_of_another_number_of_shards_is_not_believed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
