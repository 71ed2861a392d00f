/* Applies a gradient to a parameter. Everything that can fail comes first, so that a refused push
 * changes nothing: look at the whole gradient, prepare the step, look for overflow, get memory;
 * then the arithmetic, block by block, and the swap. */
#include "server/core/parameter.h"

#include "base/assert.h"
#include "optimizer/optimizer.h"
#include "server/core/gradient_runs.h"

#include <inttypes.h>

/* Values and states, in that order. */
#define ARRAYS_MAX (1 + PS_STATES_MAX)
_Static_assert(PS_STATES_MAX == 2, "apply_to_block names each state");

/* The arrays that an update reads, and those that it writes: the same while nobody else holds
 * them, otherwise new ones. */
struct update {
    const struct ps_optimizer_step *step;
    uint64_t version; /* that it makes */
    struct ps_blocks *from[ARRAYS_MAX];
    struct ps_blocks *to[ARRAYS_MAX];
    size_t array_count;
};

static void scan_gradient(const struct ps_parameter_spec *spec, struct ps_view gradient,
                          struct ps_gradient_scan *scan);
static enum ps_status push_locked(struct ps_parameter *parameter, struct ps_view gradient,
                                  const struct ps_gradient_scan *scan,
                                  struct ps_journal_place *place, struct ps_error *error);
static enum ps_status go_in(const struct ps_parameter *parameter, struct ps_journal_place *place,
                            struct ps_error *error);
static enum ps_status check_overflow(const struct ps_parameter *parameter,
                                     const struct ps_optimizer_step *step, struct ps_view gradient,
                                     struct ps_error *error);
static enum ps_status begin_update(struct update *update, struct ps_parameter *parameter,
                                   const struct ps_optimizer_step *step, struct ps_error *error);
static void abandon_update(struct update *update);
static void apply_update(struct update *update, struct ps_view gradient);
static void apply_to_block(const struct update *update, size_t block,
                           struct ps_gradient_runs *runs);
static void end_update(struct update *update, struct ps_parameter *parameter);

enum ps_status ps_parameter_push(struct ps_parameter *parameter, struct ps_view gradient,
                                 struct ps_journal_place *place, uint64_t *version,
                                 struct ps_error *error)
{
    PS_ASSERT(gradient.size == ps_parameter_spec_bytes(parameter->spec));
    /* What the gradient looks like does not depend on the values: no lock yet. */
    struct ps_gradient_scan scan = {0};
    scan_gradient(parameter->spec, gradient, &scan);

    ps_mutex_lock(&parameter->lock);
    enum ps_status status = push_locked(parameter, gradient, &scan, place, error);
    if (status == PS_OK)
        *version = parameter->version;
    ps_mutex_unlock(&parameter->lock);
    return status;
}

static void scan_gradient(const struct ps_parameter_spec *spec, struct ps_view gradient,
                          struct ps_gradient_scan *scan)
{
    if (!ps_optimizer_scans(&spec->settings, spec->dtype))
        return;
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, gradient, ps_dtype_size(spec->dtype));
    struct ps_gradient_run run = ps_gradient_runs_next(&runs, SIZE_MAX / 8);
    while (run.count > 0) {
        ps_optimizer_scan(&spec->settings, spec->dtype, run.elements, run.count, scan);
        run = ps_gradient_runs_next(&runs, SIZE_MAX / 8);
    }
}

static enum ps_status push_locked(struct ps_parameter *parameter, struct ps_view gradient,
                                  const struct ps_gradient_scan *scan,
                                  struct ps_journal_place *place, struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    struct ps_optimizer_step step;
    PS_TRY(ps_optimizer_prepare(&spec->settings, spec->dtype, parameter->step + 1, spec->id, scan,
                                &step, error));
    if (step.skip) {
        PS_TRY(go_in(parameter, place, error));
        parameter->version++;
        return PS_OK;
    }
    PS_TRY(check_overflow(parameter, &step, gradient, error));

    struct update update = {0};
    PS_TRY(begin_update(&update, parameter, &step, error));
    enum ps_status status = go_in(parameter, place, error);
    if (status != PS_OK) {
        abandon_update(&update);
        return status;
    }
    apply_update(&update, gradient);
    end_update(&update, parameter);
    parameter->step++;
    parameter->version++;
    return PS_OK;
}

static enum ps_status go_in(const struct ps_parameter *parameter, struct ps_journal_place *place,
                            struct ps_error *error)
{
    return place != NULL ? ps_journal_queue_put(place, parameter->version + 1, error) : PS_OK;
}

static enum ps_status check_overflow(const struct ps_parameter *parameter,
                                     const struct ps_optimizer_step *step, struct ps_view gradient,
                                     struct ps_error *error)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    if (spec->settings.rule != PS_RULE_ADD || spec->settings.overflow != PS_OVERFLOW_FAIL)
        return PS_OK;
    size_t element_size = ps_dtype_size(spec->dtype);
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, gradient, element_size);
    uint64_t first = 0;
    for (size_t block = 0; block < parameter->values->block_count; block++) {
        struct ps_bytes values = parameter->values->pieces[block];
        size_t count = values.size / element_size;
        for (size_t done = 0; done < count;) {
            struct ps_gradient_run run = ps_gradient_runs_next(&runs, count - done);
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
                                   const struct ps_optimizer_step *step, struct ps_error *error)
{
    update->step = step;
    update->version = parameter->version + 1;
    update->array_count = 1 + ps_parameter_state_count(parameter);
    update->from[0] = parameter->values;
    for (size_t i = 1; i < update->array_count; i++)
        update->from[i] = parameter->states[i - 1];

    for (size_t i = 0; i < update->array_count; i++) {
        update->to[i] = ps_blocks_begin_update(update->from[i], NULL);
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

static void apply_update(struct update *update, struct ps_view gradient)
{
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, gradient, ps_dtype_size(update->step->dtype));
    for (size_t block = 0; block < update->from[0]->block_count; block++)
        apply_to_block(update, block, &runs);
}

static void apply_to_block(const struct update *update, size_t block, struct ps_gradient_runs *runs)
{
    size_t element_size = ps_dtype_size(update->step->dtype);
    size_t count = update->to[0]->pieces[block].size / element_size;
    uint64_t first = (uint64_t)block * (PS_BLOCK_BYTES / element_size);
    uint8_t *arrays[ARRAYS_MAX] = {NULL};
    for (size_t i = 0; i < update->array_count; i++)
        arrays[i] = ps_blocks_update(update->from[i], update->to[i], block, update->version);
    for (size_t done = 0; done < count;) {
        struct ps_gradient_run run = ps_gradient_runs_next(runs, count - done);
        PS_ASSERT(run.count > 0);
        void *at[ARRAYS_MAX] = {NULL};
        for (size_t i = 0; i < update->array_count; i++)
            at[i] = arrays[i] + done * element_size;
        void *const states[PS_STATES_MAX] = {at[1], at[2]};
        ps_optimizer_apply(update->step, first + done, run.count, at[0], states, run.elements);
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
