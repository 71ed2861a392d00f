/* Reads each old array and writes the new one beside it, a run of the range at a time. */
#include "server/core/update/ahead.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "optimizer/optimizer.h"
#include "server/core/update/gradient_check.h"

#include <string.h>

/* Elements that are looked at and then applied: in the first-level cache for the second reading. */
enum { RUN_ELEMENTS = 2048 };

struct ps_ahead {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_parameter *parameter;    /* borrowed; not by release */
    struct ps_parameter_version base;  /* held: the version that is read */
    struct ps_optimizer_step step;
    size_t array_count;
    const struct ps_blocks *from[PS_ARRAYS_MAX]; /* of the base */
    struct ps_mutex lock;                        /* PS_RANK_QUEUE; for who makes `to` */
    struct ps_blocks *to[PS_ARRAYS_MAX];         /* NULL after the commit */
    bool committed;
};

static bool is_offered(const struct ps_parameter *parameter);
static bool rests(struct ps_parameter *parameter);
static enum ps_status take_blocks(struct ps_ahead *ahead);
static bool make_blocks(struct ps_ahead *ahead);
static void apply_run(struct ps_ahead *ahead, uint64_t first, struct ps_element_run run);
static void swap(struct ps_ahead *ahead, struct ps_blocks *replaced[PS_ARRAYS_MAX]);
static void let_go(struct ps_ahead *ahead, struct ps_blocks *replaced[PS_ARRAYS_MAX]);

struct ps_ahead *ps_ahead_begin(struct ps_parameter *parameter)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    const struct ps_gradient_scan nothing_found = {0};
    if (!is_offered(parameter) || rests(parameter))
        return NULL;
    struct ps_ahead *ahead = ps_zeroed(spec->memory, sizeof *ahead);
    if (ahead == NULL)
        return NULL;
    ahead->memory = spec->memory;
    ahead->parameter = parameter;
    ps_mutex_init(&ahead->lock, PS_RANK_QUEUE);
    if (ps_parameter_hold(parameter, &ahead->base, NULL) != PS_OK ||
        ps_optimizer_prepare(&spec->settings, spec->dtype, ahead->base.step + 1, spec->id,
                             &nothing_found, &ahead->step, NULL) != PS_OK) {
        ps_ahead_release(ahead);
        return NULL;
    }
    ahead->array_count = 1 + ps_parameter_state_count(parameter);
    ahead->from[0] = ahead->base.values;
    for (size_t i = 1; i < ahead->array_count; i++)
        ahead->from[i] = ahead->base.states[i - 1];
    return ahead;
}

static bool is_offered(const struct ps_parameter *parameter)
{
    const struct ps_optimizer_settings *settings = &parameter->spec->settings;
    bool can_overflow = settings->rule == PS_RULE_ADD && settings->overflow == PS_OVERFLOW_FAIL;
    return !ps_parameter_on_device(parameter) && settings->clip_norm == 0 && !can_overflow;
}

/* One that is being updated has a newer version soon. */
static bool rests(struct ps_parameter *parameter)
{
    uint32_t rest = atomic_load(&parameter->ahead_rest);
    while (rest > 0 && !atomic_compare_exchange_weak(&parameter->ahead_rest, &rest, rest - 1))
        ;
    return rest > 0 || atomic_load(&parameter->updating) > 0;
}

void ps_ahead_release(struct ps_ahead *ahead)
{
    if (ahead == NULL)
        return;
    for (size_t i = 0; i < ahead->array_count; i++)
        ps_blocks_release(ahead->to[i]);
    ps_mutex_fini(&ahead->lock);
    ps_parameter_version_release(&ahead->base);
    ps_release(ahead->memory, ahead);
}

const struct ps_parameter_spec *ps_ahead_spec(const struct ps_ahead *ahead)
{
    return ahead->base.spec;
}

uint64_t ps_ahead_bytes(const struct ps_ahead *ahead)
{
    return ahead->array_count * (uint64_t)ps_parameter_spec_bytes(ahead->base.spec);
}

enum ps_status ps_ahead_apply(struct ps_ahead *ahead, struct ps_elements range,
                              struct ps_gradient gradient)
{
    const struct ps_parameter_spec *spec = ahead->base.spec;
    struct ps_gradient_scan scan = {0};
    struct ps_gradient_runs runs;
    enum ps_status status = take_blocks(ahead);
    PS_ASSERT(!ahead->committed && gradient.encoding != PS_ENCODING_TOP_K);
    PS_ASSERT(gradient.content.size ==
              ps_encoding_bytes(gradient.encoding, spec->dtype, range.count));
    PS_ASSERT(range.first <= spec->count && range.count <= spec->count - range.first);
    bool is_finite = ps_gradient_is_plainly_finite(gradient, range.count);
    ps_gradient_runs_init(&runs, gradient, spec->dtype, range.count);
    uint64_t at = range.first;
    while (status == PS_OK) {
        struct ps_element_run run = ps_gradient_runs_next(&runs, RUN_ELEMENTS);
        if (run.count == 0)
            return PS_OK;
        if (!is_finite)
            ps_optimizer_scan(&spec->settings, spec->dtype, run.elements, run.count, &scan);
        if (scan.nonfinite)
            status = PS_ERR_BAD_INPUT;
        else
            apply_run(ahead, at, run);
        at += run.count;
    }
    atomic_store(&ahead->parameter->ahead_rest, PS_AHEAD_REST);
    return status;
}

struct ps_blocks *ps_ahead_made(const struct ps_ahead *ahead, uint64_t *version)
{
    PS_ASSERT(!ahead->committed && ahead->to[0] != NULL);
    *version = ahead->base.version + 1;
    return ps_blocks_acquire(ahead->to[0]);
}

/* Whoever comes first takes them for all. */
static enum ps_status take_blocks(struct ps_ahead *ahead)
{
    ps_mutex_lock(&ahead->lock);
    bool there = ahead->to[0] != NULL || make_blocks(ahead);
    ps_mutex_unlock(&ahead->lock);
    return there ? PS_OK : PS_ERR_NO_MEMORY;
}

static bool make_blocks(struct ps_ahead *ahead)
{
    struct ps_blocks *made[PS_ARRAYS_MAX] = {NULL};
    for (size_t i = 0; i < ahead->array_count; i++) {
        made[i] = ps_blocks_create(ahead->base.spec);
        if (made[i] == NULL) {
            while (i-- > 0)
                ps_blocks_release(made[i]);
            return false;
        }
        for (size_t block = 0; block < made[i]->block_count; block++)
            (void)ps_blocks_write(made[i], block, ahead->base.version + 1);
    }
    memcpy(ahead->to, made, sizeof made);
    return true;
}

static void apply_run(struct ps_ahead *ahead, uint64_t first, struct ps_element_run run)
{
    const size_t element_size = ps_dtype_size(ahead->base.spec->dtype);
    const uint64_t block_elements = PS_BLOCK_BYTES / element_size;
    for (size_t done = 0; done < run.count;) {
        size_t block = (size_t)((first + done) / block_elements);
        size_t offset = (size_t)((first + done) % block_elements);
        size_t rest = (size_t)block_elements - offset;
        size_t count = rest < run.count - done ? rest : run.count - done;
        struct ps_optimizer_arrays at = {0};
        for (size_t i = 0; i < ahead->array_count; i++) {
            at.from[i] = ahead->from[i]->pieces[block].data + offset * element_size;
            at.to[i] = (uint8_t *)ps_blocks_part(ahead->to[i], block) + offset * element_size;
        }
        ps_optimizer_apply_to(&ahead->step, first + done, count, &at,
                              (const uint8_t *)run.elements + done * element_size);
        done += count;
    }
}

enum ps_status ps_ahead_commit(struct ps_ahead *ahead, struct ps_journal_place *place,
                               uint64_t *version, struct ps_error *error)
{
    struct ps_parameter *parameter = ahead->parameter;
    const uint64_t next = ahead->base.version + 1;
    struct ps_blocks *replaced[PS_ARRAYS_MAX] = {NULL};
    enum ps_status status = PS_OK;
    PS_ASSERT(!ahead->committed && ahead->to[0] != NULL);
    ps_mutex_lock(&parameter->lock);
    if (parameter->version != ahead->base.version)
        status = ps_fail(error, PS_ERR_CONFLICT, "Name: %s, another push came first",
                         (const char *)parameter->spec->name.data);
    else if (place != NULL)
        status = ps_journal_queue_put(place, next, error);
    if (status == PS_OK) {
        swap(ahead, replaced);
        parameter->step++;
        parameter->version = next;
        *version = next;
    }
    ps_mutex_unlock(&parameter->lock);
    if (status == PS_ERR_CONFLICT)
        atomic_store(&parameter->ahead_rest, PS_AHEAD_REST);
    if (status == PS_OK)
        let_go(ahead, replaced);
    return status;
}

static void swap(struct ps_ahead *ahead, struct ps_blocks *replaced[PS_ARRAYS_MAX])
{
    struct ps_parameter *parameter = ahead->parameter;
    for (size_t i = 0; i < ahead->array_count; i++) {
        struct ps_blocks **array = i == 0 ? &parameter->values : &parameter->states[i - 1];
        PS_ASSERT(*array == ahead->from[i]);
        replaced[i] = *array;
        *array = ahead->to[i];
        ahead->to[i] = NULL;
    }
    ahead->committed = true;
}

/* Of the old version nothing more is needed, and its memory is: whoever keeps the attempt for its
 * ranges waits for the disk. */
static void let_go(struct ps_ahead *ahead, struct ps_blocks *replaced[PS_ARRAYS_MAX])
{
    for (size_t i = 0; i < ahead->array_count; i++) {
        ahead->from[i] = NULL;
        ps_blocks_release(replaced[i]);
    }
    ps_blocks_release(ahead->base.values);
    ahead->base.values = NULL;
    for (size_t i = 0; i < PS_STATES_MAX; i++) {
        ps_blocks_release(ahead->base.states[i]);
        ahead->base.states[i] = NULL;
    }
}
