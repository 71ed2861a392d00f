/* SPDX-License-Identifier: Apache-2.0 */
/* proto/descriptors.c: the embedded descriptors, by file and by symbol. */
#include "proto/descriptors.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool has_symbol(const char *name)
{
    struct ps_bytes file;
    return ps_descriptor_of_symbol(ps_bytes_of_text(name), &file);
}

START_TEST(files_are_found_by_name)
{
    struct ps_bytes file;

    ck_assert(ps_descriptor_of_file(ps_bytes_of_text("pserver/v1/pserver.proto"), &file));
    ck_assert_uint_gt(file.size, 100);
    ck_assert(ps_descriptor_of_file(ps_bytes_of_text("grpc/health/v1/health.proto"), &file));
    ck_assert(!ps_descriptor_of_file(ps_bytes_of_text("pserver/v1/pserver.prot"), &file));
    ck_assert(!ps_descriptor_of_file(ps_bytes_of_text(""), &file));
}
END_TEST

START_TEST(symbols_are_found_at_every_depth)
{
    ck_assert(has_symbol("pserver.v1.ParameterServer"));
    ck_assert(has_symbol("pserver.v1.ParameterServer.SendGrad"));
    ck_assert(has_symbol("pserver.v1.SendGradRequest"));
    ck_assert(has_symbol("pserver.v1.ElementType"));
    ck_assert(has_symbol("paddle.OptimizerConfig.Optimizer"));
    ck_assert(has_symbol("grpc.health.v1.HealthCheckResponse.ServingStatus"));
    ck_assert(has_symbol("grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo"));
}
END_TEST

START_TEST(what_is_no_symbol_is_not_found)
{
    ck_assert(!has_symbol(""));
    ck_assert(!has_symbol("."));
    ck_assert(!has_symbol("pserver.v1"));
    ck_assert(!has_symbol("pserver.v1."));
    ck_assert(!has_symbol("pserver.v1.ParameterServer."));
    ck_assert(!has_symbol("pserver.v1.ParameterServer..SendGrad"));
    ck_assert(!has_symbol("pserver.v1.ParameterServer.SendGrad.x"));
    ck_assert(!has_symbol("pserver.v1.Nobody"));
    ck_assert(!has_symbol("ParameterServer"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *tests = tcase_create("descriptors");
    tcase_add_test(tests, files_are_found_by_name);
    tcase_add_test(tests, symbols_are_found_at_every_depth);
    tcase_add_test(tests, what_is_no_symbol_is_not_found);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
