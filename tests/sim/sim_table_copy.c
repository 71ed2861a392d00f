/* SPDX-License-Identifier: Apache-2.0 */
/* A row of a table, step by step. A sum, difference or product of two floats that is made in double
 * and rounded once is what float makes of it, so that one arithmetic serves all types. */
#include "tests/sim/sim_table_copy.h"

#include "base/assert.h"
#include "server/core/tables/row_evict.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

#include <math.h>
#include <string.h>

static double rounded(enum ps_dtype dtype, double number)
{
    return dtype == PS_F32 ? (double)(float)number : number;
}

static double read_number(enum ps_dtype dtype, const uint8_t *from)
{
    float small;
    double large;
    int64_t whole;
    PS_ASSERT(dtype == PS_F32 || dtype == PS_F64 || dtype == PS_I64);
    switch (dtype) {
    case PS_F32:
        memcpy(&small, from, sizeof small);
        return (double)small;
    case PS_F64:
        memcpy(&large, from, sizeof large);
        return large;
    default:
        memcpy(&whole, from, sizeof whole);
        return (double)whole;
    }
}

static void write_numbers(const struct sim_table *about, const double *numbers, uint32_t count,
                          uint8_t *to)
{
    for (uint32_t i = 0; i < count; i++) {
        const float small = (float)numbers[i];
        const int64_t whole = (int64_t)numbers[i];
        if (about->dtype == PS_F32)
            memcpy(to + i * sizeof small, &small, sizeof small);
        else if (about->dtype == PS_F64)
            memcpy(to + i * sizeof numbers[i], &numbers[i], sizeof numbers[i]);
        else
            memcpy(to + i * sizeof whole, &whole, sizeof whole);
    }
}

void sim_row_push_read(const struct sim_table *about, struct ps_bytes content,
                       struct sim_row_push *push)
{
    size_t row_bytes = sim_table_row_bytes(about);
    size_t element_size = ps_dtype_size(about->dtype);
    push->count = content.size / (sizeof(uint64_t) + row_bytes);
    PS_ASSERT(push->count <= SIM_TABLE_BATCH_MAX);
    PS_ASSERT(content.size == push->count * (sizeof(uint64_t) + row_bytes));
    const uint8_t *row = content.data + push->count * sizeof(uint64_t);
    for (size_t i = 0; i < push->count; i++, row += row_bytes) {
        uint64_t key;
        memcpy(&key, content.data + i * sizeof key, sizeof key);
        push->keys[i] = sim_table_key_number(key);
        PS_ASSERT(push->keys[i] < SIM_TABLE_KEYS);
        for (uint32_t k = 0; k < about->width; k++)
            push->gradients[i][k] = read_number(about->dtype, row + k * element_size);
    }
}

static void make_row(const struct sim_table_copy *copy, uint32_t key, struct sim_row *row)
{
    const struct sim_table *about = copy->about;
    *row = (struct sim_row){.is_there = true};
    sim_first_values(&about->first[copy->variant], sim_table_key(key), about->width, row->values);
    for (uint32_t k = 0; k < about->width; k++)
        row->values[k] = rounded(about->dtype, row->values[k]);
}

/* What the rule makes of a gradient that follows another one: most rules see the sum. */
static double joined(const struct sim_table *about, double one, double next)
{
    switch (about->rule) {
    case SIM_TABLE_ASSIGN:
        return next;
    case SIM_TABLE_MAX:
        return next > one ? next : one;
    case SIM_TABLE_MIN:
        return next < one ? next : one;
    default:
        return rounded(about->dtype, one + next);
    }
}

/* A gradient of -0 becomes 0 on its way through the rule, where nothing is added to it. */
static void step(const struct sim_table *about, struct sim_row *row, uint32_t k, double gradient)
{
    enum ps_dtype dtype = about->dtype;
    double *value = &row->values[k];
    double share = rounded(dtype, SIM_TABLE_RATE * (gradient + 0.0)) + 0.0;
    if (about->rule == SIM_TABLE_ADD) {
        *value += gradient;
    } else if (about->rule >= SIM_TABLE_ASSIGN) {
        *value = joined(about, *value, gradient);
    } else if (about->rule == SIM_TABLE_SGD) {
        *value = rounded(dtype, *value - share);
    } else {
        row->states[k] =
            rounded(dtype, rounded(dtype, SIM_TABLE_MOMENTUM_FACTOR * row->states[k]) - share);
        *value = rounded(dtype, *value + row->states[k]);
    }
}

/* One accumulator for the row, of the mean of the squares. The gradients are whole numbers, so that
 * the squares are summed exactly, in any order. */
static void step_row_wise(const struct sim_table *about, struct sim_row *row,
                          const double *gradients)
{
    enum ps_dtype dtype = about->dtype;
    double squares = 0.0;
    for (uint32_t k = 0; k < about->width; k++)
        squares += gradients[k] * gradients[k];
    double mean = rounded(dtype, squares / about->width);
    row->states[0] = rounded(dtype, row->states[0] + mean);
    double epsilon = rounded(dtype, SIM_TABLE_EPSILON);
    double root = rounded(dtype, sqrt(rounded(dtype, row->states[0] + epsilon)));
    for (uint32_t k = 0; k < about->width; k++) {
        double share = SIM_TABLE_RATE * rounded(dtype, (gradients[k] + 0.0) / root) + 0.0;
        row->values[k] = rounded(dtype, row->values[k] - share);
    }
}

static void step_all(const struct sim_table *about, struct sim_row *row, const double *gradients)
{
    if (about->rule == SIM_TABLE_ROW_WISE) {
        step_row_wise(about, row, gradients);
        return;
    }
    for (uint32_t k = 0; k < about->width; k++)
        step(about, row, k, gradients[k]);
}

/* What a push is to the row limit. */
struct demand {
    bool is_pushed[SIM_TABLE_KEYS];
    uint64_t made;   /* rows that it makes */
    uint64_t pushed; /* rows that are there already */
};

/* Is there a row of the key behind the next push to it? */
static bool has_row_then(const struct sim_table_copy *copy, uint32_t key)
{
    const struct sim_row *row = &copy->rows[key];
    return row->is_there || row->counted + 1 >= copy->about->admission;
}

static void add_demand(const struct sim_table_copy *copy, const struct sim_row_push *push,
                       struct demand *demand)
{
    for (size_t i = 0; i < push->count; i++) {
        uint32_t key = push->keys[i];
        if (!demand->is_pushed[key] && copy->rows[key].is_there)
            demand->pushed++;
        else if (!demand->is_pushed[key] && has_row_then(copy, key))
            demand->made++;
        demand->is_pushed[key] = true;
    }
}

/* Of everything that the open round has. */
static struct demand demand_of_held(const struct sim_table_copy *copy)
{
    struct demand demand = {.made = 0};
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct sim_row_push push;
        if (!copy->held[i].is_there)
            continue;
        sim_row_push_read(copy->about, copy->held[i].content, &push);
        add_demand(copy, &push, &demand);
    }
    return demand;
}

bool sim_table_copy_is_full(const struct sim_table_copy *copy, struct ps_bytes content)
{
    struct sim_row_push push;
    struct demand demand = demand_of_held(copy);
    sim_row_push_read(copy->about, content, &push);
    add_demand(copy, &push, &demand);
    uint64_t rows = copy->about->oldest_go ? demand.pushed : sim_table_copy_count(copy);
    return copy->rows_max > 0 && push.count > 0 && demand.made > 0 &&
           rows + demand.made > copy->rows_max;
}

static bool is_older(uint32_t a, uint32_t b, const struct sim_row *rows)
{
    if (rows[a].touched != rows[b].touched)
        return rows[a].touched < rows[b].touched;
    return sim_table_key(a) < sim_table_key(b);
}

static void let_oldest_go(struct sim_table_copy *copy, const struct demand *demand)
{
    uint32_t oldest = SIM_TABLE_KEYS;
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        bool may_go = copy->rows[i].is_there && !demand->is_pushed[i];
        if (may_go && (oldest == SIM_TABLE_KEYS || is_older(i, oldest, copy->rows)))
            oldest = i;
    }
    PS_ASSERT(oldest < SIM_TABLE_KEYS);
    copy->rows[oldest].is_there = false;
}

/* As row_evict.h has it for tables as small as these: where there would be too many, so many of
 * the oldest go that a sixteenth of the limit is free, but no row of the push. Above a limit that
 * was lowered a push lets some more go than it makes, and the next ones the others. */
static void make_room(struct sim_table_copy *copy, const struct demand *demand)
{
    uint64_t most = copy->rows_max;
    uint64_t rows = sim_table_copy_count(copy);
    uint64_t others = rows - demand->pushed;
    if (!copy->about->oldest_go || demand->made == 0 || rows + demand->made <= most)
        return;
    uint64_t wanted = rows + demand->made - (most - most / 16);
    if (rows > most && wanted > demand->made + PS_ROW_EVICT_MORE)
        wanted = demand->made + PS_ROW_EVICT_MORE;
    for (uint64_t i = 0; i < wanted && i < others; i++)
        let_oldest_go(copy, demand);
}

/* One gradient for each key. */
struct summed {
    bool is_named[SIM_TABLE_KEYS];
    double gradients[SIM_TABLE_KEYS][SIM_TABLE_WIDTH_MAX];
};

static void add_gradient(const struct sim_table *about, struct summed *sums, uint32_t key,
                         const double *gradient, double weight)
{
    for (uint32_t k = 0; k < about->width; k++) {
        double product = rounded(about->dtype, weight * gradient[k]);
        sums->gradients[key][k] =
            sums->is_named[key] ? joined(about, sums->gradients[key][k], product) : product;
    }
    sums->is_named[key] = true;
}

static void sum_push(const struct sim_table *about, const struct sim_row_push *push,
                     struct summed *sums)
{
    *sums = (struct summed){0};
    for (size_t i = 0; i < push->count; i++)
        add_gradient(about, sums, push->keys[i], push->gradients[i], 1);
}

/* The gradients of one key are one, and the rule sees that. */
static void apply_sums(struct sim_table_copy *copy, const struct summed *sums, struct sim_when now)
{
    copy->version++;
    for (uint32_t key = 0; key < SIM_TABLE_KEYS; key++) {
        struct sim_row *row = &copy->rows[key];
        if (!sums->is_named[key])
            continue;
        if (!has_row_then(copy, key)) {
            row->counted++;
            row->counted_at = copy->version;
            continue;
        }
        if (!row->is_there) {
            make_row(copy, key, row);
            row->made = copy->version;
        }
        row->touched = copy->version;
        row->pushed = now;
        step_all(copy->about, row, sums->gradients[key]);
    }
}

void sim_table_copy_push(struct sim_table_copy *copy, struct ps_bytes content, struct sim_when now)
{
    struct sim_row_push push;
    struct summed sums;
    struct demand demand = {.made = 0};
    sim_row_push_read(copy->about, content, &push);
    add_demand(copy, &push, &demand);
    make_room(copy, &demand);
    sum_push(copy->about, &push, &sums);
    apply_sums(copy, &sums, now);
}

uint32_t sim_table_copy_there(const struct sim_table_copy *copy)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++)
        count += copy->held[i].is_there ? 1 : 0;
    return count;
}

uint32_t sim_table_copy_needed(const struct sim_table_copy *copy)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < copy->workers; i++)
        alive += (copy->evicted >> i & 1) == 0 ? 1 : 0;
    return copy->quorum > 0 && copy->quorum < alive ? copy->quorum : alive;
}

/* Another number of workers are others, and all of them are waited for. */
static void change_workers(struct sim_table_copy *copy, uint32_t workers)
{
    if (workers == copy->workers)
        return;
    PS_ASSERT(sim_table_copy_there(copy) == 0);
    copy->workers = workers;
    copy->evicted = 0;
}

void sim_table_copy_change(struct sim_table_copy *copy, enum sim_setting setting, uint64_t value)
{
    if (setting == SIM_CHANGES_LIMIT)
        copy->rows_max = value;
    else if (setting == SIM_CHANGES_GRACE)
        copy->grace_ms = value;
    else if (setting == SIM_CHANGES_QUORUM)
        copy->quorum = (uint32_t)value;
    else if (setting == SIM_CHANGES_COMBINE)
        copy->combine = (int)value;
    else if (setting == SIM_CHANGES_LATE)
        copy->late_is_next = value != 0;
    else
        change_workers(copy, (uint32_t)value);
    copy->is_new_rule |= setting == SIM_CHANGES_QUORUM;
}

uint64_t sim_table_copy_first_ms(const struct sim_table_copy *copy)
{
    uint64_t first_ms = UINT64_MAX;
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++)
        if (copy->held[i].is_there && copy->held[i].at.ms < first_ms)
            first_ms = copy->held[i].at.ms;
    return first_ms;
}

void sim_table_copy_hold(struct sim_table_copy *copy, uint32_t worker,
                         const struct sim_table_held *held)
{
    PS_ASSERT(!copy->held[worker].is_there);
    copy->held[worker] = *held;
    copy->held[worker].is_there = true;
    copy->evicted &= ~(1U << worker);
    copy->is_new_rule = false;
}

/* Of a round that ends now. */
static uint32_t evicted_by_end(const struct sim_table_copy *copy)
{
    uint32_t missing = 0;
    if (sim_table_copy_there(copy) >= sim_table_copy_needed(copy))
        return copy->evicted;
    for (uint32_t i = 0; i < copy->workers; i++)
        missing |= copy->held[i].is_there ? 0 : 1U << i;
    return missing;
}

/* Each worker's own sums, those of the workers in the order of ranks, and all of it divided: also
 * by those who do not have the key. */
void sim_table_copy_end_round(struct sim_table_copy *copy)
{
    const struct sim_table *about = copy->about;
    struct summed all = {0};
    /* Of values that no sum is made of none is weighted, and none divided. */
    int combine = about->rule < SIM_TABLE_ASSIGN ? copy->combine : SIM_COMBINE_SUM;
    double weights = 0;
    struct sim_when last = {0};
    const struct demand demand = demand_of_held(copy);
    copy->evicted = evicted_by_end(copy);
    copy->made_at = copy->held_at;
    make_room(copy, &demand);
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        struct sim_table_held *held = &copy->held[i];
        double weight = combine == SIM_COMBINE_WEIGHTED ? held->weight : 1;
        struct sim_row_push push;
        struct summed own;
        if (!held->is_there)
            continue;
        sim_row_push_read(about, held->content, &push);
        sum_push(about, &push, &own);
        for (uint32_t key = 0; key < SIM_TABLE_KEYS; key++)
            if (own.is_named[key])
                add_gradient(about, &all, key, own.gradients[key], weight);
        weights = rounded(about->dtype, weights + weight);
        last.ms = held->at.ms > last.ms ? held->at.ms : last.ms;
        last.served_ms = held->at.served_ms > last.served_ms ? held->at.served_ms : last.served_ms;
        last.starts = held->at.starts > last.starts ? held->at.starts : last.starts;
        /* Clocks of which some were removed between begin at 0 again. */
        if (held->at.since > last.since)
            last.clock = 0, last.since = held->at.since;
        if (held->at.since == last.since && held->at.clock > last.clock)
            last.clock = held->at.clock;
        held->is_there = false;
    }
    for (uint32_t key = 0; key < SIM_TABLE_KEYS && combine != SIM_COMBINE_SUM; key++)
        for (uint32_t k = 0; k < about->width; k++)
            all.gradients[key][k] = rounded(about->dtype, all.gradients[key][k] / weights);
    apply_sums(copy, &all, last);
}

void sim_table_copy_expire(struct sim_table_copy *copy, const uint8_t gone[SIM_TABLE_KEYS])
{
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        if (gone[i] == SIM_GONE_ROW)
            copy->rows[i].is_there = false;
        if (gone[i] == SIM_GONE_COUNT)
            copy->rows[i].counted = 0;
    }
}

uint64_t sim_table_copy_count(const struct sim_table_copy *copy)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++)
        count += copy->rows[i].is_there;
    return count;
}

void sim_table_copy_values(const struct sim_table_copy *copy, uint32_t key,
                           uint8_t to[SIM_TABLE_WIDTH_MAX * 8])
{
    struct sim_row first;
    make_row(copy, key, &first);
    const struct sim_row *row = copy->rows[key].is_there ? &copy->rows[key] : &first;
    write_numbers(copy->about, row->values, copy->about->width, to);
}

void sim_table_copy_states(const struct sim_table_copy *copy, uint32_t key,
                           uint8_t to[SIM_TABLE_WIDTH_MAX * 8])
{
    size_t count = sim_table_state_bytes(copy->about) / ps_dtype_size(copy->about->dtype);
    write_numbers(copy->about, copy->rows[key].states, (uint32_t)count, to);
}
