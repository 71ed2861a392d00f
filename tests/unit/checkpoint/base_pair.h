/* SPDX-License-Identifier: Apache-2.0 */
/* A file and the one that it adds to, with every sort of parameter: what tests of such pairs begin
 * with and look at.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   asserted, but for that of open_own.
 * Memory:   all of it from base_pair_begin to base_pair_end.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_BASE_PAIR_H
#define PS_TESTS_UNIT_CHECKPOINT_BASE_PAIR_H

#include "sample_increment.h"
#include "tests/support/memory_files.h"

#define PARAMETERS 4

extern struct memory_files *disk;
extern const struct ps_files *files;
extern struct ps_checkpoint_facts base_facts, own_facts;
extern struct ps_checkpoint_parameter base[PARAMETERS], own[PARAMETERS];
extern struct sample_rows base_rows, own_rows, merged_rows, same_rows;
extern struct ps_checkpoint_reader *reader; /* of what open_own opened last */
extern struct ps_error pair_error;
extern char base_path[1024], own_path[1024];
extern const double numbers[2][3];           /* values and state of dense parameters */
extern const struct sample_row base_list[5]; /* rows of base_rows */
extern const uint64_t removed[1];            /* keys of the base that went */

/* A dense parameter whose values are numbers[run], and its state the others. */
struct ps_checkpoint_parameter dense(const char *name, size_t run);

/* As fixtures. In the order of the file: a parameter that is the base's, one that is the file's
 * own, and two tables, of which one has not changed. */
void base_pair_begin(void);
void base_pair_end(void);

/* Writes both. */
void write_both(void);

/* Opens the one that adds. */
enum ps_status open_own(void);

/* Parameter i of what was opened is dense and has numbers[run]. */
void assert_dense(size_t i, size_t run);

#endif
