/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are compared after the same pushes.
 *
 * Threads:  those of the crew that is lent.
 * Blocking: as that crew.
 * Errors:   what must not happen ends the test.
 * Memory:   the caller ends each parameter.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_PARAMETER_H
#define PS_TESTS_UNIT_CORE_CORE_PARAMETER_H

#include "server/core/update/update.h"

/* "w", of float32 or float64 elements that count up from 1 by a quarter, at most ENCODED_MAX of
 * them (core_encoded.h). `crew` may be NULL. */
struct ps_parameter *parameter_create(const struct ps_allocator *memory, enum ps_dtype dtype,
                                      const struct ps_optimizer_settings *settings, size_t count,
                                      const struct ps_crew *crew);

/* One whole push; the parameter is checked behind it, also when it was refused. */
enum ps_status parameter_push(struct ps_parameter *parameter, struct ps_gradient gradient,
                              struct ps_error *error);

/* Values, states, version and step. */
void parameter_expect_same(const struct ps_parameter *a, const struct ps_parameter *b);

#endif
