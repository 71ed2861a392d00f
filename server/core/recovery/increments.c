/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that has the version and the step of the base has its bytes: every push makes a
 * version, and nothing else changes values and states. The rows of a table know their versions
 * themselves, so that all that has to be kept between two checkpoints is which keys went.
 *
 * The decision is made before anything is changed: a plan for each parameter, whose bytes are
 * counted, and only then the snapshot is reduced to it.
 *
 * Why increments do not build upon each other: a recovery would read all of them, one that is
 * damaged would cost those behind it, and none could go before the last. As it is, a chain has two
 * files, and what is read twice is at most half of a base.
 *
 * Why the base has to be published: a file that the store does not name, and that sweeps count as
 * any other, may be gone when the next increment is written. And why it is this server's own: of
 * what another one saved nobody here knows the instant, in rows that have gone since. */
#include "server/core/recovery/increments.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "server/core/tables/row_changes.h"
#include "server/core/update/parameter.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of an increment, of those of a whole one. */
#define PERCENT_MAX 50

/* What is remembered of a parameter; sorted by the specs that parameters were made with, whose
 * addresses no two have in common, and nobody else while there is a reference. Hashes of names are
 * no such thing: a model of some ten thousand parameters has two of one hash. */
struct base_parameter {
    struct ps_parameter_spec *spec; /* a reference */
    uint64_t version;
    uint64_t step;
    struct ps_row_mark *mark; /* of a table; owned */
};

/* What increments add to. It has no values: what was in the file then is what the file has. */
struct ps_save_base {
    char uuid[37];
    char path[sizeof((struct ps_checkpoint_place *)0)->path]; /* "": not written yet */
    uint64_t generation;
    uint64_t epoch;
    size_t count;
    struct base_parameter parameters[];
};

/* What of one parameter goes into an increment. */
struct plan {
    enum ps_checkpoint_carry carry;
    uint64_t *removed; /* PS_CARRY_ROWS: keys, owned; NULL: none */
    size_t removed_count;
};

static bool has_base(const struct ps_increments *increments, const struct ps_snapshot *snapshot,
                     uint64_t generation, const struct ps_files *files);
static struct ps_save_base *create_base(const struct ps_allocator *memory,
                                        const struct ps_snapshot *snapshot, uint64_t generation);
static void destroy_base(const struct ps_allocator *memory, struct ps_save_base **base);
static bool reduce(const struct ps_increments *increments, struct ps_snapshot *snapshot);
static enum ps_status plan_parameter(const struct ps_save_base *base,
                                     const struct ps_snapshot *snapshot, size_t i,
                                     struct plan *plan, uint64_t *bytes);
static enum ps_status plan_rows(const struct base_parameter *before,
                                const struct ps_parameter_version *now, struct plan *plan,
                                uint64_t *bytes);
static void carry_out(struct ps_snapshot *snapshot, struct plan *plans);
static uint64_t bytes_of(const struct ps_checkpoint_parameter *parameter);

/* One for each server, from its start to its end, whatever shard it owns in between. */
void ps_increments_init(struct ps_increments *increments, const struct ps_allocator *memory,
                        uint32_t count_max)
{
    PS_ASSERT(memory != NULL);
    *increments = (struct ps_increments){
        .memory = memory, .count_max = count_max, .percent_max = PERCENT_MAX};
}

void ps_increments_fini(struct ps_increments *increments)
{
    PS_ASSERT(increments != NULL);
    ps_increments_forget(increments);
}

/* Tables that are still there keep no keys for it any longer. */
void ps_increments_forget(struct ps_increments *increments)
{
    PS_ASSERT(increments->memory != NULL);
    destroy_base(increments->memory, &increments->base);
    destroy_base(increments->memory, &increments->candidate);
}

/* A whole one ends the time of the base before it, whatever will become of its file. */
bool ps_increments_prepare(struct ps_increments *increments, struct ps_snapshot *snapshot,
                           uint64_t generation, bool may, const struct ps_files *files)
{
    PS_ASSERT(snapshot->held != NULL && generation > 0);
    destroy_base(increments->memory, &increments->candidate);
    if (may && has_base(increments, snapshot, generation, files) && reduce(increments, snapshot)) {
        snapshot->facts.base = increments->base->uuid;
        return true;
    }
    destroy_base(increments->memory, &increments->base);
    /* Now, since the writer lets go of the rows as it goes on, and of their marks with them. */
    if (increments->count_max > 0)
        increments->candidate = create_base(increments->memory, snapshot, generation);
    return false;
}

/* One that somebody has taken away, or that a disk has lost, is found out here and not by a
 * recovery. */
static bool has_base(const struct ps_increments *increments, const struct ps_snapshot *snapshot,
                     uint64_t generation, const struct ps_files *files)
{
    const struct ps_save_base *base = increments->base;
    struct ps_file file;
    PS_ASSERT(base == NULL || increments->candidate == NULL);
    if (base == NULL || increments->count >= increments->count_max)
        return false;
    /* The shard was lost and came back: its parameters were loaded anew, and rows that went in
     * between went unseen. */
    if (base->generation != generation || base->epoch != snapshot->facts.epoch)
        return false;
    PS_ASSERT(base->path[0] != '\0');
    if (files->open(files->self, base->path, PS_FILE_READ, &file, NULL) != PS_OK)
        return false;
    files->close(files->self, file);
    return true;
}

/* For a search among as many as there are parameters. */
static int compare_parameters(const void *a, const void *b)
{
    const struct base_parameter *left = a;
    const struct base_parameter *right = b;
    uintptr_t one = (uintptr_t)ps_parameter_spec_first(left->spec);
    uintptr_t other = (uintptr_t)ps_parameter_spec_first(right->spec);
    return one < other ? -1 : one > other;
}

/* Before the writer lets go of the rows, whose marks are taken. NULL without memory: the next
 * checkpoint is whole again. */
static struct ps_save_base *create_base(const struct ps_allocator *memory,
                                        const struct ps_snapshot *snapshot, uint64_t generation)
{
    size_t count = snapshot->parameter_count;
    struct ps_save_base *base =
        ps_zeroed(memory, sizeof *base + count * sizeof base->parameters[0]);
    if (base == NULL)
        return NULL;
    /* The path is not known before the file is written (ps_increments_written). */
    memcpy(base->uuid, snapshot->facts.uuid, sizeof base->uuid);
    base->generation = generation;
    base->epoch = snapshot->facts.epoch;
    base->count = count;
    PS_ASSERT(base->epoch > 0);
    for (size_t i = 0; i < count; i++) {
        const struct ps_parameter_version *version = ps_snapshot_version(snapshot, i);
        base->parameters[i] = (struct base_parameter){
            .spec = ps_parameter_spec_acquire(version->spec),
            .version = version->version,
            .step = version->step,
            .mark = version->rows != NULL ? ps_row_hold_take_mark(version->rows) : NULL};
    }
    if (count > 1)
        qsort(base->parameters, count, sizeof base->parameters[0], compare_parameters);
    return base;
}

/* With its marks, so that the tables keep no keys for it. NULL is allowed, and left behind. */
static void destroy_base(const struct ps_allocator *memory, struct ps_save_base **owner)
{
    struct ps_save_base *base = *owner;
    *owner = NULL;
    if (base == NULL)
        return;
    PS_ASSERT(base->uuid[0] != '\0');
    for (size_t i = 0; i < base->count; i++) {
        ps_row_mark_destroy(base->parameters[i].mark);
        ps_parameter_spec_release(base->parameters[i].spec);
    }
    ps_release(memory, base);
}

/* True: the snapshot has become an increment. False: it is what it was. */
static bool reduce(const struct ps_increments *increments, struct ps_snapshot *snapshot)
{
    uint64_t whole = 0;
    uint64_t reduced = 0;
    enum ps_status status = PS_OK;
    struct plan *plans =
        ps_zeroed_array(increments->memory, snapshot->parameter_count, sizeof *plans);
    if (plans == NULL)
        return false;
    /* A walk over the rows of each table that was pushed to; sections and sessions are in both. */
    for (size_t i = 0; status == PS_OK && i < snapshot->parameter_count; i++) {
        whole += bytes_of(&snapshot->parameters[i]);
        status = plan_parameter(increments->base, snapshot, i, &plans[i], &reduced);
    }
    /* Reading two files and what the older one keeps from the sweep have their price, too. */
    bool is_worth_it = status == PS_OK && reduced * 100 <= whole * increments->percent_max;
    if (is_worth_it)
        carry_out(snapshot, plans);
    /* Keys of a plan that was carried out are the snapshot's by now. */
    for (size_t i = 0; i < snapshot->parameter_count; i++)
        ps_release(increments->memory, plans[i].removed);
    ps_release(increments->memory, plans);
    return is_worth_it;
}

/* A name that was dropped and defined again is another parameter, and not what the base has. */
static enum ps_status plan_parameter(const struct ps_save_base *base,
                                     const struct ps_snapshot *snapshot, size_t i,
                                     struct plan *plan, uint64_t *bytes)
{
    const struct ps_parameter_version *now = ps_snapshot_version(snapshot, i);
    const struct base_parameter wanted = {.spec = now->spec};
    const struct base_parameter *before = NULL;
    /* bsearch may not be given an empty list. */
    if (base->count > 0)
        before = bsearch(&wanted, base->parameters, base->count, sizeof base->parameters[0],
                         compare_parameters);
    /* A skipped push makes a version and no step; so both are compared, though one would do. */
    bool is_same = before != NULL && before->version == now->version && before->step == now->step;
    PS_ASSERT(before == NULL || before->version <= now->version);
    if (before != NULL && now->rows != NULL)
        return plan_rows(before, now, plan, bytes);
    plan->carry = is_same ? PS_CARRY_AS_BASE : PS_CARRY_WHOLE;
    *bytes += is_same ? 0 : bytes_of(&snapshot->parameters[i]);
    return PS_OK;
}

/* A sweep makes no version: the same version alone does not say that the table is the same. What
 * went wrong here makes all of the checkpoint a whole one. */
static enum ps_status plan_rows(const struct base_parameter *before,
                                const struct ps_parameter_version *now, struct plan *plan,
                                uint64_t *bytes)
{
    const struct ps_row_mark *mark = ps_row_hold_marked(now->rows);
    uint64_t rows = 0;
    PS_ASSERT(before->version <= now->version);
    if (before->mark == NULL || mark == NULL ||
        now->version - before->version > PS_ROW_VERSIONS_MAX)
        return PS_ERR_NOT_FOUND;
    PS_TRY(ps_row_marks_between(before->mark, mark, &plan->removed, &plan->removed_count));
    plan->carry = PS_CARRY_ROWS;
    /* Without a walk over its rows: most tables of a job may be at rest. */
    if (before->version == now->version && plan->removed_count == 0) {
        plan->carry = PS_CARRY_AS_BASE;
        return PS_OK;
    }
    PS_TRY(ps_row_hold_find_changed(now->rows, now->version, before->version, &rows, NULL));
    /* Of all arrays: values, states, keys and clock go together. */
    for (uint32_t array = 0; array < ps_row_hold_arrays(now->rows); array++)
        *bytes += rows * ps_row_hold_row_bytes(now->rows, array);
    *bytes += plan->removed_count * sizeof plan->removed[0];
    PS_ASSERT(rows <= ps_row_hold_rows(now->rows));
    return PS_OK;
}

/* Nothing fails from here on. */
static void carry_out(struct ps_snapshot *snapshot, struct plan *plans)
{
    PS_ASSERT(snapshot->held != NULL);
    for (size_t i = 0; i < snapshot->parameter_count; i++) {
        /* What goes whole is as the snapshot has it. */
        if (plans[i].carry == PS_CARRY_AS_BASE)
            ps_snapshot_leave_out(snapshot, i);
        if (plans[i].carry != PS_CARRY_ROWS)
            continue;
        ps_snapshot_narrow(snapshot, i, plans[i].removed, plans[i].removed_count);
        plans[i].removed = NULL;
    }
}

/* Of its arrays in a whole checkpoint. */
static uint64_t bytes_of(const struct ps_checkpoint_parameter *parameter)
{
    uint64_t bytes = 0;
    PS_ASSERT(parameter->carry == PS_CARRY_WHOLE);
    for (uint32_t array = 0; array < ps_array_count(parameter); array++)
        bytes += ps_array_bytes(parameter, array);
    return bytes;
}

/* Counted when it is written: also an increment that nobody came to name is one more to read, or to
 * sweep. */
void ps_increments_written(struct ps_increments *increments,
                           const struct ps_checkpoint_place *place)
{
    struct ps_save_base *candidate = increments->candidate;
    PS_ASSERT(candidate == NULL || increments->base == NULL);
    if (place == NULL) {
        ps_increments_forget(increments);
        return;
    }
    if (candidate != NULL)
        memcpy(candidate->path, place->path, sizeof candidate->path);
    else if (increments->base != NULL)
        increments->count++;
}

/* An increment leaves the base what it is. */
void ps_increments_published(struct ps_increments *increments, bool is_published)
{
    PS_ASSERT(increments->candidate == NULL || increments->base == NULL);
    if (!is_published) {
        ps_increments_forget(increments);
        return;
    }
    if (increments->candidate == NULL)
        return;
    PS_ASSERT(increments->candidate->path[0] != '\0');
    /* From here on the tables' keys are of this one: its marks are older than the file. */
    increments->base = increments->candidate;
    increments->candidate = NULL;
    increments->count = 0;
}
