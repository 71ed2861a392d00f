/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/catalog.c: folders in which checkpoints add to others, listed and swept. */
#include "checkpoint/catalog.h"

#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_catalog catalog;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
}

static void tear_down(void)
{
    ps_catalog_fini(&catalog);
    memory_files_destroy(disk);
}

static void put_as(uint64_t epoch, uint64_t position, const char *uuid, const char *base,
                   const char *suffix)
{
    char name[PS_CHECKPOINT_NAME_BYTES];
    char path[256];
    ps_checkpoint_name_write(epoch, position, uuid, base, suffix, name);
    (void)snprintf(path, sizeof path, "ck/%s", name);
    memory_files_put(disk, path, ps_bytes_of_text("x"));
}

static void put(uint64_t epoch, uint64_t position, const char *uuid, const char *base)
{
    put_as(epoch, position, uuid, base, PS_CHECKPOINT_SUFFIX);
}

/* Of an owner of epoch 1, who keeps a spare. */
static size_t sweep(const char *published)
{
    size_t removed = 99;
    ck_assert_int_eq(
        ps_catalog_sweep(files, "ck", 2, published, 1, ps_allocator_heap(), &removed, NULL), PS_OK);
    return removed;
}

/* The uuids of the catalog, newest first, with a space behind each. */
static const char *listed(void)
{
    static char text[1024];
    text[0] = '\0';
    ps_catalog_fini(&catalog);
    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_OK);
    for (size_t i = 0; i < catalog.count; i++) {
        (void)strcat(text, catalog.entries[i].uuid);
        (void)strcat(text, " ");
    }
    return text;
}

static void count_spare(void *context, const char *name)
{
    size_t *count = context;
    *count += strstr(name, ".spare") != NULL;
}

static size_t spares(void)
{
    size_t count = 0;
    ck_assert_int_eq(files->list(files->self, "ck", count_spare, &count, NULL), PS_OK);
    return count;
}

START_TEST(the_catalog_says_what_adds_to_what)
{
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");

    ck_assert_str_eq(listed(), "i1 w1 ");
    ck_assert_str_eq(catalog.entries[0].base, "w1");
    ck_assert_str_eq(catalog.entries[1].base, "");
    ck_assert_ptr_eq(ps_catalog_find(&catalog, "w1"), &catalog.entries[1]);
    ck_assert_ptr_null(ps_catalog_find(&catalog, "w2"));
}
END_TEST

/* However many add to it, the base stays, and of them the newest two. */
START_TEST(the_newest_two_that_add_stay_with_their_base)
{
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");
    put(1, 3, "i2", "w1");
    put(1, 4, "i3", "w1");
    put(1, 5, "i4", "w1");

    ck_assert_uint_eq(sweep("i4"), 2);

    ck_assert_str_eq(listed(), "i4 i3 w1 ");
    ck_assert_uint_eq(sweep("i4"), 0);
}
END_TEST

/* Two whole ones stay, however many of the others are younger. */
START_TEST(those_that_add_take_no_whole_ones_place)
{
    put(1, 1, "w1", "");
    put(1, 2, "w2", "");
    put(1, 3, "i1", "w2");
    put(1, 4, "i2", "w2");

    ck_assert_uint_eq(sweep("i2"), 0);

    ck_assert_str_eq(listed(), "i2 i1 w2 w1 ");
}
END_TEST

/* The next whole one: what adds to the one before stays while only one is younger. */
START_TEST(what_is_behind_two_whole_ones_goes_with_its_base)
{
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");
    put(1, 3, "i2", "w1");
    put(1, 4, "w2", "");
    ck_assert_uint_eq(sweep("w2"), 0);
    ck_assert_str_eq(listed(), "w2 i2 i1 w1 ");

    put(1, 5, "i3", "w2");
    ck_assert_uint_eq(sweep("i3"), 1);
    ck_assert_str_eq(listed(), "i3 w2 i2 w1 ");

    put(1, 6, "w3", "");
    ck_assert_uint_eq(sweep("w3"), 2);
    ck_assert_str_eq(listed(), "w3 i3 w2 ");
}
END_TEST

START_TEST(the_published_one_and_its_base_stay)
{
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");
    put(1, 3, "w2", "");
    put(1, 4, "w3", "");
    put(1, 5, "w4", "");

    ck_assert_uint_eq(sweep("i1"), 1);

    ck_assert_str_eq(listed(), "w4 w3 i1 w1 ");
}
END_TEST

START_TEST(one_that_is_kept_stays_with_its_base)
{
    static const struct ps_catalog_uuid kept = {"i1"};
    size_t removed = 0;
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");
    put(1, 3, "w2", "");
    put(1, 4, "w3", "");

    ck_assert_int_eq(ps_catalog_sweep_but(files, "ck", 2, "w3", 1, &kept, 1, ps_allocator_heap(),
                                          &removed, NULL),
                     PS_OK);

    ck_assert_str_eq(listed(), "w3 w2 i1 w1 ");
}
END_TEST

/* The base is gone: nothing can be made of the file, which is swept like any. */
START_TEST(one_without_its_base_is_swept_by_its_age)
{
    put(1, 1, "i1", "w0");
    put(1, 2, "w1", "");
    put(1, 3, "w2", "");

    ck_assert_uint_eq(sweep("w2"), 1);

    ck_assert_str_eq(listed(), "w2 w1 ");
}
END_TEST

/* Somebody asked for a whole one at the position of the last that adds, and the other way round. */
START_TEST(at_one_position_a_whole_one_replaces_but_is_not_replaced)
{
    put(1, 1, "w1", "");
    put(1, 2, "w2", "");
    put(1, 3, "i1", "w2");
    put(1, 3, "w3", "");
    ck_assert_uint_eq(sweep("w3"), 2);
    ck_assert_str_eq(listed(), "w3 w2 ");

    put(1, 3, "x1", "w2");
    ck_assert_uint_eq(sweep("x1"), 0);
    ck_assert_str_eq(listed(), "x1 w3 w2 ");
}
END_TEST

START_TEST(one_of_a_former_owner_takes_no_place)
{
    put(1, 0, "w0", "");
    put(1, 5, "w1", "");
    put(1, 40, "late", "w1");
    put(2, 6, "w2", "");
    put(2, 7, "i1", "w2");
    put(2, 8, "i2", "w2");
    put(2, 9, "i3", "w2");

    ck_assert_uint_eq(sweep("i3"), 2);

    ck_assert_str_eq(listed(), "i3 i2 w2 late w1 ");
}
END_TEST

/* A file of a few rows is no room for a whole one. */
START_TEST(what_adds_to_another_becomes_no_spare)
{
    put(1, 1, "w1", "");
    put(1, 2, "i1", "w1");
    put(1, 3, "i2", "w1");
    put(1, 4, "i3", "w1");

    ck_assert_uint_eq(sweep("i3"), 1);

    ck_assert_uint_eq(spares(), 0);
}
END_TEST

/* The spare that the whole one left is for the next whole one, whatever comes in between. */
START_TEST(a_spare_waits_for_the_next_whole_one)
{
    put(1, 1, "w1", "");
    put(1, 2, "w2", "");
    put(1, 3, "w3", "");
    ck_assert_uint_eq(sweep("w3"), 1);
    ck_assert_uint_eq(spares(), 1);

    put(1, 4, "i1", "w3");
    ck_assert_uint_eq(sweep("i1"), 0);
    ck_assert_uint_eq(spares(), 1);

    put_as(1, 9, "w8", "", PS_CHECKPOINT_SPARE_SUFFIX);
    ck_assert_uint_eq(sweep("i1"), 1);
    ck_assert_uint_eq(spares(), 1);

    put(1, 5, "w4", "");
    ck_assert_uint_eq(sweep("w4"), 2);
    ck_assert_uint_eq(spares(), 1);
    ck_assert_str_eq(listed(), "w4 i1 w3 ");
}
END_TEST

/* A random history of a server that saves: after every sweep what stays can be read, and is
 * bounded. */
START_TEST(no_file_ever_stays_without_its_base)
{
    uint32_t random = (uint32_t)_i + 1;
    char uuid[16];
    char base[16] = "";
    for (uint32_t step = 1; step < 200; step++) {
        random = random * 1103515245 + 12345;
        (void)snprintf(uuid, sizeof uuid, "u%u", step);
        bool whole = base[0] == '\0' || random >> 16 & 1;
        put(1 + step / 40, step, uuid, whole ? "" : base);
        if (whole)
            memcpy(base, uuid, sizeof base);
        (void)sweep(uuid);
        (void)listed();
        ck_assert_uint_le(catalog.count, 7);
        ck_assert_ptr_nonnull(ps_catalog_find(&catalog, uuid));
        for (size_t i = 0; i < catalog.count; i++)
            ck_assert(catalog.entries[i].base[0] == '\0' ||
                      ps_catalog_find(&catalog, catalog.entries[i].base) != NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("catalog_bases");
    TCase *tests = tcase_create("catalog_bases");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_catalog_says_what_adds_to_what);
    tcase_add_test(tests, the_newest_two_that_add_stay_with_their_base);
    tcase_add_test(tests, those_that_add_take_no_whole_ones_place);
    tcase_add_test(tests, what_is_behind_two_whole_ones_goes_with_its_base);
    tcase_add_test(tests, the_published_one_and_its_base_stay);
    tcase_add_test(tests, one_that_is_kept_stays_with_its_base);
    tcase_add_test(tests, one_without_its_base_is_swept_by_its_age);
    tcase_add_test(tests, at_one_position_a_whole_one_replaces_but_is_not_replaced);
    tcase_add_test(tests, one_of_a_former_owner_takes_no_place);
    tcase_add_test(tests, what_adds_to_another_becomes_no_spare);
    tcase_add_test(tests, a_spare_waits_for_the_next_whole_one);
    tcase_add_loop_test(tests, no_file_ever_stays_without_its_base, 0, 20);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
