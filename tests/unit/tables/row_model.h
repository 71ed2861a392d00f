/* SPDX-License-Identifier: Apache-2.0 */
/* A table beside a model of it: plain arrays over a few thousand ids, each with a key of its own.
 * What a push does to the model is one call of the rule for each row, after another.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   assertions of Check.
 * Memory:   row_model_close frees all.
 */
#ifndef PS_TESTS_UNIT_ROW_MODEL_H
#define PS_TESTS_UNIT_ROW_MODEL_H

#include "base/random.h"
#include "optimizer/optimizer.h"
#include "run_suite.h"
#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_hold.h"
#include "server/core/tables/row_load.h"
#include "server/core/tables/row_pull.h"
#include "server/core/tables/row_push.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"

#include <check.h>

struct row_model {
    struct ps_row_table_options options;
    struct ps_optimizer_settings settings;
    struct ps_row_table *table;
    struct ps_random random;
    uint64_t version;
    uint32_t ids;
    size_t row_bytes;
    /* By id. */
    uint64_t *keys;
    bool *there;
    uint64_t *touched;
    uint32_t *counts; /* pushes to an id that has no row yet (admission); none is forgotten */
    uint8_t *values;
    uint8_t *states[PS_STATES_MAX];
    uint8_t *sums;
    uint32_t *pushed; /* how often in this push */
};

/* Numbers that the rule takes. False where it has no such tables. */
bool row_model_settings(struct ps_optimizer_settings *settings, enum ps_rule rule,
                        enum ps_dtype dtype, uint32_t width);

/* Layout and settings for a rule on a type; keys are spread over all numbers. */
void row_model_open(struct row_model *model, enum ps_rule rule, enum ps_dtype dtype, uint32_t width,
                    uint32_t ids);
/* The same, and `options` may be changed before row_model_begin makes the table. */
void row_model_plan(struct row_model *model, enum ps_rule rule, enum ps_dtype dtype, uint32_t width,
                    uint32_t ids);
void row_model_begin(struct row_model *model);
void row_model_close(struct row_model *model);

/* Content of a push: keys of `ids`, and random gradients. For free(). */
uint8_t *row_model_content(struct row_model *model, const uint32_t *ids, size_t count,
                           size_t *size);

/* Reads, prepares and applies to the table alone. */
enum ps_status row_table_push(struct ps_row_table *table, struct ps_bytes content,
                              const struct ps_optimizer_settings *settings, uint64_t version);

/* The same content to both; the push is expected to succeed. */
void row_model_push(struct row_model *model, const uint32_t *ids, size_t count);

/* `count` ids below `below`, some more than once. */
void row_model_push_random(struct row_model *model, size_t count, uint32_t below);

/* The rows of all ids, by pulls, and the number of rows. */
void row_model_compare(struct row_model *model);

/* A table of the same options with the rows of the hold, for ps_row_table_destroy. */
struct ps_row_table *row_model_loaded(struct row_model *model, struct ps_row_hold *hold);

uint64_t row_model_rows(const struct row_model *model);

/* Rows that would be set aside for this hold if a push came to them now. */
uint64_t row_model_due(const struct ps_row_table *table, const struct ps_row_aside *aside);

/* Undoes ps_row_hash. */
uint64_t row_unhash(uint64_t hash, uint64_t seed);

/* The hash's seed of a table with this id. */
uint64_t row_seed(uint64_t id);

static inline int run_tests(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

#endif
