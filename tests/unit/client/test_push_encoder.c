/* SPDX-License-Identifier: Apache-2.0 */
/* client/push_encoder.c: what is sent is what was left out before plus the gradient, encoded, and
 * nothing is lost for good. */
#include "client/engine/placement.h"
#include "client/push_encoder.h"
#include "optimizer/encoded.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000
/* Everything stays whole, on the only shard. */
static const struct ps_layout whole = {.split_bytes = 1 << 20, .shard_count = 1};

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_push_encoder encoder;
static float gradient[COUNT];

static void begin(enum ps_encoding encoding)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_push_encoder_init(&encoder, &memory);
    encoder.encoding = encoding;
    encoder.share = 0.01;
    encoder.bytes_max = 1 << 20;
}

static void end(void)
{
    ps_push_encoder_fini(&encoder);
    ck_assert_int_eq(heap.live, 0);
}

static struct ps_item item_of(const char *name, const void *content, size_t size)
{
    return (struct ps_item){
        .name = ps_bytes_of_text(name), .dtype = PS_F32, .content = content, .size = size};
}

/* A gradient that is another one each time and does not average out. */
static void fill(int step)
{
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)(sin(i * 0.7 + step) * (i % 50 == 0 ? 10 : 0.1) + 0.01);
}

/* Adds what a push of one range sends to `sums`. */
static void add_sent(const struct ps_encoded_push *encoded, double *sums)
{
    float decoded[COUNT] = {0};
    struct ps_bytes range = encoded->ranges[0];
    if (encoded->encoding == PS_ENCODING_TOP_K) {
        size_t kept = range.size / PS_ENCODING_PAIR_BYTES;
        for (size_t i = 0; i < kept; i++) {
            uint32_t index;
            memcpy(&index, range.data + i * 4, 4);
            memcpy(&decoded[index], range.data + (kept + i) * 4, 4);
        }
    } else {
        ps_decode_all(encoded->encoding, PS_F32, range.data, COUNT, decoded);
    }
    for (int i = 0; i < COUNT; i++)
        sums[i] += (double)decoded[i];
}

static void push(enum ps_status status, double *sums)
{
    struct ps_item item = item_of("w", gradient, sizeof gradient);
    ps_push_encoder_encode(&encoder, &item, &whole);
    ck_assert_ptr_nonnull(item.encoded);
    ck_assert_int_eq(item.encoded->error.status, PS_OK);
    if (sums != NULL)
        add_sent(item.encoded, sums);
    item.status = status;
    ps_push_encoder_settle(&encoder, &item);
    ck_assert_ptr_null(item.encoded);
}

/* The greatest distance between the sum of what was sent and the sum of the gradients. */
static double distance_after(int steps)
{
    static double sent[COUNT];
    static double wanted[COUNT];
    double distance = 0;
    memset(sent, 0, sizeof sent);
    memset(wanted, 0, sizeof wanted);
    for (int step = 0; step < steps; step++) {
        fill(step);
        push(PS_OK, sent);
        for (int i = 0; i < COUNT; i++)
            wanted[i] += (double)gradient[i];
    }
    for (int i = 0; i < COUNT; i++)
        distance = fmax(distance, fabs(sent[i] - wanted[i]));
    return distance;
}

/* Without it the drift of 0.01 a step alone would make 10 after 1,000 steps. */
START_TEST(with_feedback_the_sum_of_what_was_sent_follows_the_sum_of_the_gradients)
{
    const double bound = _i == 0 ? 0.05 : 12;
    begin(_i == 0 ? PS_ENCODING_INT8 : PS_ENCODING_TOP_K);
    double early = distance_after(100);
    end();
    begin(_i == 0 ? PS_ENCODING_INT8 : PS_ENCODING_TOP_K);
    double late = distance_after(1000);
    end();

    ck_assert_double_lt(early, bound);
    ck_assert_double_lt(late, bound);
}
END_TEST

START_TEST(what_a_failed_push_took_is_there_for_the_next)
{
    double once[COUNT] = {0};
    double again[COUNT] = {0};
    begin(PS_ENCODING_TOP_K);
    fill(1);
    push(PS_OK, NULL);
    fill(2);

    push(PS_ERR_UNAVAILABLE, once);
    push(PS_ERR_BAD_INPUT, again);

    ck_assert_mem_eq(once, again, sizeof once);
    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), sizeof gradient);
    end();
}
END_TEST

START_TEST(a_push_whose_end_is_unknown_counts_as_sent)
{
    double once[COUNT] = {0};
    double again[COUNT] = {0};
    begin(PS_ENCODING_INT8);
    fill(2);

    push(PS_ERR_TIMEOUT, once);
    push(PS_OK, again);

    ck_assert_mem_ne(once, again, sizeof once);
    end();
}
END_TEST

START_TEST(pushes_of_one_parameter_may_be_under_way_together)
{
    struct ps_item first = item_of("w", gradient, sizeof gradient);
    struct ps_item second = first;
    begin(PS_ENCODING_TOP_K);
    fill(1);
    ps_push_encoder_encode(&encoder, &first, &whole);
    ps_push_encoder_encode(&encoder, &second, &whole);
    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 2 * sizeof gradient);

    ps_push_encoder_settle(&encoder, &second);
    ps_push_encoder_settle(&encoder, &first);

    /* What both left out is one parameter's worth. */
    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), sizeof gradient);
    end();
}
END_TEST

START_TEST(parameters_are_told_apart)
{
    static const char *const names[] = {"b", "a", "ab", "c", "aa"};
    begin(PS_ENCODING_TOP_K);
    fill(3);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 5; i++) {
            struct ps_item item = item_of(names[i], gradient, sizeof gradient);
            ps_push_encoder_encode(&encoder, &item, &whole);
            ps_push_encoder_settle(&encoder, &item);
        }
    }

    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 5 * sizeof gradient);
    ck_assert_uint_eq(encoder.count, 5);
    end();
}
END_TEST

START_TEST(a_parameter_of_another_length_begins_anew)
{
    struct ps_item longer = item_of("w", gradient, sizeof gradient);
    struct ps_item shorter = item_of("w", gradient, 40);
    begin(PS_ENCODING_INT8);
    fill(3);
    ps_push_encoder_encode(&encoder, &longer, &whole);
    ps_push_encoder_encode(&encoder, &shorter, &whole);
    ps_push_encoder_settle(&encoder, &longer);
    ps_push_encoder_settle(&encoder, &shorter);
    shorter = item_of("w", gradient, 40);

    ps_push_encoder_encode(&encoder, &shorter, &whole);
    ps_push_encoder_settle(&encoder, &shorter);

    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 40);
    end();
}
END_TEST

START_TEST(a_parameter_that_was_dropped_leaves_nothing_behind)
{
    static double first[COUNT], again[COUNT];
    begin(PS_ENCODING_TOP_K);
    fill(1);
    push(PS_OK, first);
    ck_assert_uint_gt(ps_push_encoder_bytes(&encoder), 0);

    ps_push_encoder_forget(&encoder, ps_bytes_of_text("nobody"));
    ps_push_encoder_forget(&encoder, ps_bytes_of_text("w"));

    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 0);
    push(PS_OK, again);
    ck_assert_mem_eq(first, again, sizeof first);
    end();
}
END_TEST

START_TEST(more_than_may_be_kept_is_refused)
{
    struct ps_item item = item_of("w", gradient, sizeof gradient);
    begin(PS_ENCODING_TOP_K);
    encoder.bytes_max = sizeof gradient - 1;

    ps_push_encoder_encode(&encoder, &item, &whole);

    ck_assert_int_eq(item.encoded->error.status, PS_ERR_BUSY);
    ps_push_encoder_settle(&encoder, &item);
    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 0);
    end();
}
END_TEST

START_TEST(int8_of_what_is_not_finite_is_refused_and_keeps_nothing)
{
    struct ps_item item = item_of("w", gradient, sizeof gradient);
    begin(PS_ENCODING_INT8);
    fill(1);
    gradient[999] = NAN;

    ps_push_encoder_encode(&encoder, &item, &whole);

    ck_assert_int_eq(item.encoded->error.status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(item.encoded->error.text, "768 to 999"));
    item.status = PS_ERR_BAD_INPUT;
    ps_push_encoder_settle(&encoder, &item);
    ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 0);
    end();
}
END_TEST

/* Each range is a parameter of its own to its server. */
START_TEST(a_cut_parameter_is_encoded_range_by_range)
{
    enum ps_encoding encoding = (enum ps_encoding)_i;
    struct ps_item item = item_of("w", gradient, sizeof gradient);
    begin(encoding);
    fill(4);
    ps_push_encoder_encode(&encoder, &item, &(struct ps_layout){100, 0, 3});

    for (uint32_t k = 0; k < 3; k++) {
        size_t count = k == 0 ? 334 : 333;
        size_t first = k == 0 ? 0 : 334 + (k - 1) * 333;
        size_t sent = encoding == PS_ENCODING_TOP_K ? 4 : count;
        uint8_t expected[COUNT * 8];
        struct ps_bytes range = item.encoded->ranges[k];
        ck_assert_uint_eq(range.size, ps_encoding_bytes(encoding, PS_F32, sent));
        if (encoding == PS_ENCODING_TOP_K)
            ps_encode_top_k(PS_F32, gradient + first, count, sent, expected);
        else
            ck_assert_int_eq(
                ps_encode_all(encoding, PS_F32, gradient + first, count, expected, NULL), PS_OK);
        ck_assert_mem_eq(range.data, expected, range.size);
    }
    ps_push_encoder_settle(&encoder, &item);
    end();
}
END_TEST

START_TEST(what_needs_no_encoding_is_left_as_it_is)
{
    struct ps_item numbers = item_of("n", gradient, sizeof gradient);
    struct ps_item empty = item_of("w", NULL, 0);
    struct ps_item odd = item_of("w", gradient, 7);
    struct ps_item unknown = item_of("w", gradient, 8);
    numbers.dtype = PS_I32;
    unknown.dtype = (enum ps_dtype)77;
    begin(PS_ENCODING_INT8);

    struct ps_item *items[] = {&numbers, &empty, &odd, &unknown};
    for (size_t i = 0; i < 4; i++) {
        ps_push_encoder_encode(&encoder, items[i], &whole);
        ck_assert_ptr_null(items[i]->encoded);
        ps_push_encoder_settle(&encoder, items[i]);
    }
    end();
}
END_TEST

START_TEST(any_refused_allocation_fails_the_one_gradient)
{
    begin(PS_ENCODING_TOP_K);
    fill(1);
    int refused = 0;
    for (;; refused++) {
        struct ps_item item = item_of("w", gradient, sizeof gradient);
        heap.refuse_at = heap.seen + refused;
        ps_push_encoder_encode(&encoder, &item, &whole);
        heap.refuse_at = -1;
        enum ps_status status = item.encoded->error.status;
        item.status = status;
        ps_push_encoder_settle(&encoder, &item);
        if (status == PS_OK)
            break;
        ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
        ck_assert_uint_eq(ps_push_encoder_bytes(&encoder), 0);
    }
    /* The push, what it leaves out, the list, and the parameter's place in it. */
    ck_assert_int_eq(refused, 4);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("push_encoder");
    TCase *tests = tcase_create("push_encoder");
    tcase_add_loop_test(
        tests, with_feedback_the_sum_of_what_was_sent_follows_the_sum_of_the_gradients, 0, 2);
    tcase_add_test(tests, what_a_failed_push_took_is_there_for_the_next);
    tcase_add_test(tests, a_push_whose_end_is_unknown_counts_as_sent);
    tcase_add_test(tests, pushes_of_one_parameter_may_be_under_way_together);
    tcase_add_test(tests, parameters_are_told_apart);
    tcase_add_test(tests, a_parameter_of_another_length_begins_anew);
    tcase_add_test(tests, a_parameter_that_was_dropped_leaves_nothing_behind);
    tcase_add_test(tests, more_than_may_be_kept_is_refused);
    tcase_add_test(tests, int8_of_what_is_not_finite_is_refused_and_keeps_nothing);
    tcase_add_loop_test(tests, a_cut_parameter_is_encoded_range_by_range, PS_ENCODING_FLOAT64,
                        PS_ENCODING_COUNT);
    tcase_add_test(tests, what_needs_no_encoding_is_left_as_it_is);
    tcase_add_test(tests, any_refused_allocation_fails_the_one_gradient);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
