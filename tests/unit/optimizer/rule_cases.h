/* SPDX-License-Identifier: Apache-2.0 */
/* The rules with their variants, and inputs that find where two builds could differ.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TESTS_OPTIMIZER_RULE_CASES_H
#define PS_TESTS_OPTIMIZER_RULE_CASES_H

#include "optimizer/optimizer.h"

/* Case `index` for this type: every rule that the type allows, plain and with each option. False
 * past the last one. Non-finite gradients are let through. */
bool rule_case(size_t index, enum ps_dtype dtype, struct ps_optimizer_settings *settings);

/* The step of a push, with a clip_norm that really scales where the case has one. */
void rule_case_step(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                    struct ps_optimizer_step *step);

/* Fills an array with numbers of all sizes, zeros, subnormals, infinities, NaN and the ends of the
 * type's range. The same seed gives the same bits everywhere. */
void rule_case_fill(uint64_t seed, enum ps_dtype dtype, void *array, size_t count);

/* Equal bits, or both NaN. */
bool rule_case_equal(enum ps_dtype dtype, const void *left, const void *right, size_t count);

/* Takes an array into a hash; every NaN counts as the same. */
uint64_t rule_case_hash(uint64_t hash, enum ps_dtype dtype, const void *array, size_t count);

#endif
