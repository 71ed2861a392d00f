/* SPDX-License-Identifier: Apache-2.0 */
/* tests/support/memory_files.c: files that are written over, and sectors that a crash mixes. */
#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <string.h>

#define SECTOR 512
#define SECTORS 8
#define TAIL 100

static struct memory_files *disk;
static const struct ps_files *files;

static void begin_disk(uint64_t seed)
{
    disk = memory_files_create(seed);
    files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, "data", NULL), PS_OK);
}

static void set_up(void)
{
    begin_disk(7);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static struct ps_file opened(enum ps_file_mode mode)
{
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, "data/a", mode, &file, NULL), PS_OK);
    return file;
}

static enum ps_status write_text(struct ps_file file, const char *text)
{
    return files->write(files->self, file, ps_bytes_of_text(text), NULL);
}

static void expect_content(const char *expected)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, "data/a", &content));
    ck_assert(ps_bytes_equal(content, ps_bytes_of_text(expected)));
}

/* A durable file of SECTORS sectors of 'o', written over with 'n' and made longer by `longer`
 * bytes, without a sync. Open. */
static struct ps_file write_over_old_file(size_t longer)
{
    static char content[(SECTORS + 2) * SECTOR];
    memset(content, 'o', sizeof content);
    memory_files_put(disk, "data/a",
                     (struct ps_bytes){(const uint8_t *)content, (size_t)SECTORS * SECTOR});
    memset(content, 'n', sizeof content);
    struct ps_file file = opened(PS_FILE_REUSE_DIRECT);
    const struct ps_bytes bytes = {(const uint8_t *)content, (size_t)SECTORS * SECTOR + longer};
    ck_assert_int_eq(files->write(files->self, file, bytes, NULL), PS_OK);
    return file;
}

/* The first bytes of the sectors of "data/a", as text; each sector holds its first byte
 * throughout. */
static void describe_sectors(char *text)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, "data/a", &content));
    for (size_t i = 0; i < content.size; i += SECTOR) {
        size_t size = content.size - i < SECTOR ? content.size - i : SECTOR;
        const uint8_t *sector = content.data + i;
        ck_assert(memcmp(sector, sector + 1, size - 1) == 0);
        *text++ = sector[0] == 0 ? '0' : (char)sector[0];
    }
    *text = '\0';
}

START_TEST(a_file_used_again_must_exist_and_is_written_from_its_beginning)
{
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, "data/a", PS_FILE_REUSE, &file, NULL),
                     PS_ERR_NOT_FOUND);
    memory_files_put(disk, "data/a", ps_bytes_of_text("abcdef"));

    file = opened(PS_FILE_REUSE);
    ck_assert_int_eq(write_text(file, "12"), PS_OK);
    ck_assert_int_eq(write_text(file, "3"), PS_OK);
    expect_content("123def");
    ck_assert_int_eq(write_text(file, "45678"), PS_OK);
    files->close(files->self, file);

    expect_content("12345678");
}
END_TEST

START_TEST(what_was_written_over_is_old_or_new_as_the_crash_says)
{
    static const enum memory_crash modes[] = {MEMORY_CRASH_LOSES_ALL, MEMORY_CRASH_KEEPS_ALL,
                                              MEMORY_CRASH_PROCESS};
    static const char *const expected[] = {"oooooooo", "nnnnnnnnn", "nnnnnnnnn"};
    char sectors[SECTORS + 2];
    files->close(files->self, write_over_old_file(TAIL));

    memory_files_crash(disk, modes[_i]);

    describe_sectors(sectors);
    ck_assert_str_eq(sectors, expected[_i]);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    describe_sectors(sectors);
    ck_assert_str_eq(sectors, modes[_i] == MEMORY_CRASH_KEEPS_ALL ? "nnnnnnnnn" : "oooooooo");
}
END_TEST

START_TEST(what_was_written_over_and_synced_stays)
{
    char sectors[SECTORS + 2];
    struct ps_file file = write_over_old_file(TAIL);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_OK);
    files->close(files->self, file);
    file = opened(PS_FILE_REUSE);
    ck_assert_int_eq(write_text(file, "again"), PS_OK);
    files->close(files->self, file);

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    describe_sectors(sectors);
    ck_assert_str_eq(sectors, "nnnnnnnnn");
}
END_TEST

START_TEST(what_was_written_over_is_lost_when_a_sync_failed)
{
    char sectors[SECTORS + 2];
    struct ps_file file = write_over_old_file(0);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_ERR_IO);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_OK);

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    describe_sectors(sectors);
    ck_assert_str_eq(sectors, "oooooooo");
}
END_TEST

/* Crashes with many seeds: in some a sector is lost and a later one is there, in some everything is
 * there, in some nothing. `lost` is how a lost sector looks. */
static void expect_every_mixture(void (*make)(void), char lost)
{
    bool mixed = false;
    bool all = false;
    bool none = false;
    for (uint64_t seed = 0; seed < 300; seed++) {
        char sectors[SECTORS + 2];
        memory_files_destroy(disk);
        begin_disk(seed);
        make();
        memory_files_crash(disk, MEMORY_CRASH_SEEDED);
        describe_sectors(sectors);
        const char *first_lost = strchr(sectors, lost);
        const char *last_kept = strrchr(sectors, 'n');
        mixed = mixed || (first_lost != NULL && last_kept != NULL && last_kept > first_lost);
        all = all || first_lost == NULL;
        none = none || last_kept == NULL;
        ck_assert_uint_le(strlen(sectors), SECTORS + 1);
        ck_assert_uint_eq(strspn(sectors, lost == 'o' ? "on0" : "n0"), strlen(sectors));
    }
    ck_assert(mixed && all && none);
}

static void make_written_over(void)
{
    files->close(files->self, write_over_old_file(TAIL));
}

START_TEST(sectors_that_were_written_over_reach_the_disk_in_any_order)
{
    expect_every_mixture(make_written_over, 'o');
}
END_TEST

static void make_appended(void)
{
    static char content[SECTORS * SECTOR];
    memset(content, 'n', sizeof content);
    struct ps_file file = opened(PS_FILE_CREATE_DIRECT);
    ck_assert_int_eq(files->sync_folder(files->self, "data", NULL), PS_OK);
    const struct ps_bytes bytes = {(const uint8_t *)content, sizeof content};
    ck_assert_int_eq(files->write(files->self, file, bytes, NULL), PS_OK);
    files->close(files->self, file);
}

START_TEST(sectors_that_were_added_reach_the_disk_in_any_order)
{
    expect_every_mixture(make_appended, '0');
}
END_TEST

START_TEST(a_full_disk_takes_what_goes_over_its_files)
{
    memory_files_put(disk, "data/a", ps_bytes_of_text("abcdef"));
    memory_files_knobs(disk)->bytes_max = 7;
    struct ps_file file = opened(PS_FILE_REUSE);

    ck_assert_int_eq(write_text(file, "1234"), PS_OK);
    ck_assert_int_eq(write_text(file, "56789"), PS_ERR_IO);

    files->close(files->self, file);
    expect_content("1234567");
}
END_TEST

START_TEST(a_bit_that_flips_is_flipped_after_a_crash)
{
    memory_files_put(disk, "data/a", ps_bytes_of_text("AAAA"));
    struct ps_file file = opened(PS_FILE_REUSE);
    ck_assert_int_eq(write_text(file, "AAA"), PS_OK);
    files->close(files->self, file);

    memory_files_flip(disk, "data/a", 9);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    expect_content("ACAA");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_sectors");
    TCase *tests = tcase_create("memory_sectors");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_file_used_again_must_exist_and_is_written_from_its_beginning);
    tcase_add_loop_test(tests, what_was_written_over_is_old_or_new_as_the_crash_says, 0, 3);
    tcase_add_test(tests, what_was_written_over_and_synced_stays);
    tcase_add_test(tests, what_was_written_over_is_lost_when_a_sync_failed);
    tcase_add_test(tests, sectors_that_were_written_over_reach_the_disk_in_any_order);
    tcase_add_test(tests, sectors_that_were_added_reach_the_disk_in_any_order);
    tcase_add_test(tests, a_full_disk_takes_what_goes_over_its_files);
    tcase_add_test(tests, a_bit_that_flips_is_flipped_after_a_crash);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
