/* SPDX-License-Identifier: Apache-2.0 */
/* One commit for whole gradients, for ranges and for what is replayed. The order of its steps is
 * the room's promise: look, prepare, overflow, memory, place in the journal, arithmetic, version.
 * Write-ahead logging has the same order for the same reason: what has its place in the log
 * happens, and what might not happen gets no place. */
#include "server/core/update/update.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "optimizer/optimizer.h"
#include "server/core/tables/row_push.h"
#include "server/core/update/gradient_check.h"
#include "server/core/update/update_rows.h"

#include <inttypes.h>

static bool may_be_early(struct ps_parameter *parameter);
static bool begin_early(struct ps_update *update);
static enum ps_status look(struct ps_update *update, struct ps_error *error);
static enum ps_status apply_early(struct ps_update *update, struct ps_elements range,
                                  struct ps_gradient gradient);
static bool take_new_blocks(struct ps_update *update);
static enum ps_status commit_locked(struct ps_update *update, struct ps_journal_place *place,
                                    struct ps_error *error);
static enum ps_status prepare(struct ps_update *update, bool is_replay, struct ps_error *error);
static enum ps_status check_first(const struct ps_update *update, struct ps_error *error);
static enum ps_status check_overflow(const struct ps_update *update, struct ps_error *error);
static enum ps_status make_version(struct ps_update *update, struct ps_error *error);
static enum ps_status queue_on_device(struct ps_update *update, struct ps_error *error);

/* ---- Begin ---- */

/* A whole update costs nothing to begin: it lives on the stack of a push of a few KiB, and takes
 * neither lock nor memory before its gradient was looked at. */
bool ps_update_begin(struct ps_update *update, struct ps_parameter *parameter,
                     enum ps_update_mode mode)
{
    PS_ASSERT(parameter->spec != NULL);
    PS_ASSERT(mode == PS_UPDATE_WHOLE || mode == PS_UPDATE_EARLY);
    *update = (struct ps_update){.mode = mode, .parameter = parameter};
    if (mode == PS_UPDATE_WHOLE)
        return true;
    ps_mutex_init(&update->lock, PS_RANK_QUEUE);
    return may_be_early(parameter) && begin_early(update);
}

/* An early update outlives the call that begins it: its ranges come in calls of their own, on
 * threads of their own. */
struct ps_update *ps_update_create_early(struct ps_parameter *parameter)
{
    struct ps_update *update = ps_zeroed(parameter->spec->memory, sizeof *update);
    if (update == NULL || ps_update_begin(update, parameter, PS_UPDATE_EARLY))
        return update;
    ps_update_end(update);
    ps_release(parameter->spec->memory, update);
    return NULL;
}

/* The one place that says whether a push in ranges is tried early. Not where all of the gradient
 * has to be seen first: a norm, or an overflow that refuses the whole push. Not while another push
 * is at work: it will be first. Each that asks during a pause makes that one push shorter. */
static bool may_be_early(struct ps_parameter *parameter)
{
    PS_ASSERT(atomic_load(&parameter->early_pause) <= PS_UPDATE_EARLY_PAUSE);
    const struct ps_optimizer_settings *settings = &parameter->spec->settings;
    bool may_overflow = settings->rule == PS_RULE_ADD && settings->overflow == PS_OVERFLOW_FAIL;
    if (ps_parameter_on_device(parameter) || settings->clip_norm > 0 || may_overflow)
        return false;
    uint32_t pause = atomic_load(&parameter->early_pause);
    while (pause > 0 && !atomic_compare_exchange_weak(&parameter->early_pause, &pause, pause - 1))
        ;
    return pause == 0 && atomic_load(&parameter->updating) == 0;
}

/* The step is prepared as if nothing could be found in the gradient: for settings that may be early
 * all that a scan could find is an element that is not finite, and then the attempt has failed. */
static bool begin_early(struct ps_update *update)
{
    const struct ps_parameter_spec *spec = update->parameter->spec;
    const struct ps_gradient_scan nothing_found = {0};
    struct ps_parameter_version *base = &update->base;
    if (ps_parameter_hold(update->parameter, base, NULL) != PS_OK ||
        ps_optimizer_prepare(&spec->settings, spec->dtype, base->step + 1, spec->id, &nothing_found,
                             &update->arrays.step, NULL) != PS_OK)
        return false;
    /* Skipping is what a rule does with elements that are not finite, and none was found. */
    PS_ASSERT(!update->arrays.step.skip);
    ps_update_arrays_read(&update->arrays, base->values, base->states, base->version + 1);
    return true;
}

/* ---- Apply ---- */

/* The fork of the two ways, and the only place where encodings make a difference: whatever comes
 * behind it sees flags of touched blocks, or none. */
enum ps_status ps_update_apply(struct ps_update *update, struct ps_elements range,
                               struct ps_gradient gradient, struct ps_error *error)
{
    PS_ASSERT(!update->is_committed);
    if (update->mode == PS_UPDATE_EARLY)
        return apply_early(update, range, gradient);
    PS_ASSERT(range.first == 0 && range.count == update->parameter->spec->count);
    /* Borrowed until the end: of pushes that were put together the view is the staging's. */
    update->gradient = gradient;
    return look(update, error);
}

/* What the gradient looks like does not depend on the values: no lock is needed for it. */
static enum ps_status look(struct ps_update *update, struct ps_error *error)
{
    const struct ps_parameter *parameter = update->parameter;
    const struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(update->touched == NULL && update->judged == NULL);
    if (parameter->rows != NULL)
        return ps_update_rows_look(update, error);
    /* Flags are for rules that leave an element alone whose gradient is 0. For all others pairs are
     * one more way to write a gradient of mostly zeros, and every block is written. */
    if (update->gradient.encoding == PS_ENCODING_TOP_K &&
        ps_encoding_touches_named_only(&spec->settings)) {
        /* One more than there may be; a flag is a byte. */
        size_t blocks = ps_parameter_spec_bytes(spec) / PS_BLOCK_BYTES + 1;
        update->touched = ps_zeroed(spec->memory, blocks);
        if (update->touched == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a gradient of pairs");
    }
    /* On the host, wherever the parameter lives: a device is told nothing that could not be. */
    PS_TRY(ps_gradient_check(spec, update->gradient, update->touched, error));
    if (ps_parameter_on_device(parameter))
        PS_TRY(ps_resident_make_way(&parameter->resident, error));
    if (ps_resident_judges(&parameter->resident, spec, update->gradient))
        return ps_resident_judge(&parameter->resident, spec, update->gradient, &update->judged,
                                 &update->scan, error);
    ps_gradient_scan(spec, update->gradient, &update->scan);
    return PS_OK;
}

/* Either failure makes the attempt worthless, since its blocks are never whole now. An element that
 * is not finite will refuse the push, if the rule says so; that verdict is left to the whole, which
 * names the same element whether the push came in ranges or not. */
static enum ps_status apply_early(struct ps_update *update, struct ps_elements range,
                                  struct ps_gradient gradient)
{
    enum ps_status status = PS_OK;
    if (!take_new_blocks(update))
        status = PS_ERR_NO_MEMORY;
    else if (!ps_update_arrays_apply_range(&update->arrays, range, gradient))
        status = PS_ERR_BAD_INPUT;
    if (status != PS_OK)
        atomic_store(&update->parameter->early_pause, PS_UPDATE_EARLY_PAUSE);
    return status;
}

/* The thread whose range comes first takes them for all. */
static bool take_new_blocks(struct ps_update *update)
{
    ps_mutex_lock(&update->lock);
    bool are_there = update->arrays.to[0] != NULL || ps_update_arrays_take_new(&update->arrays);
    ps_mutex_unlock(&update->lock);
    return are_there;
}

/* ---- Commit ---- */

/* The parameter's lock is held for the arithmetic of a whole gradient, and for an exchange of
 * pointers at the end of an early one. `updating` is for readers without the lock, which may rather
 * do something else than wait. */
enum ps_status ps_update_commit(struct ps_update *update, struct ps_journal_place *place,
                                uint64_t *version, struct ps_error *error)
{
    struct ps_parameter *parameter = update->parameter;
    PS_ASSERT(!update->is_committed);
    ps_let_by_lock(&parameter->pushes, &parameter->lock);
    atomic_store(&parameter->updating, ps_parameter_spec_bytes(parameter->spec));
    enum ps_status status = commit_locked(update, place, error);
    /* With the lock, whatever came of it: what a push has prepared of the rows is the table's. The
     * version is told behind it, since readers of rows do not take the lock. */
    ps_update_rows_end(update);
    if (status == PS_OK)
        atomic_store(&parameter->row_version, parameter->version);
    atomic_store(&parameter->updating, 0);
    if (status == PS_OK)
        *version = parameter->version;
    ps_mutex_unlock(&parameter->lock);
    /* Readers of the old version aside, its memory goes now: whoever keeps a committed early update
     * for its ranges waits for the disk, and need not keep an old version meanwhile. */
    if (update->mode == PS_UPDATE_EARLY && status == PS_OK)
        ps_parameter_version_release_arrays(&update->base);
    /* Who overtook this push will most likely do so again: trainers of one step push the same
     * parameters at the same time. */
    if (update->mode == PS_UPDATE_EARLY && status == PS_ERR_CONFLICT)
        atomic_store(&parameter->early_pause, PS_UPDATE_EARLY_PAUSE);
    return status;
}

/* Up to the place in the journal everything may fail, and nothing has changed when it does. Behind
 * it nothing fails but a dead device, of which nobody is told anything any more. */
static enum ps_status commit_locked(struct ps_update *update, struct ps_journal_place *place,
                                    struct ps_error *error)
{
    const struct ps_parameter *parameter = update->parameter;
    PS_ASSERT(parameter->step <= parameter->version);
    bool is_early = update->mode == PS_UPDATE_EARLY;
    PS_TRY(is_early ? check_first(update, error) : prepare(update, place == NULL, error));
    enum ps_status status =
        place != NULL ? ps_journal_queue_put(place, parameter->version + 1, error) : PS_OK;
    if (status == PS_OK)
        return make_version(update, error);
    /* An early update keeps its blocks: the journal was full, say, and the last range comes
     * again. */
    if (!is_early)
        ps_update_arrays_give_back(&update->arrays);
    return status;
}

/* Of an early update everything is there, unless another push has made another version of the one
 * that was read, or the parameter was configured: what was applied goes by the former settings.
 * Versions only grow, so the same number is the same version. */
static enum ps_status check_first(const struct ps_update *update, struct ps_error *error)
{
    const struct ps_parameter *parameter = update->parameter;
    PS_ASSERT(update->arrays.to[0] != NULL);
    PS_ASSERT(parameter->version >= update->base.version);
    if (parameter->version == update->base.version && parameter->spec == update->base.spec)
        return PS_OK;
    return ps_fail(error, PS_ERR_CONFLICT, "Name: %s, another push came first",
                   (const char *)parameter->spec->name.data);
}

/* Of a whole gradient: the step, then whatever may still refuse it, then memory. A push that the
 * rule skips needs none. */
static enum ps_status prepare(struct ps_update *update, bool is_replay, struct ps_error *error)
{
    struct ps_parameter *parameter = update->parameter;
    const struct ps_parameter_spec *spec = parameter->spec;
    struct ps_update_arrays *arrays = &update->arrays;
    /* Each of the contributions was looked at when it came; only their sum may be too large, or, of
     * weights, not a number. Nobody is left who could be told of a refusal. */
    bool may_refuse = spec->settings.nonfinite == PS_NONFINITE_REJECT;
    if (update->gradient.is_combined && may_refuse && update->scan.nonfinite) {
        arrays->step.skip = true;
        return PS_OK;
    }
    enum ps_status status = ps_optimizer_prepare(&spec->settings, spec->dtype, parameter->step + 1,
                                                 spec->id, &update->scan, &arrays->step, error);
    if (status != PS_OK && update->rows != NULL && update->scan.nonfinite)
        return ps_row_push_fail_nonfinite(update->rows, &update->scan, error);
    PS_TRY(status);
    if (arrays->step.skip || ps_parameter_on_device(parameter))
        return PS_OK;
    if (parameter->rows != NULL)
        return ps_update_rows_prepare(update, is_replay, error);
    PS_TRY(check_overflow(update, error));
    ps_update_arrays_read(arrays, parameter->values, parameter->states, parameter->version + 1);
    if (ps_update_arrays_take(arrays, update->touched))
        return PS_OK;
    return ps_fail(error, PS_ERR_NO_MEMORY,
                   "parameter: %s is being read, and there is no memory for %zu bytes more",
                   (const char *)spec->name.data, parameter->values->size);
}

/* An overflow that refuses the push has to be found before the first element has changed: a walk of
 * its own through all of the gradient, for the one setting that asks for it. */
static enum ps_status check_overflow(const struct ps_update *update, struct ps_error *error)
{
    const struct ps_parameter_spec *spec = update->parameter->spec;
    const struct ps_blocks *values = update->parameter->values;
    /* Whole-number sums wrap, saturate or refuse; only the last one has to be looked for before. */
    if (spec->settings.rule != PS_RULE_ADD || spec->settings.overflow != PS_OVERFLOW_FAIL)
        return PS_OK;
    size_t element_size = ps_dtype_size(spec->dtype);
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, update->gradient, spec->dtype, spec->count);
    uint64_t first = 0;
    for (size_t block = 0; block < values->block_count; block++) {
        size_t count = values->pieces[block].size / element_size;
        for (size_t done = 0; done < count;) {
            struct ps_element_run run = ps_gradient_runs_next(&runs, count - done);
            size_t index;
            PS_ASSERT(run.count > 0);
            if (ps_optimizer_overflows(&update->arrays.step,
                                       values->pieces[block].data + done * element_size,
                                       run.elements, run.count, &index))
                return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                               "Name: %s, element %" PRIu64 " would overflow; nothing was changed",
                               (const char *)spec->name.data, first + done + index);
            done += run.count;
        }
        first += count;
    }
    PS_ASSERT(first == spec->count);
    return PS_OK;
}

/* The push has its place. A skipped one makes a version, too: its record is in the journal, and
 * replay counts versions by records. */
static enum ps_status make_version(struct ps_update *update, struct ps_error *error)
{
    struct ps_parameter *parameter = update->parameter;
    struct ps_update_arrays *arrays = &update->arrays;
    update->is_committed = true;
    /* Under the lock, and before the arithmetic: nobody reads in between. */
    parameter->version++;
    if (arrays->step.skip)
        return PS_OK;
    parameter->step++;
    if (ps_parameter_on_device(parameter))
        return queue_on_device(update, error);
    if (parameter->rows != NULL) {
        return ps_update_rows_apply(update, parameter->version, error);
    }
    PS_ASSERT(arrays->version == parameter->version);
    if (update->mode == PS_UPDATE_WHOLE)
        ps_update_arrays_apply(arrays, update->gradient, update->touched);
    ps_update_arrays_put(arrays, &parameter->values, parameter->states);
    return PS_OK;
}

/* The device refuses only when it is dead, and then the shard is lost with it. */
static enum ps_status queue_on_device(struct ps_update *update, struct ps_error *error)
{
    struct ps_resident *resident = &update->parameter->resident;
    const struct ps_optimizer_step *step = &update->arrays.step;
    PS_ASSERT(update->mode == PS_UPDATE_WHOLE);
    ps_resident_wrote(resident, update->parameter->spec, update->touched,
                      update->parameter->version);
    /* A gradient that the device has looked at lies there already. */
    return update->judged != NULL ? ps_resident_push_judged(resident, update->judged, step, error)
                                  : ps_resident_push(resident, update->gradient, step, error);
}

/* ---- End ---- */

/* An early update may outlive its parameter: journal and readers keep what its ranges came in, and
 * it with them. So nothing here asks the parameter of one. */
void ps_update_end(struct ps_update *update)
{
    /* What an early update has to apply is applied by now, range by range. */
    if (update->mode == PS_UPDATE_WHOLE) {
        ps_row_push_release(update->rows);
        ps_resident_judged_release(&update->parameter->resident, update->judged);
        ps_release(update->parameter->spec->memory, update->touched);
        return;
    }
    ps_update_arrays_give_back(&update->arrays);
    ps_mutex_fini(&update->lock);
    ps_parameter_version_release(&update->base);
}

void ps_update_destroy(struct ps_update *update)
{
    if (update == NULL)
        return;
    const struct ps_allocator *memory = update->base.spec->memory;
    PS_ASSERT(update->mode == PS_UPDATE_EARLY);
    ps_update_end(update);
    ps_release(memory, update);
}

enum ps_status ps_parameter_push(struct ps_parameter *parameter, struct ps_gradient gradient,
                                 struct ps_journal_place *place, uint64_t *version,
                                 struct ps_error *error)
{
    const struct ps_elements all = {0, parameter->spec->count};
    struct ps_update update;
    /* Nothing of it can be refused. */
    bool has_begun = ps_update_begin(&update, parameter, PS_UPDATE_WHOLE);
    PS_ASSERT(has_begun);
    enum ps_status status = ps_update_apply(&update, all, gradient, error);
    if (status == PS_OK)
        status = ps_update_commit(&update, place, version, error);
    ps_update_end(&update);
    return status;
}

/* Nothing of it is looked at without the lock: what is joined was read when it came, and is in the
 * order in which the table is walked. */
enum ps_status ps_parameter_push_joined(struct ps_parameter *parameter, struct ps_row_push *rows,
                                        struct ps_journal_place *place, uint64_t *version,
                                        struct ps_error *error)
{
    struct ps_update update;
    bool has_begun = ps_update_begin(&update, parameter, PS_UPDATE_WHOLE);
    PS_ASSERT(has_begun);
    ps_update_rows_take(&update, rows);
    enum ps_status status = ps_update_commit(&update, place, version, error);
    ps_update_end(&update);
    return status;
}

/* ---- Of an early update ---- */

const struct ps_parameter_spec *ps_update_early_spec(const struct ps_update *update)
{
    PS_ASSERT(update->mode == PS_UPDATE_EARLY);
    return update->base.spec;
}

uint64_t ps_update_early_bytes(const struct ps_update *update)
{
    PS_ASSERT(update->mode == PS_UPDATE_EARLY && update->arrays.count > 0);
    return update->arrays.count * (uint64_t)ps_parameter_spec_bytes(update->base.spec);
}

struct ps_blocks *ps_update_early_values(const struct ps_update *update, uint64_t *version)
{
    PS_ASSERT(update->mode == PS_UPDATE_EARLY && !update->is_committed);
    PS_ASSERT(update->arrays.to[0] != NULL);
    *version = update->arrays.version;
    return ps_blocks_acquire(update->arrays.to[0]);
}
