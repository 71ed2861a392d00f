/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of every rule, for tests that compare bits.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_KINDS_H
#define PS_TESTS_UNIT_CORE_CORE_KINDS_H

#include "tests/unit/core/core_world.h"

/* One parameter of one kind. */
struct kind {
    const char *optimizer; /* in the .proto, in lower case */
    enum ps_dtype dtype;
    bool stochastic;
};

#define KIND_COUNT 26
extern const struct kind kinds[KIND_COUNT];

#define ELEMENTS 1000

/* Elements of every type; returns their bytes. `elements` has room for ELEMENTS * 8. */
size_t make_elements(enum ps_dtype dtype, uint64_t seed, void *elements);

/* The type of gradients of such a parameter. */
enum ps_dtype gradient_of(const struct kind *kind);

/* Valid until the next call. */
struct ps_bytes kind_config(const struct kind *kind);

#endif
