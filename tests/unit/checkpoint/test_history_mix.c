/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/history_mix.c: whose a folder is, and which strangers are in the way; a table of
 * folders. */
#include "checkpoint/history_mix.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

#define FILES_MAX 5

/* Histories of the table: unknown, and two. */
enum { U, A, B };

static struct ps_history history(int which)
{
    struct ps_history result = {{(uint8_t)which}};
    return result;
}

/* A file and where it is to stand. */
struct row {
    int history;
    bool is_segment;
    uint64_t epoch;
    uint64_t position; /* of a segment: its first */
    uint64_t begin;
    uint64_t previous;
    enum ps_history_place place;
};

#define CHECKPOINT(which, epoch, position, place)  \
    {                                              \
        which, false, epoch, position, 0, 0, place \
    }
#define SEGMENT(which, epoch, first, begin, previous, place) \
    {                                                        \
        which, true, epoch, first, begin, previous, place    \
    }
#define OWN PS_HISTORY_OWN
#define VOID PS_HISTORY_VOID
#define MIXED PS_HISTORY_MIXED

static const struct folder {
    const char *name;
    int told;
    int own; /* what the folder's is to be */
    struct row rows[FILES_MAX];
    size_t count;
} folders[] = {
    {"nothing", U, U, {{0}}, 0},
    {"an old folder", U, U, {CHECKPOINT(U, 2, 9, OWN), SEGMENT(U, 2, 1, 0, 0, OWN)}, 2},
    {"one history", U, A, {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN)}, 2},
    {"old files below new ones",
     U,
     A,
     {CHECKPOINT(A, 3, 20, OWN), CHECKPOINT(U, 2, 9, OWN), SEGMENT(U, 2, 1, 0, 0, OWN),
      SEGMENT(A, 3, 10, 9, 2, OWN)},
     4},
    {"an older program went on",
     U,
     A,
     {CHECKPOINT(U, 4, 30, OWN), CHECKPOINT(A, 3, 20, OWN), SEGMENT(U, 4, 21, 20, 3, OWN),
      SEGMENT(A, 3, 10, 9, 2, OWN)},
     4},
    {"segments of another that go on",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 3, 10, 9, 2, MIXED)},
     3},
    {"segments of another from its beginning",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 3, 1, 0, 0, MIXED)},
     3},
    {"a segment of another in the same epoch",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 2, 10, 0, 0, MIXED)},
     3},
    {"a newer checkpoint of another, and the store knows",
     A,
     A,
     {CHECKPOINT(B, 5, 50, MIXED), CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN)},
     3},
    {"and nobody knows: the newest decides",
     U,
     B,
     {CHECKPOINT(B, 5, 50, OWN), CHECKPOINT(A, 2, 9, VOID), SEGMENT(A, 2, 1, 0, 0, MIXED)},
     3},
    {"two owners of a new shard, neither of whom could publish",
     U,
     B,
     {CHECKPOINT(B, 5, 0, OWN), CHECKPOINT(B, 5, 0, OWN), CHECKPOINT(A, 2, 1, VOID)},
     3},
    {"with a journal of each",
     U,
     B,
     {CHECKPOINT(B, 5, 0, OWN), SEGMENT(B, 5, 1, 0, 0, OWN), CHECKPOINT(A, 2, 0, VOID),
      SEGMENT(A, 2, 1, 0, 0, VOID)},
     4},
    {"but not of one who was there between them",
     U,
     B,
     {CHECKPOINT(B, 5, 9, OWN), CHECKPOINT(A, 4, 7, MIXED), CHECKPOINT(B, 3, 5, OWN)},
     3},
    {"an older checkpoint of another",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), CHECKPOINT(B, 1, 5, MIXED)},
     2},
    {"one of an owner that this one began without",
     A,
     A,
     {CHECKPOINT(A, 3, 9, OWN), CHECKPOINT(B, 2, 5, VOID), SEGMENT(A, 3, 1, 0, 0, OWN)},
     3},
    {"by what later segments of the epoch say",
     A,
     A,
     {CHECKPOINT(A, 3, 90, OWN), CHECKPOINT(B, 2, 5, VOID), SEGMENT(A, 3, 80, 0, 0, OWN)},
     3},
    {"the same where nobody has told",
     U,
     A,
     {CHECKPOINT(A, 3, 9, OWN), CHECKPOINT(B, 2, 5, VOID), SEGMENT(A, 3, 1, 0, 0, OWN)},
     3},
    {"by a checkpoint that has less",
     A,
     A,
     {CHECKPOINT(A, 3, 4, OWN), CHECKPOINT(B, 2, 5, VOID), SEGMENT(B, 2, 1, 0, 0, MIXED)},
     3},
    {"a life that came to nothing before this one",
     A,
     A,
     {CHECKPOINT(A, 3, 9, OWN), SEGMENT(B, 2, 1, 0, 0, VOID), SEGMENT(A, 3, 1, 0, 0, OWN)},
     3},
    {"an epoch between the two that this one names",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 3, 5, 4, 2, VOID),
      SEGMENT(A, 4, 10, 9, 2, OWN)},
     4},
    {"the same without the word of the segment",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 3, 5, 4, 2, MIXED),
      SEGMENT(U, 4, 10, 9, 2, OWN)},
     4},
    {"a later life without a checkpoint, of which nothing was acknowledged",
     U,
     A,
     {CHECKPOINT(A, 2, 0, OWN), SEGMENT(A, 2, 1, 0, 0, OWN), SEGMENT(B, 3, 1, 0, 0, VOID)},
     3},
    {"but a checkpoint that says nothing may be of that life",
     U,
     A,
     {CHECKPOINT(U, 3, 5, OWN), CHECKPOINT(A, 2, 0, OWN), SEGMENT(A, 2, 1, 0, 0, OWN),
      SEGMENT(B, 3, 1, 0, 0, MIXED)},
     4},
    {"two lives that came to nothing",
     U,
     B,
     {SEGMENT(A, 2, 1, 0, 0, VOID), SEGMENT(B, 3, 1, 0, 0, OWN)},
     2},
    {"two checkpoints of one epoch: the farther one decides, and neither was before the other",
     U,
     B,
     {CHECKPOINT(B, 3, 9, OWN), CHECKPOINT(A, 3, 5, MIXED)},
     2},
    {"an older file that says nothing makes an owner no later one",
     U,
     B,
     {CHECKPOINT(B, 5, 50, OWN), CHECKPOINT(U, 1, 3, OWN), CHECKPOINT(A, 2, 9, VOID)},
     3},
    {"a life without a checkpoint that went on from another",
     U,
     A,
     {CHECKPOINT(A, 2, 0, OWN), SEGMENT(B, 3, 1, 0, 2, MIXED)},
     2},
    {"and one whose beginning is not there",
     U,
     A,
     {CHECKPOINT(A, 2, 0, OWN), SEGMENT(B, 3, 5, 4, 0, MIXED)},
     2},
    {"a later owner that names the stranger's own epoch",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(B, 3, 5, 4, 2, MIXED), SEGMENT(A, 4, 10, 9, 3, OWN)},
     3},
    {"a later owner that names no epoch",
     A,
     A,
     {CHECKPOINT(A, 2, 9, OWN), SEGMENT(B, 3, 5, 4, 2, MIXED), SEGMENT(A, 4, 10, 9, 0, OWN)},
     3},
    {"the pointer's history is in no file",
     A,
     A,
     {CHECKPOINT(B, 2, 9, MIXED), SEGMENT(B, 2, 1, 0, 0, MIXED)},
     2},
};

static size_t gather(const struct folder *folder, struct ps_history_witness *files)
{
    for (size_t i = 0; i < folder->count; i++) {
        const struct row *row = &folder->rows[i];
        files[i] = (struct ps_history_witness){.is_segment = row->is_segment,
                                               .is_read = row->is_segment,
                                               .epoch = row->epoch,
                                               .position = row->position,
                                               .begin = row->begin,
                                               .previous = row->previous,
                                               .history = history(row->history)};
    }
    return folder->count;
}

START_TEST(files_stand_where_the_table_says)
{
    const struct folder *folder = &folders[_i];
    struct ps_history_witness files[FILES_MAX];
    const struct ps_history told = history(folder->told);
    size_t count = gather(folder, files);

    struct ps_history own = ps_history_of_files(files, count, &told);

    const struct ps_history expected = history(folder->own);
    ck_assert_msg(memcmp(&own, &expected, sizeof own) == 0, "%s: whose is it?", folder->name);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(ps_history_judge(files, count, i, &own, folder->told != U) ==
                          folder->rows[i].place,
                      "%s: file %zu", folder->name, i);
}
END_TEST

/* A segment whose first record is damaged is known by its name alone. */
START_TEST(a_segment_that_cannot_be_read_counts_by_its_name)
{
    struct ps_history_witness files[] = {
        {.is_segment = true, .epoch = 3, .position = 10, .history = history(A)},
        {.is_segment = true, .is_read = true, .epoch = 2, .position = 10, .history = history(B)},
        {.is_segment = true, .is_read = true, .epoch = 2, .position = 9, .history = history(B)},
    };
    const struct ps_history own = history(A);
    ck_assert_int_eq(ps_history_judge(files, 3, 1, &own, true), PS_HISTORY_VOID);
    ck_assert_int_eq(ps_history_judge(files, 3, 2, &own, true), PS_HISTORY_MIXED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history_mix");
    TCase *tests = tcase_create("history_mix");
    tcase_add_loop_test(tests, files_stand_where_the_table_says, 0,
                        sizeof folders / sizeof folders[0]);
    tcase_add_test(tests, a_segment_that_cannot_be_read_counts_by_its_name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
