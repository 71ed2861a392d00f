/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a storm and what a push to them looks like, so that every value tells exactly
 * which pushes it holds.
 *
 * A parameter is `elements` float32 numbers, SGD with rate 1, all 0 at first. Every life of a
 * trainer has a slot. Push number n of slot k to a parameter adds 1 to element 0, and to the three
 * elements of its slot: 1, n / 64 and n mod 64. Elements behind the slots get 1 each, so that a
 * half-applied gradient shows. All numbers stay below 2^24 and are exact.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a model that makes no sense is false, with a line on standard error.
 * Memory:   a model is freed by storm_model_fini.
 */
#ifndef PS_TESTS_CHAOS_STORM_MODEL_H
#define PS_TESTS_CHAOS_STORM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most pushes of one slot to one parameter: their sums stay below 2^24. */
#define STORM_PUSHES_MAX 16000u

struct storm_parameter {
    char name[64];
    size_t element_count;
    float *values; /* element_count; what the last pull brought, or the gradient to push */
};

struct storm_model {
    struct storm_parameter *parameters;
    size_t parameter_count;
    size_t slot_count;
};

/* Reads "NAME:ELEMENTS,NAME:ELEMENTS". Every parameter has room for `slot_count` slots. */
bool storm_model_init(struct storm_model *model, const char *text, size_t slot_count);
void storm_model_fini(struct storm_model *model);

/* Writes the gradient of push `number` (from 1) of a slot into the parameter's values. */
void storm_gradient(struct storm_model *model, size_t parameter, size_t slot, uint32_t number);

/* True when values that were pulled can come from whole pushes, and are `version` many. */
bool storm_values_whole(const struct storm_model *model, size_t parameter, uint64_t version);

#endif
