/* SPDX-License-Identifier: Apache-2.0 */
/* The bit contract: whatever the instruction set, the optimisation and the cut, the same bits. The
 * loops compiled without any optimisation are what all others are compared with. */
#include "expect.h"
#include "rule_cases.h"

#include "optimizer/loops.h"

#include <math.h>
#include <string.h>

#define COUNT_MAX 4099

extern const struct ps_loops ps_loops_plain; /* loops.c at -O0 */

static const size_t counts[] = {0,  1,  2,  3,  5,  7,   8,   9,    15,
                                17, 31, 33, 63, 65, 127, 257, 1023, 4099};

/* One parameter's arrays; the gradient starts at an odd address. */
struct arrays {
    _Alignas(64) char values[COUNT_MAX * 8];
    _Alignas(64) char states[PS_STATES_MAX][COUNT_MAX * 8];
    _Alignas(64) char gradient[COUNT_MAX * 8 + 1];
};

/* The same for everybody: `original` is filled once per type. */
static void fill(enum ps_dtype dtype, struct arrays *arrays)
{
    static struct arrays original;
    static enum ps_dtype filled = PS_DTYPE_COUNT;
    if (filled != dtype) {
        memset(&original, 0, sizeof original);
        rule_case_fill(1, dtype, original.values, COUNT_MAX);
        rule_case_fill(2, dtype, original.states[0], COUNT_MAX);
        rule_case_fill(3, dtype, original.states[1], COUNT_MAX);
        rule_case_fill(4, dtype, original.gradient, COUNT_MAX);
        memmove(original.gradient + 1, original.gradient, sizeof original.gradient - 1);
        filled = dtype;
    }
    memcpy(arrays, &original, sizeof *arrays);
}

/* Applies elements [first, first + count). */
static void apply_to(const struct ps_loops *loops, const struct ps_optimizer_step *step,
                     size_t first, size_t count, const struct arrays *from, struct arrays *to)
{
    size_t offset = first * ps_dtype_size(step->dtype);
    const struct ps_optimizer_arrays places = {
        .from = {from->values + offset, from->states[0] + offset, from->states[1] + offset},
        .to = {to->values + offset, to->states[0] + offset, to->states[1] + offset}};
    const struct ps_run run = {.step = step,
                               .first = first,
                               .count = count,
                               .arrays = &places,
                               .gradient = from->gradient + 1 + offset};
    loops->apply[step->settings->rule][step->dtype](&run);
}

static void apply(const struct ps_loops *loops, const struct ps_optimizer_step *step, size_t first,
                  size_t count, struct arrays *arrays)
{
    apply_to(loops, step, first, count, arrays, arrays);
}

static bool equal(enum ps_dtype dtype, const struct arrays *left, const struct arrays *right)
{
    return rule_case_equal(dtype, left->values, right->values, COUNT_MAX) &&
           rule_case_equal(dtype, left->states[0], right->states[0], COUNT_MAX) &&
           rule_case_equal(dtype, left->states[1], right->states[1], COUNT_MAX);
}

/* Runs one case at one length through all loops and compares with the plain ones. */
static void compare_loops(struct expect *expect, const struct ps_optimizer_step *step, size_t count)
{
    static struct arrays plain;
    static struct arrays wide;
    fill(step->dtype, &plain);
    apply(&ps_loops_plain, step, 0, count, &plain);
    for (size_t i = 0; ps_loops_at(i) != NULL; i++) {
        fill(step->dtype, &wide);
        apply(ps_loops_at(i), step, 0, count, &wide);
        bool same = equal(step->dtype, &plain, &wide);
        EXPECT(expect, same);
        if (!same)
            printf("  %s: %s on %s, %zu elements\n", ps_loops_at(i)->name,
                   ps_rule_name(step->settings->rule), ps_dtype_name(step->dtype), count);
    }
}

static void every_instruction_set_gives_the_bits_of_the_plain_loops(struct expect *expect)
{
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            rule_case_step(&settings, dtype, &step);
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
                compare_loops(expect, &step, counts[j]);
        }
    }
}

/* What an update that is not in place must leave alone: everything but its elements of `to`. */
static void compare_places(struct expect *expect, const struct ps_loops *loops,
                           const struct ps_optimizer_step *step, size_t first, size_t count)
{
    static struct arrays original;
    static struct arrays from;
    static struct arrays in_place;
    static struct arrays to;
    uint32_t states = ps_rule_states(step->settings->rule);
    size_t size = ps_dtype_size(step->dtype);
    fill(step->dtype, &original);
    fill(step->dtype, &from);
    fill(step->dtype, &in_place);
    memset(&to, 0x5a, sizeof to);
    apply(loops, step, first, count, &in_place);
    apply_to(loops, step, first, count, &from, &to);
    EXPECT(expect, memcmp(&from, &original, sizeof from) == 0);
    for (uint32_t i = 0; i <= states; i++) {
        const char *expected = i == 0 ? in_place.values : in_place.states[i - 1];
        const char *made = i == 0 ? to.values : to.states[i - 1];
        EXPECT(expect, memcmp(made + first * size, expected + first * size, count * size) == 0);
        EXPECT(expect, first == 0 || made[first * size - 1] == 0x5a);
        EXPECT(expect, made[(first + count) * size] == 0x5a);
    }
    for (uint32_t i = states; i < PS_STATES_MAX; i++)
        EXPECT(expect, to.states[i][first * size] == 0x5a);
}

static void an_update_gives_the_same_bits_in_place_and_beside(struct expect *expect)
{
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            rule_case_step(&settings, dtype, &step);
            for (size_t set = 0; ps_loops_at(set) != NULL; set++)
                for (size_t j = 0; j + 1 < sizeof counts / sizeof counts[0]; j++)
                    compare_places(expect, ps_loops_at(set), &step, j % 3, counts[j]);
        }
    }
}

static void a_push_cut_into_runs_gives_the_bits_of_one_run(struct expect *expect)
{
    static struct arrays whole;
    static struct arrays pieces;
    struct ps_optimizer_settings settings;
    struct ps_optimizer_step step;
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; rule_case(i, dtype, &settings); i++) {
            rule_case_step(&settings, dtype, &step);
            fill(dtype, &whole);
            fill(dtype, &pieces);
            apply(ps_loops_best(), &step, 0, COUNT_MAX, &whole);
            size_t length = 1;
            for (size_t first = 0; first < COUNT_MAX; first += length) {
                length = length * 3 % 601;
                if (length > COUNT_MAX - first)
                    length = COUNT_MAX - first;
                apply(ps_loops_best(), &step, first, length, &pieces);
            }
            EXPECT(expect, equal(dtype, &whole, &pieces));
        }
    }
}

static void every_allowed_pair_has_a_loop_and_no_other(struct expect *expect)
{
    struct ps_optimizer_settings settings = {.learning_rate = {.rate = 0.1}, .epsilon = 1e-8};
    for (size_t i = 0; ps_loops_at(i) != NULL; i++) {
        for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
            for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
                settings.rule = rule;
                bool allowed = ps_optimizer_settings_check(&settings, dtype, NULL) == PS_OK;
                EXPECT(expect, (ps_loops_at(i)->apply[rule][dtype] != NULL) == allowed);
            }
        }
    }
}

static bool equal_scans(const struct ps_gradient_scan *left, const struct ps_gradient_scan *right)
{
    return left->nonfinite == right->nonfinite && left->nonfinite_index == right->nonfinite_index &&
           left->count == right->count &&
           rule_case_equal(PS_F64, &left->square_sum, &right->square_sum, 1) &&
           rule_case_equal(PS_F64, left->lanes, right->lanes, PS_SUM_LANES) &&
           rule_case_equal(PS_F64, left->groups, right->groups, PS_SUM_LANES);
}

#define SCANNED 13001

/* Random numbers of ordinary size; `strange` of them, from the end on, are not finite. */
static void fill_gradient(enum ps_dtype dtype, char *gradient, size_t strange)
{
    size_t size = ps_dtype_size(dtype);
    for (size_t i = 0; i < SCANNED; i++) {
        double wide = i + strange >= SCANNED ? (double)NAN : sin((double)i);
        float narrow = (float)wide;
        memcpy(gradient + i * size, dtype == PS_F32 ? (void *)&narrow : (void *)&wide, size);
    }
}

static void scan_in_pieces(const struct ps_loops *loops,
                           const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                           const char *gradient, size_t step, struct ps_gradient_scan *scan)
{
    for (size_t first = 0; first < SCANNED; first += step) {
        size_t count = SCANNED - first < step ? SCANNED - first : step;
        loops->scan[dtype](settings, gradient + first * ps_dtype_size(dtype), count, scan);
    }
}

static void a_scan_depends_on_neither_cut_nor_instruction_set(struct expect *expect)
{
    static char gradient[SCANNED * 8 + 1];
    static const size_t steps[] = {1, 3, 255, 256, 257, 4095, 4096, 4097, SCANNED};
    const struct ps_optimizer_settings settings = {.clip_norm = 1, .clip_value = 0.75};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t strange = 0; strange < 3000; strange += 1299) {
            fill_gradient(dtype, gradient + 1, strange);
            struct ps_gradient_scan plain = {0};
            scan_in_pieces(&ps_loops_plain, &settings, dtype, gradient + 1, SCANNED, &plain);
            EXPECT(expect, plain.nonfinite == (strange > 0));
            EXPECT(expect, strange == 0 || plain.nonfinite_index == SCANNED - strange);
            for (size_t i = 0; ps_loops_at(i) != NULL; i++) {
                for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
                    struct ps_gradient_scan scan = {0};
                    scan_in_pieces(ps_loops_at(i), &settings, dtype, gradient + 1, steps[j], &scan);
                    EXPECT(expect, equal_scans(&plain, &scan));
                }
            }
        }
    }
}

int main(void)
{
    struct expect expect = {0};
    ps_optimizer_enter_thread();
    EXPECT_RUN(&expect, every_instruction_set_gives_the_bits_of_the_plain_loops);
    EXPECT_RUN(&expect, an_update_gives_the_same_bits_in_place_and_beside);
    EXPECT_RUN(&expect, a_push_cut_into_runs_gives_the_bits_of_one_run);
    EXPECT_RUN(&expect, every_allowed_pair_has_a_loop_and_no_other);
    EXPECT_RUN(&expect, a_scan_depends_on_neither_cut_nor_instruction_set);
    return expect_end(&expect);
}
