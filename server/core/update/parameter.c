/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter's life, and reading it. Updating it is in update.c. Reading is taking references
 * under the lock, whatever the size: the next update
 * writes beside what was taken (blocks.c). */
#include "server/core/update/parameter.h"

#include "base/assert.h"
#include "optimizer/optimizer.h"
#include "server/core/rounds/contributions.h"
#include "server/core/tables/row_hold.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>

static struct ps_parameter *create_head(struct ps_parameter_spec *spec);
static void fill_state(struct ps_blocks *blocks, double start);
static void hold_blocks(struct ps_parameter *parameter, struct ps_parameter_version *held);

/* States begin where the rule wants them (an accumulator, say); values come from whoever
 * initialises. */
struct ps_parameter *ps_parameter_create(struct ps_parameter_spec *spec)
{
    struct ps_parameter *parameter = ps_parameter_create_blank(spec);
    if (parameter == NULL || parameter->rows != NULL)
        return parameter;
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++)
        fill_state(parameter->states[i], ps_optimizer_state_start(&spec->settings, i));
    return parameter;
}

/* All memory at once: a parameter that exists can always be read, and updated while nobody reads
 * it. */
struct ps_parameter *ps_parameter_create_blank(struct ps_parameter_spec *spec)
{
    struct ps_parameter *parameter = create_head(spec);
    if (parameter == NULL)
        return NULL;
    if (ps_parameter_spec_is_table(spec)) {
        if (!ps_parameter_rows_create(parameter))
            goto fail;
        return parameter;
    }
    parameter->values = ps_blocks_create(spec);
    if (parameter->values == NULL)
        goto fail;
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++) {
        parameter->states[i] = ps_blocks_create(spec);
        if (parameter->states[i] == NULL)
            goto fail;
    }
    return parameter;

/* Destroy accepts arrays that are not there yet. */
fail:
    ps_parameter_destroy(parameter);
    return NULL;
}

/* The device has the values and states; the host has blocks only when somebody reads. */
struct ps_parameter *ps_parameter_create_resident(struct ps_parameter_spec *spec,
                                                  const struct ps_resident *resident)
{
    /* A parameter without blocks would look like one of the host that lost them. */
    PS_ASSERT(resident->store != NULL);
    struct ps_parameter *parameter = create_head(spec);
    if (parameter != NULL)
        parameter->resident = *resident;
    return parameter;
}

/* Everything but the arrays. Destroy accepts it as it is. */
static struct ps_parameter *create_head(struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->count > 0);
    struct ps_parameter *parameter = ps_zeroed(spec->memory, sizeof *parameter);
    if (parameter == NULL)
        return NULL;
    ps_mutex_init(&parameter->lock, PS_RANK_PARAMETER);
    ps_let_by_init(&parameter->pushes);
    /* Both are read by threads that do not hold the lock. */
    atomic_init(&parameter->updating, 0);
    atomic_init(&parameter->early_pause, 0);
    atomic_init(&parameter->row_version, 0);
    parameter->spec = ps_parameter_spec_acquire(spec);
    if (ps_parameter_rounds_under(parameter, spec, &parameter->rounds, NULL) == PS_OK)
        return parameter;
    ps_parameter_destroy(parameter);
    return NULL;
}

/* Contributions of other workers than those that are waited for would count in no round. Whoever
 * wants another number ends the open round first: a smaller quorum, which may change at any time,
 * does that. With the same number who is evicted stays so. */
enum ps_status ps_parameter_rounds_under(const struct ps_parameter *parameter,
                                         const struct ps_parameter_spec *spec,
                                         struct ps_contributions **rounds, struct ps_error *error)
{
    struct ps_contributions *own = parameter->rounds;
    PS_ASSERT(spec->settings.rounds.workers <= PS_ROUND_WORKERS_MAX);
    uint32_t workers = spec->settings.rounds.workers;
    uint32_t before = own != NULL ? own->round.workers : 0;
    if (workers == before) {
        *rounds = own;
        return PS_OK;
    }
    if (own != NULL && own->round.counted_count > 0)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "Name: %s, round %" PRIu64 " is open with %u contributions of %u workers: "
                       "rounds.workers cannot change before it ends",
                       (const char *)spec->name.data, parameter->version + 1,
                       (unsigned)own->round.counted_count, (unsigned)before);
    struct ps_contributions *fresh =
        workers > 0 ? ps_contributions_create(spec->memory, workers) : NULL;
    if (workers > 0 && fresh == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for rounds of %u workers",
                       (unsigned)workers);
    *rounds = fresh;
    return PS_OK;
}

/* Called with the configuration that they are for, so that both always say the same number of
 * workers. Those that go are empty, so that this is no work under the cut:
 * ps_parameter_rounds_under has refused to change the workers of an open round. */
void ps_parameter_take_rounds(struct ps_parameter *parameter, struct ps_contributions *rounds)
{
    struct ps_contributions *former = parameter->rounds;
    PS_ASSERT(former == rounds || former == NULL || former->round.counted_count == 0);
    parameter->rounds = rounds;
    if (former != rounds)
        ps_contributions_destroy(former);
}

/* Asked where nobody contributes, under the cut that is held alone: the lock of the contributions
 * is not needed. Of what is held now, for who shows it; what may be held is counted with the
 * parameter. */
uint64_t ps_parameter_held_bytes(const struct ps_parameter *parameter)
{
    if (parameter->rounds == NULL)
        return 0;
    return ps_contributions_held_bytes(parameter->rounds);
}

/* At version 0, as the values: no push has written the block yet. */
static void fill_state(struct ps_blocks *blocks, double start)
{
    enum ps_dtype dtype = blocks->spec->dtype;
    PS_ASSERT(!ps_blocks_shared(blocks));
    for (size_t i = 0; i < blocks->block_count; i++)
        ps_optimizer_fill(dtype, start, ps_blocks_write(blocks, i, 0),
                          blocks->pieces[i].size / ps_dtype_size(dtype));
}

/* Readers keep what they hold: a list of blocks has a reference of its own to the spec, by which it
 * finds its memory. */
void ps_parameter_destroy(struct ps_parameter *parameter)
{
    if (parameter == NULL)
        return;
    PS_ASSERT(atomic_load(&parameter->updating) == 0);
    const struct ps_allocator *memory = parameter->spec->memory;
    ps_blocks_release(parameter->values);
    for (size_t i = 0; i < PS_STATES_MAX; i++)
        ps_blocks_release(parameter->states[i]);
    ps_parameter_rows_destroy(parameter);
    ps_contributions_destroy(parameter->rounds);
    /* Waits for what is queued of it on the device; zeroed for the host, where it does nothing. */
    ps_resident_release(&parameter->resident);
    ps_let_by_fini(&parameter->pushes);
    ps_mutex_fini(&parameter->lock);
    ps_parameter_spec_release(parameter->spec);
    ps_release(memory, parameter);
}

/* Decided when it was made (ps_resident_place), so nobody need hold the lock to ask. */
bool ps_parameter_on_device(const struct ps_parameter *parameter)
{
    return parameter->resident.store != NULL;
}

/* Copied block by block: the message was cut elsewhere, and it goes when the call ends. */
enum ps_status ps_parameter_set(struct ps_parameter *parameter, struct ps_view content,
                                struct ps_error *error)
{
    struct ps_blocks *values = parameter->values;
    /* A table begins without rows, whose first values are its configuration's: nothing can be set
     * by whoever initialises. */
    PS_ASSERT(content.size ==
              (parameter->rows != NULL ? 0 : ps_parameter_spec_bytes(parameter->spec)));
    if (parameter->rows != NULL)
        return PS_OK;
    if (ps_parameter_on_device(parameter))
        return ps_resident_set(&parameter->resident, PS_DEVICE_VALUES, 0, content, error);
    PS_ASSERT(parameter->version == 0);
    size_t offset = 0;
    for (size_t i = 0; i < values->block_count; i++) {
        ps_view_copy(content, offset, ps_blocks_write(values, i, 0), values->pieces[i].size);
        offset += values->pieces[i].size;
    }
    return PS_OK;
}

/* What the newest push left behind stands for all before it: the device works in the order in which
 * it is asked. */
struct ps_device_due ps_parameter_due(struct ps_parameter *parameter)
{
    if (!ps_parameter_on_device(parameter) && parameter->rows == NULL)
        return (struct ps_device_due){0};
    ps_mutex_lock(&parameter->lock);
    struct ps_device_due due = parameter->resident.newest;
    /* Of a table without rows on a device it is 0, too. */
    if (parameter->rows != NULL)
        due.ticket = ps_row_table_due(parameter->rows);
    ps_mutex_unlock(&parameter->lock);
    return due;
}

/* Of a parameter that is trained in rounds only a round changes it, under the lock of the
 * contributions: whoever has that lock may take the number for what it is. For whoever wants to
 * know how far the parameter is and not what is in it: on a device that is no reason to bring the
 * values. */
uint64_t ps_parameter_version(struct ps_parameter *parameter)
{
    ps_mutex_lock(&parameter->lock);
    uint64_t version = parameter->version;
    ps_mutex_unlock(&parameter->lock);
    return version;
}

/* Version and values are taken under one lock, so they belong together. A device may still have to
 * fill the blocks: the reader waits for `*ready` without the lock. */
enum ps_status ps_parameter_hold_values(struct ps_parameter *parameter, struct ps_blocks **values,
                                        uint64_t *version, struct ps_device_due *ready,
                                        struct ps_error *error)
{
    enum ps_status status = PS_OK;
    /* On the host what is there is ready. */
    *ready = (struct ps_device_due){0};
    ps_mutex_lock(&parameter->lock);
    *version = parameter->version;
    if (ps_parameter_on_device(parameter))
        status = ps_resident_look(&parameter->resident, parameter->spec, values, ready, error);
    else
        *values = ps_blocks_acquire(parameter->values);
    PS_ASSERT(status != PS_OK || *values != NULL);
    ps_mutex_unlock(&parameter->lock);
    return status;
}

/* Queued under the lock, so that it is of the version that is told, and behind that version's
 * update: pushes that come next are queued behind it, and wait for nothing here. */
enum ps_status ps_parameter_copy_out(struct ps_parameter *parameter, uint8_t *to, uint64_t *version,
                                     struct ps_device_due *ready, struct ps_error *error)
{
    PS_ASSERT(ps_parameter_on_device(parameter) && to != NULL);
    ps_mutex_lock(&parameter->lock);
    *version = parameter->version;
    enum ps_status status =
        ps_resident_copy_out(&parameter->resident, parameter->spec, to, ready, error);
    ps_mutex_unlock(&parameter->lock);
    return status;
}

/* For a snapshot, which holds the cut alone while it asks every parameter: so nothing is allocated
 * here, and on the host nothing can fail. */
enum ps_status ps_parameter_hold(struct ps_parameter *parameter, struct ps_parameter_version *held,
                                 struct ps_error *error)
{
    enum ps_status status = PS_OK;
    bool on_device = ps_parameter_on_device(parameter);
    if (!on_device)
        *held = (struct ps_parameter_version){0};
    /* A device's version has its memory from ps_parameter_hold_reserve; the host's needs none. */
    PS_ASSERT(held->store == parameter->resident.store);
    held->spec = ps_parameter_spec_acquire(parameter->spec);
    ps_mutex_lock(&parameter->lock);
    PS_ASSERT(parameter->step <= parameter->version);
    held->version = parameter->version;
    held->step = parameter->step;
    if (on_device)
        status = ps_resident_snapshot(&parameter->resident, held->snapshot, error);
    else if (parameter->rows != NULL)
        status = ps_row_hold_take(parameter->rows, &held->rows, error);
    else
        hold_blocks(parameter, held);
    ps_mutex_unlock(&parameter->lock);
    if (status != PS_OK)
        /* Half of a snapshot is none. */
        ps_parameter_version_release(held);
    return status;
}

/* Values and states of one version: the lock is held. */
static void hold_blocks(struct ps_parameter *parameter, struct ps_parameter_version *held)
{
    held->values = ps_blocks_acquire(parameter->values);
    PS_ASSERT(parameter->values != NULL);
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++)
        held->states[i] = ps_blocks_acquire(parameter->states[i]);
}

/* Before the cut is taken alone: asking a device for memory may take long, and all pushes would
 * wait. */
enum ps_status ps_parameter_hold_reserve(struct ps_parameter *parameter,
                                         struct ps_parameter_version *held, struct ps_error *error)
{
    const struct ps_resident *resident = &parameter->resident;
    struct ps_device_snapshot *snapshot = NULL;
    PS_ASSERT(parameter->spec != NULL);
    *held = (struct ps_parameter_version){0};
    if (parameter->rows != NULL)
        ps_row_hold_expect(parameter->rows);
    if (!ps_parameter_on_device(parameter))
        return PS_OK;
    PS_TRY(resident->store->plugin->snapshot_reserve(resident->handle, &snapshot, error));
    held->store = resident->store;
    held->snapshot = snapshot;
    return PS_OK;
}

/* The last reader of a large version frees many blocks: with no lock held. */
void ps_parameter_version_release_arrays(struct ps_parameter_version *held)
{
    ps_row_hold_release(held->rows);
    held->rows = NULL;
    ps_blocks_release(held->values);
    held->values = NULL;
    for (size_t i = 0; i < PS_STATES_MAX; i++) {
        ps_blocks_release(held->states[i]);
        held->states[i] = NULL;
    }
}

/* Accepts a zeroed one, and is left zeroed, so that every way out of a caller may end with it. */
void ps_parameter_version_release(struct ps_parameter_version *held)
{
    ps_parameter_version_release_arrays(held);
    /* On a device the copy, or what it would have been made in. */
    if (held->store != NULL)
        held->store->plugin->snapshot_release(held->snapshot);
    ps_parameter_spec_release(held->spec);
    *held = (struct ps_parameter_version){0};
}

/* By the rule alone: also a parameter on a device has so many, though not here. */
uint32_t ps_parameter_state_count(const struct ps_parameter *parameter)
{
    return ps_rule_states(parameter->spec->settings.rule);
}

/* What --memory-bytes is counted by. A second copy while a version is being read comes on top, as
 * long as that lasts. Of a table it is what the parameter takes without rows: these count as they
 * come (row_room.h). */
uint64_t ps_parameter_host_bytes(const struct ps_parameter *parameter)
{
    uint32_t arrays =
        ps_parameter_on_device(parameter) ? 1 : 1 + ps_parameter_state_count(parameter);
    return ps_parameter_spec_host_bytes(parameter->spec, arrays);
}

/* Measured with parameters of one element: about so much for one, and for each array of states. */
enum { RECORD_BYTES = 1024, STATE_RECORD_BYTES = 400 };

/* Records, lists of blocks, name and configuration count where they are more than an eighth of the
 * arrays: of a million tiny parameters they are nearly everything, and a limit that was sized by
 * the arrays of a model holds the model all the same. */
uint64_t ps_parameter_spec_host_bytes(const struct ps_parameter_spec *spec, uint32_t array_count)
{
    PS_ASSERT(array_count > 0);
    uint64_t arrays = ps_parameter_spec_bytes(spec) * (uint64_t)array_count;
    uint64_t record = RECORD_BYTES + STATE_RECORD_BYTES * (uint64_t)(array_count - 1) +
                      spec->name.size + spec->config.size +
                      (spec->shape != NULL ? sizeof *spec->shape : 0);
    /* Of a parameter that is trained in rounds what may be held is reserved from the start: so no
     * contribution is refused for want of room. */
    uint64_t held = ps_contributions_bytes_max(spec);
    return held + (record > arrays / 8 ? arrays + record : arrays);
}

/* Fewer steps than versions: a push that the rule skips makes a version and no step. */
void ps_parameter_check(struct ps_parameter *parameter)
{
    if (parameter->rounds != NULL)
        ps_contributions_check(parameter->rounds);
    ps_mutex_lock(&parameter->lock);
    const struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(atomic_load(&parameter->spec->references) > 0);
    PS_ASSERT(spec->count > 0);
    PS_ASSERT(spec->name.size > 0);
    PS_ASSERT(parameter->step <= parameter->version);
    PS_ASSERT((parameter->rounds != NULL) == (spec->settings.rounds.workers > 0));
    PS_ASSERT(parameter->rounds == NULL ||
              parameter->rounds->round.workers == spec->settings.rounds.workers);
    /* A parameter has its arrays in exactly one of three places: rows, a device, blocks. Which one
     * was decided when it was made. */
    bool is_table = ps_parameter_spec_is_table(spec);
    PS_ASSERT((parameter->rows != NULL) == is_table);
    PS_ASSERT(!is_table || atomic_load(&parameter->row_version) == parameter->version);
    PS_ASSERT((parameter->resident.handle != NULL) == ps_parameter_on_device(parameter));
    PS_ASSERT(!is_table || !ps_parameter_on_device(parameter));
    if (is_table)
        ps_row_table_check(parameter->rows);
    bool on_host = !is_table && !ps_parameter_on_device(parameter);
    PS_ASSERT((parameter->values != NULL) == on_host);
    PS_ASSERT(!on_host || parameter->values->size == ps_parameter_spec_bytes(spec));
    PS_ASSERT(!on_host || ps_parameter_spec_is_same(parameter->values->spec, spec));
    for (uint32_t i = 0; i < PS_STATES_MAX; i++) {
        bool expected = on_host && i < ps_parameter_state_count(parameter);
        PS_ASSERT((parameter->states[i] != NULL) == expected);
        PS_ASSERT(!expected || parameter->states[i]->size == parameter->values->size);
    }
    ps_mutex_unlock(&parameter->lock);
}
