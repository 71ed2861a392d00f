/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h: what a guard is asked, and that nothing is looked at before. */
#include "tests/unit/core/core_serve.h"

#include <string.h>

static int asked_changes;
static int asked_reads;

/* Allows names that begin with "w". */
static enum ps_status allow_w(void *self, struct ps_bytes name, bool changes, struct ps_error *why)
{
    (void)self;
    *(changes ? &asked_changes : &asked_reads) += 1;
    if (name.size > 0 && name.data[0] == 'w')
        return PS_OK;
    return ps_refuse(why, PS_ERR_DENIED, PS_REFUSED_ROLE, 0, "not for this name");
}

static const struct ps_serve_guard guard = {allow_w, 9, NULL};

static void set_up(void)
{
    asked_changes = asked_reads = 0;
    serve_begin_ready();
    serve.guard = &guard;
}

START_TEST(each_item_is_asked_about_once_and_the_others_go_on)
{
    set_up();
    serve_add_push("w");
    serve_add_push("x");
    serve_add_pull("x");
    serve_add_pull("w");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_int_eq(pushes[1].status.status, PS_ERR_DENIED);
    ck_assert_int_eq(pulls[0].status.status, PS_ERR_DENIED);
    ck_assert_int_eq(pulls[1].status.status, PS_OK);
    ck_assert_int_eq(asked_changes, 2);
    ck_assert_int_eq(asked_reads, 2);
    serve_end();
}
END_TEST

START_TEST(what_is_not_there_is_denied_in_the_same_words)
{
    set_up();
    serve.texts = NULL;
    serve_add_pull("nobody");

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pulls[0].status.status, PS_ERR_DENIED);
    ck_assert_str_eq(error.text, "not for this name");
    serve_end();
}
END_TEST

START_TEST(pushes_carry_the_owner_of_the_guard)
{
    set_up();
    struct ps_push_request *push = serve_add_push("w");
    push->request = (struct ps_request_id){
        .present = true, .client_id = ps_bytes_of_text("c"), .session = 1, .sequence = 1};

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_uint_eq(push->request.owner, 9);
    serve_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("serve_guard");
    tcase_add_test(tests, each_item_is_asked_about_once_and_the_others_go_on);
    tcase_add_test(tests, what_is_not_there_is_denied_in_the_same_words);
    tcase_add_test(tests, pushes_carry_the_owner_of_the_guard);
    return run_tests("serve_guard", tests);
}
