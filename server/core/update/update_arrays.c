/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic itself is optimizer/; here a gradient, cut wherever its message was cut, meets
 * blocks of PS_BLOCK_BYTES. Whole updates and ranges go through the same walk over one block. They
 * differ in how a block is opened, and in who has looked at the elements before. Every element is
 * written once, at its own place in the parameter: stochastic rounding hashes that place, so
 * neither blocks nor ranges may show in it. */
#include "server/core/update/update_arrays.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/update/gradient_check.h"
#include "server/core/update/sparse_apply.h"
#include "server/core/update/spread.h"

#include <string.h>

/* Elements that are looked at and then applied: 8 to 16 KiB, which are still in the first-level
 * cache when they are read for the second time. */
enum { LOOK_ELEMENTS = 2048 };

/* One block of every array, open for writing. */
struct open_block {
    struct ps_block_update arrays[PS_ARRAYS_MAX];
};

static struct open_block open_shared(const struct ps_update_arrays *arrays, size_t block);
static bool apply_to_block(const struct ps_update_arrays *arrays, const struct open_block *block,
                           struct ps_elements elements, struct ps_gradient_runs *runs,
                           struct ps_gradient_scan *scan);
static void apply_all(void *argument);
static void apply_touched(void *argument);

/* All arrays of an update are of one parameter. */
static const struct ps_parameter_spec *spec_of(const struct ps_update_arrays *arrays)
{
    PS_ASSERT(arrays->count > 0 && arrays->from[0] != NULL);
    return arrays->from[0]->spec;
}

/* Of every block but the last. A power of two for each type, and a multiple of the groups of INT8,
 * which therefore never lie in two blocks of a whole gradient. */
static uint64_t block_elements(const struct ps_parameter_spec *spec)
{
    return PS_BLOCK_BYTES / ps_dtype_size(spec->dtype);
}

void ps_update_arrays_read(struct ps_update_arrays *arrays, struct ps_blocks *values,
                           struct ps_blocks *const states[PS_STATES_MAX], uint64_t version)
{
    PS_ASSERT(version > 0); /* version 0 is what InitParam gave: no update makes it */
    arrays->version = version;
    arrays->count = 1 + ps_rule_states(values->spec->settings.rule);
    PS_ASSERT(arrays->count <= PS_ARRAYS_MAX);
    arrays->from[0] = values;
    for (size_t i = 1; i < arrays->count; i++) {
        PS_ASSERT(states[i - 1] != NULL && states[i - 1]->size == values->size);
        arrays->from[i] = states[i - 1];
    }
}

/* All memory of the update, before its push has a place: afterwards nothing may be refused any
 * more. */
bool ps_update_arrays_take(struct ps_update_arrays *arrays, const bool *touched)
{
    for (size_t i = 0; i < arrays->count; i++) {
        PS_ASSERT(arrays->to[i] == NULL);
        arrays->to[i] = ps_blocks_begin_update(arrays->from[i], touched);
        if (arrays->to[i] == NULL) {
            ps_update_arrays_give_back(arrays);
            return false;
        }
    }
    return true;
}

/* Never in place, also where nobody reads the old version: another push may still make this one
 * worthless. The new blocks are stamped with their version now, since several threads will write
 * parts of the same block and none of them knows whether another has opened it. */
bool ps_update_arrays_take_new(struct ps_update_arrays *arrays)
{
    struct ps_parameter_spec *spec = arrays->from[0]->spec;
    for (size_t i = 0; i < arrays->count; i++) {
        PS_ASSERT(arrays->to[i] == NULL);
        arrays->to[i] = ps_blocks_create(spec);
        if (arrays->to[i] == NULL) {
            ps_update_arrays_give_back(arrays);
            return false;
        }
        for (size_t block = 0; block < arrays->to[i]->block_count; block++)
            (void)ps_blocks_write(arrays->to[i], block, arrays->version);
    }
    return true;
}

/* Arrays that were not taken, or whose update is over, have no `to`. */
void ps_update_arrays_give_back(struct ps_update_arrays *arrays)
{
    PS_ASSERT(arrays->count <= PS_ARRAYS_MAX);
    for (size_t i = 0; i < arrays->count; i++) {
        if (arrays->to[i] != NULL)
            ps_blocks_abandon_update(arrays->from[i], arrays->to[i]);
        arrays->to[i] = NULL;
    }
}

/* ---- The whole gradient ---- */

/* An update by one thread or several: each takes the next block that nobody has taken, and walks
 * through the gradient by itself. Blocks share nothing, so the bits do not say who did which. */
struct apply_work {
    const struct ps_update_arrays *arrays;
    struct ps_gradient gradient;
    const bool *touched;
    struct ps_spread spread;
};

/* The crew is asked once for the whole gradient; each thread of it begins at the front. */
void ps_update_arrays_apply(const struct ps_update_arrays *arrays, struct ps_gradient gradient,
                            const bool *touched)
{
    const struct ps_parameter_spec *spec = spec_of(arrays);
    struct apply_work work = {.arrays = arrays, .gradient = gradient, .touched = touched};
    PS_ASSERT(!arrays->step.skip);
    PS_ASSERT(arrays->to[arrays->count - 1] != NULL);
    ps_spread_init(&work.spread, spec, block_elements(spec));
    ps_spread_run(spec, touched != NULL ? apply_touched : apply_all, &work);
}

/* Passing over what others take costs little where nothing is decoded; where something is, groups
 * and scales are passed over by the size of them. */
static void apply_all(void *argument)
{
    struct apply_work *work = argument;
    const struct ps_parameter_spec *spec = spec_of(work->arrays);
    struct ps_gradient_runs runs;
    struct ps_elements part;
    ps_gradient_runs_init(&runs, work->gradient, spec->dtype, spec->count);
    while (ps_spread_next(&work->spread, &part)) {
        struct open_block block =
            open_shared(work->arrays, (size_t)(part.first / work->spread.part));
        ps_gradient_runs_skip_to(&runs, part.first);
        /* All of it was looked at, so nothing can stop the walk. */
        (void)apply_to_block(work->arrays, &block, part, &runs, NULL);
    }
}

/* Of a block that is written, elements that the pairs do not name keep what they have: where the
 * block is a new one, the old content is put there first. Blocks of which nothing is named are not
 * opened at all, and readers of deltas see that they have not changed. */
static void apply_touched(void *argument)
{
    struct apply_work *work = argument;
    const struct ps_update_arrays *arrays = work->arrays;
    struct ps_gradient_pairs pairs;
    struct ps_elements part;
    ps_gradient_pairs_init(&pairs, work->gradient.content);
    while (ps_spread_next(&work->spread, &part)) {
        size_t block = (size_t)(part.first / work->spread.part);
        /* The pairs of a block that is not touched are none, so there is nothing to pass over
         * either. */
        if (!work->touched[block])
            continue;
        struct open_block open = open_shared(arrays, block);
        void *content[PS_ARRAYS_MAX] = {NULL};
        for (size_t i = 0; i < arrays->count; i++) {
            struct ps_block_update *array = &open.arrays[i];
            if (array->to != array->from)
                memcpy(array->to, array->from, array->size);
            content[i] = array->to;
        }
        ps_gradient_pairs_skip_to(&pairs, part.first);
        ps_sparse_apply(&arrays->step, part.first, part.count, content, arrays->count, &pairs);
    }
}

/* Opens a block that is all one thread's: in place, or moved to the new list, or a new one. */
static struct open_block open_shared(const struct ps_update_arrays *arrays, size_t block)
{
    struct open_block open;
    for (size_t i = 0; i < arrays->count; i++) {
        open.arrays[i] = ps_blocks_update(arrays->from[i], arrays->to[i], block, arrays->version);
        PS_ASSERT(open.arrays[i].size == open.arrays[0].size);
    }
    return open;
}

/* ---- A range ---- */

/* Opens a block of which other threads may write other elements at this moment. */
static struct open_block open_new(const struct ps_update_arrays *arrays, size_t block)
{
    struct open_block open;
    for (size_t i = 0; i < arrays->count; i++) {
        PS_ASSERT(arrays->to[i] != arrays->from[i]);
        open.arrays[i] = (struct ps_block_update){arrays->from[i]->pieces[block].data,
                                                  ps_blocks_part(arrays->to[i], block),
                                                  arrays->to[i]->pieces[block].size};
    }
    return open;
}

/* A range begins and ends anywhere in a block; the walk goes from block to block. Where the
 * encoding tells at once that all elements are finite, none is looked at by itself. */
bool ps_update_arrays_apply_range(const struct ps_update_arrays *arrays, struct ps_elements range,
                                  struct ps_gradient gradient)
{
    const struct ps_parameter_spec *spec = spec_of(arrays);
    const uint64_t width = block_elements(spec);
    const uint64_t end = range.first + range.count;
    struct ps_gradient_scan scan = {0};
    struct ps_gradient_runs runs;
    PS_ASSERT(gradient.encoding != PS_ENCODING_TOP_K);
    PS_ASSERT(range.first <= spec->count && range.count <= spec->count - range.first);
    PS_ASSERT(gradient.content.size ==
              ps_encoding_bytes(gradient.encoding, spec->dtype, range.count));
    bool is_finite = ps_gradient_is_plainly_finite(gradient, range.count);
    ps_gradient_runs_init(&runs, gradient, spec->dtype, range.count);
    /* The first and the last block may be shared with neighbouring ranges, of other threads. */
    for (uint64_t at = range.first; at < end;) {
        uint64_t left = width - at % width;
        struct ps_elements part = {at, left < end - at ? left : end - at};
        struct open_block block = open_new(arrays, (size_t)(at / width));
        if (!apply_to_block(arrays, &block, part, &runs, is_finite ? NULL : &scan))
            return false;
        at += part.count;
    }
    return true;
}

/* ---- One block ---- */

/* Applies the next elements of the gradient to these, which all lie in the open block. With `scan`
 * they are looked at just before, a little at a time. False: an element is not finite. */
static bool apply_to_block(const struct ps_update_arrays *arrays, const struct open_block *block,
                           struct ps_elements elements, struct ps_gradient_runs *runs,
                           struct ps_gradient_scan *scan)
{
    const struct ps_parameter_spec *spec = spec_of(arrays);
    const size_t element_size = ps_dtype_size(spec->dtype);
    const size_t offset = (size_t)(elements.first % block_elements(spec)) * element_size;
    const size_t run_max = scan != NULL ? LOOK_ELEMENTS : SIZE_MAX;
    PS_ASSERT(offset + elements.count * element_size <= block->arrays[0].size);
    for (size_t done = 0; done < elements.count;) {
        size_t left = (size_t)elements.count - done;
        struct ps_element_run run = ps_gradient_runs_next(runs, left < run_max ? left : run_max);
        PS_ASSERT(run.count > 0); /* the length was checked */
        if (scan != NULL)
            ps_optimizer_scan(arrays->step.settings, spec->dtype, run.elements, run.count, scan);
        if (scan != NULL && scan->nonfinite)
            return false;
        /* From and to are the same bytes where a block is written in place; the loops allow for
         * it. */
        struct ps_optimizer_arrays at = {0};
        for (size_t i = 0; i < arrays->count; i++) {
            at.from[i] = block->arrays[i].from + offset + done * element_size;
            at.to[i] = block->arrays[i].to + offset + done * element_size;
        }
        ps_optimizer_apply_to(&arrays->step, elements.first + done, run.count, &at, run.elements);
        done += run.count;
    }
    return true;
}

/* Readers of the old arrays keep them; the parameter's references to them end here. Left zeroed, so
 * that ending the update gives nothing back twice. */
void ps_update_arrays_put(struct ps_update_arrays *arrays, struct ps_blocks **values,
                          struct ps_blocks *states[PS_STATES_MAX])
{
    for (size_t i = 0; i < arrays->count; i++) {
        struct ps_blocks **array = i == 0 ? values : &states[i - 1];
        PS_ASSERT(*array == arrays->from[i] && arrays->to[i] != NULL);
        *array = arrays->to[i];
        ps_blocks_end_update(arrays->from[i], arrays->to[i]);
        arrays->from[i] = NULL;
        arrays->to[i] = NULL;
    }
}
