/* SPDX-License-Identifier: Apache-2.0 */
/* server/config_file.c: options from YAML. */
#include "server/config_file.h"

#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *listen;
    uint64_t ttl_ms;
    bool reflection;
    const char *ack;
};

static const struct ps_option table[] = {
    {.name = "listen",
     .type = PS_OPTION_TEXT,
     .fallback = "0.0.0.0:8000",
     .help = "",
     .offset = offsetof(struct settings, listen)},
    {.name = "etcd-ttl",
     .type = PS_OPTION_DURATION,
     .fallback = "10s",
     .help = "",
     .offset = offsetof(struct settings, ttl_ms)},
    {.name = "reflection",
     .type = PS_OPTION_FLAG,
     .help = "",
     .offset = offsetof(struct settings, reflection)},
    {.name = "ack",
     .type = PS_OPTION_CHOICE,
     .choices = "memory|logged",
     .fallback = "memory",
     .help = "",
     .offset = offsetof(struct settings, ack)},
};

static const struct ps_option_set set = {
    .program = "prog", .options = table, .option_count = PS_ARRAY_COUNT(table)};

static struct temp_folder folder;
static char path[600];
static struct settings settings;
static struct ps_config_file file;
static struct ps_error error;

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "c.yaml", path, sizeof path);
    ck_assert_int_eq(ps_options_defaults(&set, &settings, NULL), PS_OK);
}

static void end(void)
{
    ps_config_file_fini(&file);
    temp_folder_fini(&folder);
}

static enum ps_status read_text(const char *text)
{
    ck_assert_int_eq(
        ps_file_replace(ps_files_real(), folder.path, path, ps_bytes_of_text(text), NULL), PS_OK);
    return ps_config_file_init(&file, &set, &settings, path, &error);
}

/* The complaint without the folder in front. */
static const char *complaint(void)
{
    const char *name = strstr(error.text, "c.yaml");
    ck_assert_msg(name != NULL, "%s", error.text);
    return name;
}

START_TEST(options_are_set_by_name)
{
    ck_assert_int_eq(read_text("# what we run\nlisten: 1.2.3.4:5\netcd-ttl: 5s # short\n"
                               "reflection: yes\nack: \"logged\"\n"),
                     PS_OK);

    ck_assert_str_eq(settings.listen, "1.2.3.4:5");
    ck_assert_uint_eq(settings.ttl_ms, 5000);
    ck_assert(settings.reflection);
    ck_assert_str_eq(settings.ack, "logged");
}
END_TEST

START_TEST(options_that_are_not_named_keep_their_value)
{
    ck_assert_int_eq(read_text("etcd-ttl: 5s\n"), PS_OK);

    ck_assert_str_eq(settings.listen, "0.0.0.0:8000");
    ck_assert_str_eq(settings.ack, "memory");
}
END_TEST

static const char *const nothing[] = {"", "\n\n", "# only words\n", "listen:\netcd-ttl: ''\n",
                                      "{}"};

START_TEST(files_that_set_nothing_are_fine)
{
    ck_assert_int_eq(read_text(nothing[_i]), PS_OK);

    ck_assert_str_eq(settings.listen, "0.0.0.0:8000");
    ck_assert_uint_eq(settings.ttl_ms, 10000);
}
END_TEST

START_TEST(yaml_strings_may_hold_anything)
{
    ck_assert_int_eq(read_text("listen: 'it''s: # here'\n"), PS_OK);
    ck_assert_str_eq(settings.listen, "it's: # here");
    ps_config_file_fini(&file);

    ck_assert_int_eq(read_text("{\"listen\": \"\\u20ac\", \"ack\": logged}"), PS_OK);
    ck_assert_str_eq(settings.listen, "\xe2\x82\xac");
    ck_assert_str_eq(settings.ack, "logged");
}
END_TEST

struct sample {
    const char *text;
    const char *complaint;
};

static const struct sample samples[] = {
    {"ack: memory\nlisen: x\n", "c.yaml:2: unknown option lisen; did you mean listen?"},
    {"zzzzzzzzz: x\n", "c.yaml:1: unknown option zzzzzzzzz"},
    {"\n\netcd-ttl: fast\n",
     "c.yaml:3: etcd-ttl: \"fast\" is not a duration such as 500ms, 10s, 5m or 2h (10 alone is "
     "seconds)"},
    {"listen: x\nack: disk\n", "c.yaml:2: ack: \"disk\" is not memory|logged"},
    {"reflection: maybe\n", "c.yaml:1: reflection: \"maybe\" is not true or false"},
    {"listen: a\nlisten: b\n", "c.yaml:1: Mapping field already seen: listen"},
    {"ack: memory\nlisten: [1]\n", "c.yaml:2: Expecting STRING, got event: SEQUENCE_START"},
    {"listen: {a: b}\n", "c.yaml:1: Expecting STRING, got event: MAPPING_START"},
    {"- listen\n", "c.yaml: Expecting MAPPING, got event: SEQUENCE_START (expected lines of "
                   "\"option: value\")"},
    {"listen\n", "c.yaml: Expecting MAPPING, got event: SCALAR (expected lines of "
                 "\"option: value\")"},
    {"listen: &a b\nack: *a\n", "c.yaml:2: YAML alias unsupported"},
    {"listen: a\n---\nlisten: b\n", "c.yaml: more than one document"},
    {"\tlisten: a\n", "c.yaml: libyaml: found character that cannot start any token (expected "
                      "lines of \"option: value\")"},
    {"listen: a\n}\n", "c.yaml:1: libyaml: did not find expected key"},
    {"? [a]\n: b\n", "c.yaml:1: Internal error"},
    {"listen: \xff\n", "c.yaml: libyaml: invalid leading UTF-8 octet (expected lines of "
                       "\"option: value\")"},
};

START_TEST(bad_files_are_refused_with_file_line_and_reason)
{
    ck_assert_int_ne(read_text(samples[_i].text), PS_OK);

    ck_assert_str_eq(complaint(), samples[_i].complaint);
    ck_assert_ptr_null(file.texts);
}
END_TEST

START_TEST(bad_content_is_bad_input)
{
    ck_assert_int_eq(read_text("lisen: x\n"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_text("ack: x\n"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_text("- x\n"), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(missing_file_is_not_found)
{
    ck_assert_int_eq(ps_config_file_init(&file, &set, &settings, path, &error), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(huge_file_is_refused_unread)
{
    size_t size = 1024 * 1024 + 1;
    char *text = calloc(1, size + 1);
    memset(text, '#', size);

    ck_assert_int_eq(read_text(text), PS_ERR_OUT_OF_RANGE);
    free(text);
}
END_TEST

START_TEST(bombs_of_nested_brackets_end_in_a_complaint)
{
    char text[20001];
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';

    ck_assert_int_eq(read_text(text), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(printed_options_read_back)
{
    char text[1000];
    struct ps_buffer buffer;
    settings = (struct settings){.listen = "a \"b\" \\ #c\n\xe2\x82\xac",
                                 .ttl_ms = 1500,
                                 .reflection = true,
                                 .ack = "logged"};
    ps_buffer_init_fixed(&buffer, text, sizeof text);
    ps_options_print(&set, &settings, &buffer);
    ck_assert_int_eq(ps_options_defaults(&set, &settings, NULL), PS_OK);

    ck_assert_int_eq(read_text(text), PS_OK);

    ck_assert_str_eq(settings.listen, "a \"b\" \\ #c\n\xe2\x82\xac");
    ck_assert_uint_eq(settings.ttl_ms, 1500);
    ck_assert(settings.reflection);
    ck_assert_str_eq(settings.ack, "logged");
}
END_TEST

static enum ps_status read_with(struct fault_files *fault, struct fault_heap *heap)
{
    const struct ps_files files = fault_files_files(fault);
    const struct ps_allocator memory = fault_heap_allocator(heap);
    enum ps_status status =
        ps_config_file_read(&file, &files, &memory, &set, &settings, path, &error);
    ps_config_file_fini(&file);
    ck_assert_int_eq(heap->live, 0);
    ck_assert_int_eq(fault->open, 0);
    return status;
}

/* How many allocations the library makes is its own affair; the last turn must succeed. */
START_TEST(any_refused_allocation_is_told_and_leaks_nothing)
{
    ck_assert_int_eq(read_text("listen: x\nack: logged\n"), PS_OK);
    ps_config_file_fini(&file);
    bool succeeded = false;
    for (int n = 0; n < 200 && !succeeded; n++) {
        struct fault_files fault = {.under = ps_files_real(), .fail_at = -1};
        struct fault_heap heap = {.refuse_at = n};
        enum ps_status status = read_with(&fault, &heap);
        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        succeeded = status == PS_OK;
    }
    ck_assert(succeeded);
}
END_TEST

START_TEST(any_failure_of_the_file_is_told)
{
    ck_assert_int_eq(read_text("listen: x\n"), PS_OK);
    ps_config_file_fini(&file);
    struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_ANY, .fail_at = _i};
    struct fault_heap heap = {.refuse_at = -1};

    ck_assert_int_eq(read_with(&fault, &heap), fault.fired ? PS_ERR_IO : PS_OK);
    ck_assert(fault.fired || _i == 3);
}
END_TEST

START_TEST(file_never_read_may_be_ended)
{
    struct ps_config_file unread = {0};

    ps_config_file_fini(&unread);
    ps_config_file_fini(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_file");
    TCase *tests = tcase_create("config_file");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, options_are_set_by_name);
    tcase_add_test(tests, options_that_are_not_named_keep_their_value);
    tcase_add_loop_test(tests, files_that_set_nothing_are_fine, 0, 5);
    tcase_add_test(tests, yaml_strings_may_hold_anything);
    tcase_add_loop_test(tests, bad_files_are_refused_with_file_line_and_reason, 0,
                        (int)PS_ARRAY_COUNT(samples));
    tcase_add_test(tests, bad_content_is_bad_input);
    tcase_add_test(tests, missing_file_is_not_found);
    tcase_add_test(tests, huge_file_is_refused_unread);
    tcase_add_test(tests, bombs_of_nested_brackets_end_in_a_complaint);
    tcase_add_test(tests, printed_options_read_back);
    tcase_add_test(tests, any_refused_allocation_is_told_and_leaks_nothing);
    tcase_add_loop_test(tests, any_failure_of_the_file_is_told, 0, 4);
    tcase_add_test(tests, file_never_read_may_be_ended);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
