/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter of a random work load, as the CPU has it, and gradients for it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   whatever fails ends the process.
 * Memory:   in place.
 */
#ifndef PS_TESTS_DEVICE_MEMBER_H
#define PS_TESTS_DEVICE_MEMBER_H

#include "base/random.h"
#include "optimizer/device.h"

#include <stdbool.h>

/* More than the 16,384 floats of a slot. */
#define MEMBER_COUNT_MAX 20011
#define MEMBER_CONTENT_MAX (MEMBER_COUNT_MAX * sizeof(double))
#define MEMBER_ARRAYS_MAX (1 + PS_STATES_MAX)

/* Its own arrays are of its own type. */
struct member {
    struct ps_optimizer_settings settings;
    enum ps_dtype dtype;
    size_t count;
    struct ps_device_parameter *parameter;
    struct ps_device_ticket newest;
    uint64_t step;
    double arrays[MEMBER_ARRAYS_MAX][MEMBER_COUNT_MAX];
};

/* Ends the process with the error's text, if there is one. */
void member_must(enum ps_status status, const struct ps_error *error);

bool member_is_float(const struct member *member);
uint32_t member_arrays(const struct member *member);

/* Any rule and option that a device takes. `floats_only`: with a type that has them all. */
void member_choose(struct member *member, struct ps_random *random, bool floats_only);

/* Values, and states at their start. */
void member_start(struct member *member, struct ps_random *random);

/* Any elements of its type. */
void member_fill(const struct member *member, struct ps_random *random, void *elements,
                 size_t count);

/* A gradient in any encoding: the returned bytes, which lie in `content`, and what they decode to
 * in `gradient`, of the parameter's type. */
struct ps_bytes member_gradient(const struct member *member, struct ps_random *random,
                                enum ps_encoding *encoding, uint8_t *content, void *gradient);

/* The CPU's next step. */
void member_apply(struct member *member, const struct ps_gradient_scan *scan, const void *gradient,
                  struct ps_optimizer_step *step);

#endif
