/* SPDX-License-Identifier: Apache-2.0 */
/* Names and their topics. */
#include "server/core/requests/topics.h"

#include "core_world.h"

#include <stdio.h>

START_TEST(every_name_has_a_topic_of_its_own_range_and_names_use_many_of_them)
{
    uint64_t used = 0;
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        uint32_t topic = ps_topic_of_name(text(name));
        ck_assert(topic >= PS_TOPIC_NAMED && topic < PS_TOPIC_COUNT);
        ck_assert_uint_eq(topic, ps_topic_of_name(text(name)));
        used |= PS_TOPIC_BIT(topic);
    }
    ck_assert_int_eq(__builtin_popcountll(used), PS_TOPIC_NAMES);
    ck_assert_uint_ge(ps_topic_of_name((struct ps_bytes){NULL, 0}), PS_TOPIC_NAMED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("topics");
    tcase_add_test(tests, every_name_has_a_topic_of_its_own_range_and_names_use_many_of_them);
    return run_tests("topics", tests);
}
