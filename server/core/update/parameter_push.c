/* Applies a gradient to a parameter. Everything that can fail comes first, so that a refused push
 * changes nothing: look at the whole gradient, prepare the step, look for overflow, get memory;
 * then the arithmetic, block by block, and the swap. A gradient that names its elements touches
 * their blocks alone, where the rule allows that (ps_encoding_touches_named_only). */
#include "server/core/update/parameter.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "optimizer/optimizer.h"
#include "server/core/update/gradient_check.h"
#include "server/core/update/sparse_apply.h"
#include "server/core/update/spread.h"

#include <inttypes.h>
#include <string.h>

/* A gradient that was looked at. */
struct pushed {
    struct ps_gradient gradient;
    bool *touched; /* owned; a flag for each block: only these are updated. NULL: all are */
    struct ps_gradient_scan scan;
    struct ps_device_judged *judged; /* owned; it is on the device, which made the scan */
};

/* The arrays that an update reads, and those that it writes: the same while nobody else holds
 * them, otherwise new ones. */
struct update {
    const struct ps_optimizer_step *step;
    uint64_t version; /* that it makes */
    struct ps_blocks *from[PS_ARRAYS_MAX];
    struct ps_blocks *to[PS_ARRAYS_MAX];
    size_t array_count;
};

static enum ps_status look(const struct ps_parameter *parameter, struct pushed *pushed,
                           struct ps_error *error);
static enum ps_status push_locked(struct ps_parameter *parameter, const struct pushed *pushed,
                                  struct ps_journal_place *place, struct ps_error *error);
static enum ps_status queue_update(struct ps_parameter *parameter,
                                   const struct ps_optimizer_step *step,
                                   const struct pushed *pushed, struct ps_journal_place *place,
                                   struct ps_error *error);
static enum ps_status go_in(const struct ps_parameter *parameter, struct ps_journal_place *place,
                            struct ps_error *error);
static enum ps_status check_overflow(const struct ps_parameter *parameter,
                                     const struct ps_optimizer_step *step,
                                     struct ps_gradient gradient, struct ps_error *error);
static enum ps_status begin_update(struct update *update, struct ps_parameter *parameter,
                                   const struct ps_optimizer_step *step, const bool *touched,
                                   struct ps_error *error);
static void abandon_update(struct update *update);
static void apply(const struct update *update, const struct ps_parameter_spec *spec,
                  const struct pushed *pushed);
static void apply_all(void *argument);
static void apply_touched(void *argument);
static void copy_block(const struct update *update, size_t block, void *arrays[PS_ARRAYS_MAX]);
static void apply_to_block(const struct update *update, size_t block,
                           struct ps_gradient_runs *runs);
static void end_update(struct update *update, struct ps_parameter *parameter);

enum ps_status ps_parameter_push(struct ps_parameter *parameter, struct ps_gradient gradient,
                                 struct ps_journal_place *place, uint64_t *version,
                                 struct ps_error *error)
{
    /* What the gradient looks like does not depend on the values: no lock yet. */
    struct pushed pushed = {.gradient = gradient};
    enum ps_status status = look(parameter, &pushed, error);
    if (status == PS_OK) {
        ps_mutex_lock(&parameter->lock);
        atomic_store(&parameter->updating, ps_parameter_spec_bytes(parameter->spec));
        status = push_locked(parameter, &pushed, place, error);
        atomic_store(&parameter->updating, 0);
        if (status == PS_OK)
            *version = parameter->version;
        ps_mutex_unlock(&parameter->lock);
    }
    ps_resident_judged_release(&parameter->resident, pushed.judged);
    ps_release(parameter->spec->memory, pushed.touched);
    return status;
}

static enum ps_status look(const struct ps_parameter *parameter, struct pushed *pushed,
                           struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    if (pushed->gradient.encoding == PS_ENCODING_TOP_K &&
        ps_encoding_touches_named_only(&spec->settings)) {
        size_t blocks = ps_parameter_spec_bytes(spec) / PS_BLOCK_BYTES + 1;
        pushed->touched = ps_zeroed(spec->memory, blocks);
        if (pushed->touched == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a gradient of pairs");
    }
    PS_TRY(ps_gradient_check(spec, pushed->gradient, pushed->touched, error));
    if (ps_parameter_on_device(parameter))
        PS_TRY(ps_resident_make_way(&parameter->resident, error));
    if (ps_resident_judges(&parameter->resident, spec, pushed->gradient))
        return ps_resident_judge(&parameter->resident, spec, pushed->gradient, &pushed->judged,
                                 &pushed->scan, error);
    ps_gradient_scan(spec, pushed->gradient, &pushed->scan);
    return PS_OK;
}

static enum ps_status push_locked(struct ps_parameter *parameter, const struct pushed *pushed,
                                  struct ps_journal_place *place, struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    struct ps_optimizer_step step;
    PS_TRY(ps_optimizer_prepare(&spec->settings, spec->dtype, parameter->step + 1, spec->id,
                                &pushed->scan, &step, error));
    if (step.skip) {
        PS_TRY(go_in(parameter, place, error));
        parameter->version++;
        return PS_OK;
    }
    if (ps_parameter_on_device(parameter))
        return queue_update(parameter, &step, pushed, place, error);
    PS_TRY(check_overflow(parameter, &step, pushed->gradient, error));

    struct update update = {0};
    PS_TRY(begin_update(&update, parameter, &step, pushed->touched, error));
    enum ps_status status = go_in(parameter, place, error);
    if (status != PS_OK) {
        abandon_update(&update);
        return status;
    }
    apply(&update, spec, pushed);
    end_update(&update, parameter);
    parameter->step++;
    parameter->version++;
    return PS_OK;
}

/* The push has its place before the device is asked, which refuses only when it is dead. */
static enum ps_status queue_update(struct ps_parameter *parameter,
                                   const struct ps_optimizer_step *step,
                                   const struct pushed *pushed, struct ps_journal_place *place,
                                   struct ps_error *error)
{
    struct ps_resident *resident = &parameter->resident;
    PS_TRY(go_in(parameter, place, error));
    parameter->step++;
    parameter->version++;
    ps_resident_wrote(resident, parameter->spec, pushed->touched, parameter->version);
    return pushed->judged != NULL ? ps_resident_push_judged(resident, pushed->judged, step, error)
                                  : ps_resident_push(resident, pushed->gradient, step, error);
}

static enum ps_status go_in(const struct ps_parameter *parameter, struct ps_journal_place *place,
                            struct ps_error *error)
{
    return place != NULL ? ps_journal_queue_put(place, parameter->version + 1, error) : PS_OK;
}

static enum ps_status check_overflow(const struct ps_parameter *parameter,
                                     const struct ps_optimizer_step *step,
                                     struct ps_gradient gradient, struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    if (spec->settings.rule != PS_RULE_ADD || spec->settings.overflow != PS_OVERFLOW_FAIL)
        return PS_OK;
    size_t element_size = ps_dtype_size(spec->dtype);
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, gradient, spec->dtype, spec->count);
    uint64_t first = 0;
    for (size_t block = 0; block < parameter->values->block_count; block++) {
        struct ps_bytes values = parameter->values->pieces[block];
        size_t count = values.size / element_size;
        for (size_t done = 0; done < count;) {
            struct ps_element_run run = ps_gradient_runs_next(&runs, count - done);
            size_t index;
            if (ps_optimizer_overflows(step, values.data + done * element_size, run.elements,
                                       run.count, &index))
                return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                               "Name: %s, element %" PRIu64 " would overflow; nothing was changed",
                               (const char *)spec->name.data, first + done + index);
            done += run.count;
        }
        first += count;
    }
    return PS_OK;
}

static enum ps_status begin_update(struct update *update, struct ps_parameter *parameter,
                                   const struct ps_optimizer_step *step, const bool *touched,
                                   struct ps_error *error)
{
    update->step = step;
    update->version = parameter->version + 1;
    update->array_count = 1 + ps_parameter_state_count(parameter);
    update->from[0] = parameter->values;
    for (size_t i = 1; i < update->array_count; i++)
        update->from[i] = parameter->states[i - 1];

    for (size_t i = 0; i < update->array_count; i++) {
        update->to[i] = ps_blocks_begin_update(update->from[i], touched);
        if (update->to[i] == NULL) {
            abandon_update(update);
            return ps_fail(error, PS_ERR_NO_MEMORY,
                           "parameter: %s is being read, and there is no memory for %zu bytes more",
                           (const char *)parameter->spec->name.data, update->from[i]->size);
        }
    }
    return PS_OK;
}

static void abandon_update(struct update *update)
{
    for (size_t i = 0; i < update->array_count; i++)
        ps_blocks_abandon_update(update->from[i], update->to[i]);
}

/* An update by one thread or several: each takes the next block that nobody has taken, and walks
 * through the gradient by itself. */
struct apply_work {
    const struct update *update;
    const struct ps_parameter_spec *spec;
    const struct pushed *pushed;
    struct ps_spread spread;
};

static void apply(const struct update *update, const struct ps_parameter_spec *spec,
                  const struct pushed *pushed)
{
    struct apply_work work = {.update = update, .spec = spec, .pushed = pushed};
    ps_spread_init(&work.spread, spec, PS_BLOCK_BYTES / ps_dtype_size(spec->dtype));
    ps_spread_run(spec, pushed->touched != NULL ? apply_touched : apply_all, &work);
}

static void apply_all(void *argument)
{
    struct apply_work *work = argument;
    struct ps_gradient_runs runs;
    struct ps_elements part;
    ps_gradient_runs_init(&runs, work->pushed->gradient, work->spec->dtype, work->spec->count);
    while (ps_spread_next(&work->spread, &part)) {
        ps_gradient_runs_skip_to(&runs, part.first);
        apply_to_block(work->update, (size_t)(part.first / work->spread.part), &runs);
    }
}

static void apply_touched(void *argument)
{
    struct apply_work *work = argument;
    const struct update *update = work->update;
    struct ps_gradient_pairs pairs;
    struct ps_elements part;
    ps_gradient_pairs_init(&pairs, work->pushed->gradient.content);
    while (ps_spread_next(&work->spread, &part)) {
        size_t block = (size_t)(part.first / work->spread.part);
        if (!work->pushed->touched[block])
            continue;
        void *arrays[PS_ARRAYS_MAX] = {NULL};
        copy_block(update, block, arrays);
        ps_gradient_pairs_skip_to(&pairs, part.first);
        ps_sparse_apply(update->step, part.first, part.count, arrays, update->array_count, &pairs);
    }
}

/* Elements that are not named keep what they have: where each array of the block is written, with
 * its content there. */
static void copy_block(const struct update *update, size_t block, void *arrays[PS_ARRAYS_MAX])
{
    for (size_t i = 0; i < update->array_count; i++) {
        struct ps_block_update one =
            ps_blocks_update(update->from[i], update->to[i], block, update->version);
        if (one.to != one.from)
            memcpy(one.to, one.from, one.size);
        arrays[i] = one.to;
    }
}

static void apply_to_block(const struct update *update, size_t block, struct ps_gradient_runs *runs)
{
    size_t element_size = ps_dtype_size(update->step->dtype);
    size_t count = update->to[0]->pieces[block].size / element_size;
    uint64_t first = (uint64_t)block * (PS_BLOCK_BYTES / element_size);
    struct ps_block_update blocks[PS_ARRAYS_MAX];
    for (size_t i = 0; i < update->array_count; i++)
        blocks[i] = ps_blocks_update(update->from[i], update->to[i], block, update->version);
    for (size_t done = 0; done < count;) {
        struct ps_element_run run = ps_gradient_runs_next(runs, count - done);
        PS_ASSERT(run.count > 0);
        struct ps_optimizer_arrays at = {0};
        for (size_t i = 0; i < update->array_count; i++) {
            at.from[i] = blocks[i].from + done * element_size;
            at.to[i] = blocks[i].to + done * element_size;
        }
        ps_optimizer_apply_to(update->step, first + done, run.count, &at, run.elements);
        done += run.count;
    }
}

static void end_update(struct update *update, struct ps_parameter *parameter)
{
    parameter->values = update->to[0];
    for (size_t i = 1; i < update->array_count; i++)
        parameter->states[i - 1] = update->to[i];
    for (size_t i = 0; i < update->array_count; i++)
        ps_blocks_end_update(update->from[i], update->to[i]);
}
