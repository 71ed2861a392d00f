/* The plugin's table over the emulator: memory that is refused, errors that end the device,
 * snapshots. */
#include "optimizer/device.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5000

/* So many more parameters, and 128 KiB have no room for the copy of one. */
#define FILLING 5

extern ps_device_entry_fn ps_device_entry;

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};
static const struct ps_device_parameter_wish wish = {
    .settings = &sgd, .dtype = PS_F32, .count = COUNT};

static const struct ps_device_plugin *plugin(void)
{
    return ps_device_entry(PS_DEVICE_ABI);
}

static void count_death(void *self, const char *text)
{
    (void)text;
    *(int *)self += 1;
}

/* `fail` is what PS_EMULATOR_FAIL says from the opening on; NULL: nothing. Check runs each test in
 * a process of its own, so the environment is the test's. */
static enum ps_status open_with(const char *fail, uint64_t budget, int *deaths,
                                struct ps_device **device, struct ps_error *error)
{
    if (fail != NULL)
        (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    const struct ps_device_options options = {.memory_bytes = budget,
                                              .pinned_bytes = 128u << 10,
                                              .memory = ps_allocator_heap(),
                                              .died = count_death,
                                              .self = deaths};
    return plugin()->open(&options, device, error);
}

static uint64_t used(struct ps_device *device)
{
    struct ps_device_stats stats;
    plugin()->stats(device, &stats);
    return stats.used_bytes;
}

static enum ps_status push_ones(struct ps_device *device, struct ps_device_parameter *parameter,
                                uint64_t number, struct ps_error *error)
{
    static float ones[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1.0F;
    const struct ps_bytes content = {(const uint8_t *)ones, sizeof ones};
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket = {0};
    PS_TRY(ps_optimizer_prepare(&sgd, PS_F32, number, 0, &scan, &step, error));
    const struct ps_device_push push = {
        .parameter = parameter, .gradient = ps_view_of(&content), .step = &step};
    PS_TRY(plugin()->push(device, &push, 1, &ticket, error));
    return plugin()->wait(device, ticket, error);
}

static struct ps_device_parameter *zeros(struct ps_device *device)
{
    static const float values[COUNT];
    const struct ps_bytes content = {(const uint8_t *)values, sizeof values};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(plugin()->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    ck_assert_int_eq(plugin()->write(parameter, 0, 0, ps_view_of(&content), NULL), PS_OK);
    return parameter;
}

START_TEST(another_abi_gets_no_table)
{
    ck_assert_ptr_null(ps_device_entry(PS_DEVICE_ABI + 1));
    ck_assert_ptr_nonnull(ps_device_entry(PS_DEVICE_ABI));
}
END_TEST

START_TEST(a_device_that_is_not_there_is_not_found)
{
    const struct ps_device_options options = {.ordinal = 7, .memory = ps_allocator_heap()};
    struct ps_device *device = NULL;
    ck_assert_int_eq(plugin()->open(&options, &device, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_parameter_beyond_the_budget_is_refused_with_numbers_and_nothing_changes)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(open_with(NULL, 128 << 10, &deaths, &device, &error), PS_OK);
    const struct ps_device_parameter_wish large = {
        .settings = &sgd, .dtype = PS_F32, .count = 1 << 20};

    ck_assert_int_eq(plugin()->parameter_create(device, &large, &parameter, &error), PS_ERR_BUSY);

    ck_assert_ptr_nonnull(strstr(error.text, "4194304 bytes needed"));
    ck_assert_uint_eq(used(device), 0);
    ck_assert(!plugin()->dead(device, NULL));
    parameter = zeros(device);
    ck_assert_int_eq(push_ones(device, parameter, 1, &error), PS_OK);
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
}
END_TEST

/* Opening asks for a few pieces, the probe's parameter for one, ours for the last. When that is
 * refused the probe's is given back, and it is asked for again. */
START_TEST(any_refused_piece_of_memory_leaves_the_accounting_as_it_was)
{
    char fail[32];
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_parameter *parameter = NULL;
    int deaths = 0;
    (void)snprintf(fail, sizeof fail, "memory:%d", _i + 1);

    enum ps_status status = open_with(fail, 0, &deaths, &device, &error);
    if (status == PS_OK) {
        status = plugin()->parameter_create(device, &wish, &parameter, &error);
        ck_assert_uint_eq(used(device), status == PS_OK ? plugin()->parameter_bytes(&wish) : 0);
        plugin()->parameter_destroy(parameter);
        ck_assert_uint_eq(used(device), 0);
        plugin()->close(device);
    }

    ck_assert_int_eq(status, _i < 3 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(deaths, 0);
}
END_TEST

/* The probe launches one kernel; ours is the second. */
START_TEST(after_a_kernel_that_broke_nothing_is_acknowledged_any_more)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(open_with("launch:2:700", 0, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = zeros(device);

    ck_assert_int_eq(push_ones(device, parameter, 1, &error), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(error.text, "(700)"));
    ck_assert_int_eq(deaths, 1);
    ck_assert(plugin()->dead(device, NULL));
    float value;
    struct ps_device_snapshot *snapshot = NULL;
    ck_assert_int_eq(push_ones(device, parameter, 2, &error), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(plugin()->read(parameter, 0, 0, &value, sizeof value, &error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(deaths, 1);
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
}
END_TEST

START_TEST(a_device_that_computes_nonsense_is_not_opened)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    int deaths = 0;
    ck_assert_int_eq(open_with("launch:1:719", 0, &deaths, &device, &error), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "(719)"));
}
END_TEST

/* _i 0: the copy stays on the device; 1: there is no room for it. */
START_TEST(a_snapshot_is_one_moment_whatever_is_pushed_afterwards)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    struct ps_device_stats stats;
    int deaths = 0;
    float now = 0;
    float then = 0;
    size_t last = (COUNT - 1) * sizeof now;
    uint64_t budget = _i == 0 ? 1 << 20 : 128 << 10;
    ck_assert_int_eq(open_with(NULL, budget, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = zeros(device);
    struct ps_device_parameter *others[FILLING];
    for (size_t i = 0; i < FILLING; i++)
        others[i] = zeros(device);
    ck_assert_int_eq(plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    uint64_t reserved = used(device);
    ck_assert_int_eq(push_ones(device, parameter, 1, &error), PS_OK);

    ck_assert_int_eq(plugin()->snapshot_take(parameter, snapshot, &error), PS_OK);
    ck_assert_int_eq(push_ones(device, parameter, 2, &error), PS_OK);
    ck_assert_uint_eq(used(device), reserved);

    ck_assert_int_eq(plugin()->snapshot_read(snapshot, 0, last, &then, sizeof then, &error), PS_OK);
    ck_assert_int_eq(plugin()->read(parameter, 0, last, &now, sizeof now, &error), PS_OK);
    ck_assert(then == -1.0F && now == -2.0F);
    plugin()->stats(device, &stats);
    ck_assert_uint_eq(stats.streamed_count, (uint64_t)_i);
    for (size_t i = 0; i < FILLING; i++)
        plugin()->parameter_destroy(others[i]);
    plugin()->parameter_destroy(parameter);
    plugin()->snapshot_release(snapshot);
    ck_assert_uint_eq(used(device), 0);
    plugin()->close(device);
}
END_TEST

START_TEST(a_snapshot_that_is_never_taken_gives_its_memory_back)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    int deaths = 0;
    ck_assert_int_eq(open_with(NULL, 1 << 20, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = zeros(device);
    uint64_t before = used(device);
    ck_assert_int_eq(plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    ck_assert_uint_eq(used(device), before + plugin()->parameter_bytes(&wish));

    plugin()->snapshot_release(snapshot);

    ck_assert_uint_eq(used(device), before);
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
}
END_TEST

/* The copy was promised; it is the device that does not live to make it. */
START_TEST(a_snapshot_of_a_dead_device_is_not_taken)
{
    struct ps_error error = {0};
    struct ps_device *device = NULL;
    struct ps_device_snapshot *snapshot = NULL;
    int deaths = 0;
    ck_assert_int_eq(open_with("launch:2:700", 0, &deaths, &device, &error), PS_OK);
    struct ps_device_parameter *parameter = zeros(device);
    ck_assert_int_eq(plugin()->snapshot_reserve(parameter, &snapshot, &error), PS_OK);
    ck_assert_int_eq(push_ones(device, parameter, 1, &error), PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(plugin()->snapshot_take(parameter, snapshot, &error), PS_ERR_UNAVAILABLE);

    plugin()->snapshot_release(snapshot);
    plugin()->parameter_destroy(parameter);
    plugin()->close(device);
}
END_TEST

START_TEST(overflow_fail_stays_with_the_cpu)
{
    const struct ps_optimizer_settings careful = {.rule = PS_RULE_ADD,
                                                  .overflow = PS_OVERFLOW_FAIL};
    const struct ps_device_parameter_wish counter = {
        .settings = &careful, .dtype = PS_I64, .count = 3};
    ck_assert_int_eq(plugin()->supports(&counter, NULL), PS_ERR_UNSUPPORTED);
    ck_assert_int_eq(plugin()->supports(&wish, NULL), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *device = tcase_create("device");
    tcase_add_test(device, another_abi_gets_no_table);
    tcase_add_test(device, a_device_that_is_not_there_is_not_found);
    tcase_add_test(device,
                   a_parameter_beyond_the_budget_is_refused_with_numbers_and_nothing_changes);
    tcase_add_loop_test(device, any_refused_piece_of_memory_leaves_the_accounting_as_it_was, 0, 5);
    tcase_add_test(device, after_a_kernel_that_broke_nothing_is_acknowledged_any_more);
    tcase_add_test(device, a_device_that_computes_nonsense_is_not_opened);
    tcase_add_loop_test(device, a_snapshot_is_one_moment_whatever_is_pushed_afterwards, 0, 2);
    tcase_add_test(device, a_snapshot_that_is_never_taken_gives_its_memory_back);
    tcase_add_test(device, a_snapshot_of_a_dead_device_is_not_taken);
    tcase_add_test(device, overflow_fail_stays_with_the_cpu);
    suite_add_tcase(suite, device);
    return run_suite(suite);
}
