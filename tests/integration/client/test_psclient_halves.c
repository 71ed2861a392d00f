/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and parameters of two bytes an element in the caller's memory. */
#include "tests/integration/client/live_rig.h"

#include "optimizer/encoded.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In one message, through shared memory, in ranges. */
static const size_t counts[] = {5, 30001, (1 << 20) + 77};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static const enum psclient_type types[] = {PSCLIENT_TYPE_BFLOAT16, PSCLIENT_TYPE_FLOAT16};
static const enum ps_encoding encodings[] = {PS_ENCODING_BFLOAT16, PS_ENCODING_FLOAT16};

static struct pserver_process second;

/* Whole numbers that all types have. */
struct elements {
    size_t count;
    float *wide;
    uint16_t *halves;
};

static struct elements make(size_t count, enum ps_encoding encoding)
{
    struct elements made = {.count = count};
    made.wide = calloc(count, sizeof *made.wide);
    made.halves = calloc(count, sizeof *made.halves);
    ck_assert(made.wide != NULL && made.halves != NULL);
    for (size_t i = 0; i < count; i++)
        made.wide[i] = (float)(i % 97);
    ck_assert_int_eq(ps_encode_all(encoding, PS_F32, made.wide, count, made.halves, NULL), PS_OK);
    return made;
}

static void drop(struct elements *made)
{
    free(made->wide);
    free(made->halves);
}

static struct psclient_parameter halves(struct elements *in, enum psclient_type type)
{
    return (struct psclient_parameter){.name = "w",
                                       .type = type,
                                       .content = in->halves,
                                       .content_size = in->count * sizeof *in->halves};
}

static struct psclient_parameter wide(struct elements *in)
{
    return (struct psclient_parameter){.name = "w",
                                       .type = PSCLIENT_FLOAT32,
                                       .content = in->wide,
                                       .content_size = in->count * sizeof *in->wide};
}

static void begin(const struct psclient_options *options, struct psclient_parameter w)
{
    int selected = 0;
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, NULL, NULL);
    client = open_one(options);
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, &w, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

/* Every element of the parameter is `factor` times that of `like`. */
static void expect_values(const struct elements *like, float factor)
{
    struct elements now = make(like->count, PS_ENCODING_BFLOAT16);
    struct psclient_parameter w = wide(&now);
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    size_t wrong = 0;
    for (size_t i = 0; i < like->count; i++)
        wrong += now.wide[i] != factor * like->wide[i];
    ck_assert_uint_eq(wrong, 0);
    drop(&now);
}

/* Initialised with halves, pushed with halves (rate 1: it is subtracted), and pulled as halves. */
static void go_there_and_back(const struct psclient_options *options, size_t count, int kind)
{
    struct elements given = make(count, encodings[kind]);
    struct elements taken = make(count, encodings[kind]);
    struct psclient_parameter w = halves(&given, types[kind]);
    begin(options, w);
    expect_values(&given, 1);

    memset(taken.halves, 0xff, count * sizeof *taken.halves);
    w = halves(&taken, types[kind]);
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    ck_assert_int_eq(w.type, types[kind]);
    ck_assert_mem_eq(taken.halves, given.halves, count * sizeof *taken.halves);

    const struct psclient_gradient gradient = {.name = "w",
                                               .type = types[kind],
                                               .content = given.halves,
                                               .content_size = count * sizeof *given.halves};
    expect_ok(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error));
    expect_values(&given, 0);

    expect_ok(psclient_push_pull(client, &gradient, &w, 1, LONG_MS, NULL, &error));
    expect_values(&given, -1);
    ck_assert_uint_eq(w.version, 2);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) /* 0 has no sign */
        wrong += taken.halves[i] != (given.halves[i] ^ 0x8000) && given.wide[i] != 0;
    ck_assert_uint_eq(wrong, 0);
    drop(&given);
    drop(&taken);
    finish();
}

START_TEST(halves_go_there_and_back)
{
    go_there_and_back(&(struct psclient_options){0}, counts[_i % COUNTS], _i / COUNTS);
}
END_TEST

START_TEST(halves_go_over_the_network)
{
    go_there_and_back(&(struct psclient_options){.shared_memory = PSCLIENT_SHARED_MEMORY_OFF},
                      counts[_i], 0);
}
END_TEST

/* What the options say of encodings is for other types. */
START_TEST(halves_have_their_own_encoding)
{
    const struct psclient_options options = {.encoding = PSCLIENT_TOP_K,
                                             .reply_encoding = PSCLIENT_INT8};
    struct elements given = make(100, PS_ENCODING_BFLOAT16);
    struct elements taken = make(100, PS_ENCODING_BFLOAT16);
    begin(&options, halves(&given, PSCLIENT_TYPE_BFLOAT16));
    struct psclient_parameter w = halves(&taken, PSCLIENT_TYPE_BFLOAT16);
    const struct psclient_gradient gradient = {.name = "w",
                                               .type = PSCLIENT_TYPE_BFLOAT16,
                                               .content = given.halves,
                                               .content_size = 100 * sizeof *given.halves};

    expect_ok(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));

    for (size_t i = 0; i < 100; i++)
        ck_assert_uint_eq(taken.halves[i] & 0x7fff, 0);
    ck_assert_uint_eq(counters().feedback_bytes, 0);
    drop(&given);
    drop(&taken);
    finish();
}
END_TEST

/* Ranges of an odd number of elements on each of two servers. */
START_TEST(a_cut_parameter_of_halves_is_whole)
{
    enum { COUNT = 10007 };
    int selected;
    char list[160];
    struct elements given = make(COUNT, PS_ENCODING_FLOAT16);
    struct elements taken = make(COUNT, PS_ENCODING_FLOAT16);
    const char *const arguments[] = {"--etcd-ttl", "60s", NULL};
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, NULL, NULL);
    pserver_process_start(&second, PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    snprintf(list, sizeof list, "%s,%s", server.address, second.address);
    client = open_one(&(struct psclient_options){.servers = list, .split_bytes = 4096});
    struct psclient_parameter w = halves(&given, PSCLIENT_TYPE_FLOAT16);
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, &w, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    const struct psclient_gradient gradient = {.name = "w",
                                               .type = PSCLIENT_TYPE_FLOAT16,
                                               .content = given.halves,
                                               .content_size = COUNT * sizeof *given.halves};

    w = halves(&taken, PSCLIENT_TYPE_FLOAT16);
    memset(taken.halves, 0xff, COUNT * sizeof *taken.halves);
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    ck_assert_mem_eq(taken.halves, given.halves, COUNT * sizeof *taken.halves);
    expect_ok(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error));
    expect_values(&given, 0);

    pserver_process_kill(&second);
    drop(&given);
    drop(&taken);
    finish();
}
END_TEST

START_TEST(halves_that_cannot_be_are_refused)
{
    struct elements given = make(8, PS_ENCODING_BFLOAT16);
    begin(&(struct psclient_options){0}, wide(&given));
    struct psclient_gradient gradient = {
        .name = "w", .type = PSCLIENT_TYPE_BFLOAT16, .content = given.halves, .content_size = 15};
    struct psclient_parameter w = halves(&given, PSCLIENT_TYPE_BFLOAT16);
    struct psclient_replica *replica;

    ck_assert_int_eq(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    gradient.content_size = 14; /* one element less than there are */
    ck_assert_int_eq(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    gradient.content = NULL;
    ck_assert_int_eq(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    w.content_size = 14;
    ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_replica_open(client, &w, 1, &replica, &error), PSCLIENT_INVALID);

    drop(&given);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_halves");
    TCase *cases = tcase_create("psclient_halves");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, halves_go_there_and_back, 0, 2 * COUNTS);
    tcase_add_loop_test(cases, halves_go_over_the_network, 1, COUNTS);
    tcase_add_test(cases, halves_have_their_own_encoding);
    tcase_add_test(cases, a_cut_parameter_of_halves_is_whole);
    tcase_add_test(cases, halves_that_cannot_be_are_refused);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
