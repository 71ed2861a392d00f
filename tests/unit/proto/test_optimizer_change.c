/* SPDX-License-Identifier: Apache-2.0 */
/* proto/optimizer_change.c: numbers of a configuration by the names that people give them. */
#include "proto/optimizer_change.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct ps_optimizer_config present;
static struct ps_error error;
static char room[8192];
static struct ps_buffer bytes;

/* A configuration of the rule, serialized into `bytes`. */
static void begin(const char *rule)
{
    ps_optimizer_config_defaults(&present);
    ck_assert(ps_optimizer_config_choose(&present, rule));
    present.learning_rate = 0.5;
    ps_buffer_init_fixed(&bytes, room, sizeof room);
    ps_optimizer_config_encode(&present, &bytes);
}

/* What becomes of the configuration when the field is changed behind it. */
static enum ps_status set(const char *field, const char *value)
{
    enum ps_status status =
        ps_optimizer_change_put(&present, ps_bytes_of_text(field), value, &bytes, &error);
    if (status != PS_OK)
        return status;
    ck_assert_int_eq(
        ps_optimizer_config_decode((struct ps_bytes){(const uint8_t *)bytes.text, bytes.size},
                                   ps_allocator_heap(), &present, NULL),
        PS_OK);
    return PS_OK;
}

static const struct ps_config_entry *entry(const char *name)
{
    static struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX];
    size_t count = ps_optimizer_config_entries(&present, entries);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    ck_abort_msg("no entry %s", name);
    return NULL;
}

START_TEST(a_rate_is_changed_whatever_the_schedule)
{
    static const char *const schedules[] = {"const", "linear",  "poly",   "caffe_poly",
                                            "exp",   "discexp", "manual", "pass_manual"};
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        begin("adam");
        ck_assert_int_eq(set("schedule", schedules[i]), PS_OK);
        ck_assert_str_eq(entry("schedule")->text, schedules[i]);
        ck_assert_double_eq(present.learning_rate, 0.5);

        ck_assert_int_eq(set("lr", "0.25"), PS_OK);

        ck_assert_double_eq(present.learning_rate, 0.25);
        ck_assert_double_eq(entry("lr")->number, 0.25);
    }
}
END_TEST

START_TEST(a_number_of_the_rule_goes_to_its_message)
{
    begin("adam");

    ck_assert_int_eq(set("beta_1", "0"), PS_OK);
    ck_assert_int_eq(set("epsilon_outside_root", "true"), PS_OK);

    ck_assert_double_eq(ps_optimizer_config_get(&present, "beta_1"), 0.0);
    ck_assert_double_eq(ps_optimizer_config_get(&present, "epsilon_outside_root"), 1.0);
    ck_assert_double_eq(ps_optimizer_config_get(&present, "beta_2"), 0.999);
    ck_assert(!entry("beta_1")->is_default);
    ck_assert(entry("beta_2")->is_default);
}
END_TEST

START_TEST(weight_decay_is_the_rules_own_or_l2)
{
    begin("adamw");
    ck_assert_int_eq(set("weight_decay", "0.25"), PS_OK);
    ck_assert_double_eq(ps_optimizer_config_get(&present, "weight_decay"), 0.25);
    ck_assert_double_eq(present.l2, 0.0);

    begin("sgd");
    ck_assert_int_eq(set("weight_decay", "0.25"), PS_OK);
    ck_assert_double_eq(present.l2, 0.25);
}
END_TEST

START_TEST(what_gradients_go_through_is_set_and_taken_away)
{
    begin("sgd");
    ck_assert_int_eq(set("clip_norm", "2"), PS_OK);
    ck_assert_double_eq(present.clip_norm, 2.0);
    ck_assert_int_eq(set("nonfinite", "skip"), PS_OK);
    ck_assert_str_eq(entry("nonfinite")->text, "skip");

    ck_assert_int_eq(set("clip_norm", "0"), PS_OK);

    ck_assert_double_eq(present.clip_norm, 0.0);
    ck_assert(entry("clip_norm")->is_default);
}
END_TEST

START_TEST(a_schedule_has_its_numbers)
{
    begin("sgd");
    ck_assert_int_eq(set("schedule", "linear"), PS_OK);
    ck_assert_int_eq(set("decay_a", "0.125"), PS_OK);
    ck_assert_int_eq(set("decay_b", "0.0625"), PS_OK);
    ck_assert_double_eq(present.decay_a, 0.125);
    ck_assert_double_eq(present.decay_b, 0.0625);

    ck_assert_int_eq(set("schedule", "manual"), PS_OK);
    ck_assert_int_eq(set("segments", "10:1,20:0.5"), PS_OK);
    ck_assert_int_eq(set("steps_per_pass", "7"), PS_OK);

    ck_assert_str_eq(present.segments, "10:1,20:0.5");
    ck_assert_uint_eq(present.steps_per_pass, 7);
}
END_TEST

START_TEST(what_cannot_be_is_refused_and_says_so)
{
    static const struct {
        const char *field, *value, *word;
    } wrong[] = {{"momentun", "1", "momentun"}, {"", "1", "name"},
                 {"lr", "fast", "a number"},    {"lr", "", "a number"},
                 {"lr", "nan", "a number"},     {"lr", " 1", "a number"},
                 {"lr", "1x", "a number"},      {"schedule", "slow", "caffe_poly"},
                 {"nesterov", "maybe", "true"}, {"samples_per_step", "-1", "whole"},
                 {"nonfinite", "drop", "skip"}, {"sgd", "1", "no field"},
                 {"beta_1", "1", "no field"}};
    begin("sgd");
    size_t size = bytes.size;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(set(wrong[i].field, wrong[i].value), PS_ERR_BAD_INPUT);
        ck_assert_msg(strstr(error.text, wrong[i].word) != NULL, "%s=%s: %s", wrong[i].field,
                      wrong[i].value, error.text);
    }
    ck_assert_uint_eq(bytes.size, size);
}
END_TEST

START_TEST(a_word_that_is_none_is_told_those_that_are)
{
    begin("adagrad");

    ck_assert_int_eq(set("table.init", "uniformm"), PS_ERR_BAD_INPUT);

    ck_assert_str_eq(error.text, "init=uniformm: one of zero, constant, uniform, normal is wanted");
}
END_TEST

START_TEST(the_rule_comes_first_and_every_rule_has_entries)
{
    static const char *const rules[] = {"sgd",  "adadelta", "adagrad", "adam", "adamw", "rmsprop",
                                        "ftrl", "assign",   "add",     "max",  "min",   "outer"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX];
        begin(rules[i]);
        ck_assert_uint_ge(ps_optimizer_config_entries(&present, entries), 6);
        ck_assert_str_eq(entries[0].name, "rule");
        ck_assert_str_eq(entries[0].text, rules[i]);
        ck_assert_str_eq(entries[1].name, "lr");
    }
}
END_TEST

START_TEST(rounds_are_set_by_their_fields_and_shown_while_there_are_workers)
{
    begin("sgd");
    size_t without;
    struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX];
    without = ps_optimizer_config_entries(&present, entries);

    ck_assert_int_eq(set("rounds.workers", "4"), PS_OK);
    ck_assert_int_eq(set("rounds.grace_ms", "2000"), PS_OK);
    ck_assert_int_eq(set("rounds.combine", "weighted"), PS_OK);
    ck_assert_int_eq(set("rounds.late", "next"), PS_OK);

    ck_assert_double_eq(entry("rounds.workers")->number, 4);
    ck_assert_double_eq(entry("rounds.grace_ms")->number, 2000);
    ck_assert_str_eq(entry("rounds.combine")->text, "weighted");
    ck_assert_str_eq(entry("rounds.late")->text, "next");
    ck_assert(entry("rounds.quorum")->is_default);
    ck_assert_int_eq(set("rounds.workers", "4294967296"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(set("rounds.members", "4"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(set("rounds.workers", "0"), PS_OK);
    ck_assert_uint_eq(ps_optimizer_config_entries(&present, entries), without);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizer_change");
    TCase *cases = tcase_create("words");
    tcase_add_test(cases, a_rate_is_changed_whatever_the_schedule);
    tcase_add_test(cases, a_number_of_the_rule_goes_to_its_message);
    tcase_add_test(cases, weight_decay_is_the_rules_own_or_l2);
    tcase_add_test(cases, what_gradients_go_through_is_set_and_taken_away);
    tcase_add_test(cases, a_schedule_has_its_numbers);
    tcase_add_test(cases, what_cannot_be_is_refused_and_says_so);
    tcase_add_test(cases, a_word_that_is_none_is_told_those_that_are);
    tcase_add_test(cases, rounds_are_set_by_their_fields_and_shown_while_there_are_workers);
    tcase_add_test(cases, the_rule_comes_first_and_every_rule_has_entries);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
