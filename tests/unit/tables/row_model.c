/* SPDX-License-Identifier: Apache-2.0 */
/* The model: everything by id, nothing found by hash. */
#include "tests/unit/tables/row_model.h"

#include "base/row_hash.h"
#include "optimizer/first_values.h"
#include "optimizer/row_wise.h"
#include "server/core/tables/row_stripes.h"

#include <stdlib.h>
#include <string.h>

/* Of the numbers below as many as the rule has a use for: the others have to be 0. */
bool row_model_settings(struct ps_optimizer_settings *settings, enum ps_rule rule,
                        enum ps_dtype dtype, uint32_t width)
{
    for (unsigned numbers = 64; numbers-- > 0;) {
        *settings =
            (struct ps_optimizer_settings){.rule = rule,
                                           .learning_rate.rate = (numbers & 1) != 0 ? 0.1 : 0,
                                           .rho = (numbers & 2) != 0 ? 0.9 : 0,
                                           .momentum = (numbers & 4) != 0 ? 0.9 : 0,
                                           .beta_1 = (numbers & 8) != 0 ? 0.9 : 0,
                                           .beta_2 = (numbers & 16) != 0 ? 0.999 : 0,
                                           .epsilon = (numbers & 32) != 0 ? 1e-8 : 0};
        settings->table.width = width;
        if (ps_optimizer_settings_check(settings, dtype, NULL) == PS_OK)
            return true;
    }
    return false;
}

#ifdef ROW_MODEL_DEVICE

/* The emulator, with a budget of so many bytes, for tables whose rows can live there. Opened once
 * in a process, and ended with it. */
static struct ps_row_device device_of(const struct ps_optimizer_settings *settings)
{
    extern ps_device_entry_fn ps_device_entry;
    static const struct ps_device_plugin *plugin;
    static struct ps_device *device;
    const struct ps_device_options options = {
        .memory_bytes = ROW_MODEL_DEVICE, .pinned_bytes = 512 << 10, .memory = ps_allocator_heap()};
    if (plugin == NULL) {
        plugin = ps_device_entry(PS_DEVICE_ABI);
        ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    }
    return (struct ps_row_device){
        .plugin = plugin, .device = device, .settings = settings, .name = "model"};
}

#else

static struct ps_row_device device_of(const struct ps_optimizer_settings *settings)
{
    (void)settings;
    return (struct ps_row_device){0};
}

#endif

void row_model_plan(struct row_model *model, enum ps_rule rule, enum ps_dtype dtype, uint32_t width,
                    uint32_t ids)
{
    memset(model, 0, sizeof *model);
    (void)row_model_settings(&model->settings, rule, dtype, width);
    model->options = (struct ps_row_table_options){
        .memory = ps_allocator_heap(),
        .layout = {.dtype = dtype, .width = width, .state_count = ps_rule_states(rule)},
        .settings = {.width = width},
        .repeats = ps_row_repeats_of(rule),
        .id = 77};
    for (uint32_t i = 0; i < ps_rule_states(rule); i++)
        model->options.layout.state_start[i] = ps_optimizer_state_start(&model->settings, i);
    model->options.device = device_of(&model->settings);
    if (ps_dtype_is_float(dtype)) {
        model->options.settings.init = PS_TABLE_UNIFORM;
        model->options.settings.low = -1;
        model->options.settings.high = 1;
        model->options.settings.seed = 5;
    }
    model->ids = ids;
    ps_random_init(&model->random, 11);
    model->keys = calloc(ids, sizeof *model->keys);
    for (uint32_t i = 0; i < ids; i++)
        model->keys[i] = ps_row_hash(i, 99);
}

void row_model_open(struct row_model *model, enum ps_rule rule, enum ps_dtype dtype, uint32_t width,
                    uint32_t ids)
{
    row_model_plan(model, rule, dtype, width, ids);
    row_model_begin(model);
}

static size_t state_bytes(const struct row_model *model, uint32_t state)
{
    size_t size = ps_dtype_size(model->options.layout.dtype);
    return model->options.layout.state_is_one[state] ? size : model->row_bytes;
}

static void fill_row(struct row_model *model, uint32_t id)
{
    const struct ps_row_layout *layout = &model->options.layout;
    ps_first_values(&model->options.settings, layout->dtype, model->keys[id], layout->width,
                    model->values + id * model->row_bytes);
    for (uint32_t i = 0; i < layout->state_count; i++)
        ps_optimizer_fill(layout->dtype, layout->state_start[i],
                          model->states[i] + id * state_bytes(model, i),
                          state_bytes(model, i) / ps_dtype_size(layout->dtype));
}

void row_model_begin(struct row_model *model)
{
    const struct ps_row_layout *layout = &model->options.layout;
    size_t ids = model->ids;
    model->row_bytes = layout->width * ps_dtype_size(layout->dtype);
    model->there = calloc(ids, sizeof *model->there);
    model->touched = calloc(ids, sizeof *model->touched);
    model->counts = calloc(ids, sizeof *model->counts);
    model->pushed = calloc(ids, sizeof *model->pushed);
    model->values = calloc(ids, model->row_bytes);
    model->sums = calloc(ids, model->row_bytes);
    for (uint32_t i = 0; i < layout->state_count; i++)
        model->states[i] = calloc(ids, model->row_bytes);
    for (uint32_t i = 0; i < ids; i++)
        fill_row(model, i);
    ck_assert_int_eq(ps_row_table_create(&model->options, &model->table, NULL), PS_OK);
}

void row_model_close(struct row_model *model)
{
    ps_row_table_destroy(model->table);
    free(model->keys);
    free(model->there);
    free(model->touched);
    free(model->counts);
    free(model->pushed);
    free(model->values);
    free(model->sums);
    for (uint32_t i = 0; i < PS_STATES_MAX; i++)
        free(model->states[i]);
}

static void random_element(struct row_model *model, uint8_t *to)
{
    int64_t whole = (int64_t)ps_random_below(&model->random, 2000) - 1000;
    switch (model->options.layout.dtype) {
#define ELEMENT(TAG, suffix, T, SUM, label)      \
    case TAG: {                                  \
        T element = (T)whole;                    \
        if (ps_dtype_is_float(TAG))              \
            element = (T)((double)whole / 1000); \
        memcpy(to, &element, sizeof element);    \
        return;                                  \
    }
        PS_DTYPE_TABLE(ELEMENT)
#undef ELEMENT
    case PS_DTYPE_COUNT:
        break;
    }
}

uint8_t *row_model_content(struct row_model *model, const uint32_t *ids, size_t count, size_t *size)
{
    size_t element = ps_dtype_size(model->options.layout.dtype);
    *size = count * (sizeof(uint64_t) + model->row_bytes);
    uint8_t *content = malloc(*size + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(content + i * 8, &model->keys[ids[i]], 8);
    for (size_t i = 0; i < count * model->row_bytes; i += element)
        random_element(model, content + count * 8 + i);
    return content;
}

enum ps_status row_table_push(struct ps_row_table *table, struct ps_bytes content,
                              const struct ps_optimizer_settings *settings, uint64_t version)
{
    struct ps_row_push *push;
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    PS_TRY(ps_row_push_read(table, ps_view_of(&content), &push, NULL));
    ps_row_push_scan(push, settings, &scan);
    enum ps_status status =
        ps_optimizer_prepare(settings, table->shape.layout.dtype, version, 77, &scan, &step, NULL);
    if (status == PS_OK)
        status = ps_row_push_prepare(push, UINT64_MAX, NULL);
    if (status == PS_OK)
        ps_row_push_apply(push, &step, version);
    ps_row_push_release(push);
    return status;
}

/* Counts a push to an id: has it a row, or gets it one? */
static bool is_admitted(struct row_model *model, uint32_t id)
{
    if (model->there[id] || ++model->counts[id] >= model->options.settings.admission) {
        model->counts[id] = 0;
        return true;
    }
    return false;
}

/* The gradients of each id joined, in the order of arrival; then the rule, id by id. */
static void push_to_model(struct row_model *model, const uint32_t *ids, size_t count,
                          const uint8_t *gradients)
{
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    ck_assert_int_eq(ps_optimizer_prepare(&model->settings, model->options.layout.dtype,
                                          model->version, 77, &scan, &step, NULL),
                     PS_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t *sum = model->sums + ids[i] * model->row_bytes;
        const uint8_t *gradient = gradients + i * model->row_bytes;
        if (model->pushed[ids[i]]++ == 0)
            memcpy(sum, gradient, model->row_bytes);
        else
            ps_row_repeat(model->options.repeats, model->options.layout.dtype,
                          model->options.layout.width, sum, gradient);
    }
    for (uint32_t id = 0; id < model->ids; id++) {
        if (model->pushed[id] == 0)
            continue;
        model->pushed[id] = 0;
        if (!is_admitted(model, id))
            continue;
        void *states[PS_STATES_MAX] = {NULL};
        for (uint32_t i = 0; i < model->options.layout.state_count; i++)
            states[i] = model->states[i] + id * state_bytes(model, i);
        if (model->settings.adagrad_row_wise)
            ps_optimizer_row_wise(&step, model->options.layout.width,
                                  model->values + id * model->row_bytes, states[0],
                                  model->sums + id * model->row_bytes);
        else
            ps_optimizer_apply(&step, 0, model->options.layout.width,
                               model->values + id * model->row_bytes, states,
                               model->sums + id * model->row_bytes);
        model->there[id] = true;
        model->touched[id] = model->version;
    }
}

void row_model_push(struct row_model *model, const uint32_t *ids, size_t count)
{
    size_t size;
    uint8_t *content = row_model_content(model, ids, count, &size);
    model->version++;
    struct ps_bytes bytes = {content, size};
    ck_assert_int_eq(row_table_push(model->table, bytes, &model->settings, model->version), PS_OK);
    push_to_model(model, ids, count, content + count * 8);
    free(content);
}

void row_model_push_random(struct row_model *model, size_t count, uint32_t below)
{
    uint32_t *ids = calloc(count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)ps_random_below(&model->random, below);
    row_model_push(model, ids, count);
    free(ids);
}

uint64_t row_model_rows(const struct row_model *model)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < model->ids; i++)
        rows += model->there[i] ? 1 : 0;
    return rows;
}

void row_model_compare(struct row_model *model)
{
    struct ps_bytes keys = {(const uint8_t *)model->keys, model->ids * sizeof *model->keys};
    uint8_t *rows = malloc(model->ids * model->row_bytes);
    ck_assert_int_eq(ps_row_table_get(model->table, ps_view_of(&keys), rows, NULL), PS_OK);
    for (uint32_t i = 0; i < model->ids; i++)
        if (memcmp(rows + i * model->row_bytes, model->values + i * model->row_bytes,
                   model->row_bytes) != 0)
            ck_abort_msg("the row of id %u is another one", i);
    ck_assert_uint_eq(ps_row_table_rows(model->table), row_model_rows(model));
    ps_row_table_check(model->table);
    free(rows);
}

static void *read_array(struct ps_row_hold *hold, uint32_t array)
{
    size_t size = ps_row_hold_rows(hold) * ps_row_hold_row_bytes(hold, array);
    uint8_t *bytes = malloc(size + 1);
    /* In pieces of an odd size, which end within rows. */
    for (size_t at = 0; at < size; at += 1013) {
        size_t some = size - at < 1013 ? size - at : 1013;
        ck_assert_int_eq(ps_row_hold_read(hold, array, at, bytes + at, some, NULL), PS_OK);
    }
    return bytes;
}

struct ps_row_table *row_model_loaded(struct row_model *model, struct ps_row_hold *hold)
{
    uint32_t states = model->options.layout.state_count;
    void *arrays[PS_ROW_ARRAYS_MAX] = {NULL};
    for (uint32_t i = 0; i < states + 3; i++)
        arrays[i] = read_array(hold, i);
    struct ps_row_table *loaded;
    ck_assert_int_eq(ps_row_table_create(&model->options, &loaded, NULL), PS_OK);
    /* In two pieces, the second half first. */
    size_t rows = ps_row_hold_rows(hold);
    ck_assert_int_eq(ps_row_table_expect(loaded, 0, model->version, NULL), PS_OK);
    for (size_t part = 2; part-- > 0;) {
        size_t first = part == 0 ? 0 : rows / 2;
        size_t some = part == 0 ? rows / 2 : rows - rows / 2;
        const void *from[PS_ROW_ARRAYS_MAX] = {NULL};
        for (uint32_t i = 0; i < states + 3; i++)
            from[i] = (char *)arrays[i] + first * ps_row_hold_row_bytes(hold, i);
        ck_assert_int_eq(ps_row_table_load(loaded, from[states + 1], from[states + 2], from[0],
                                           from + 1, some, NULL),
                         PS_OK);
    }
    for (uint32_t i = 0; i < states + 3; i++)
        free(arrays[i]);
    return loaded;
}

/* The inverse of x ^ x >> shift. */
static uint64_t unshift(uint64_t x, unsigned shift)
{
    uint64_t result = x;
    for (unsigned i = shift; i < 64; i += shift)
        result = x ^ (result >> shift);
    return result;
}

/* The inverse of an odd number, by Newton's iteration. */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

uint64_t row_unhash(uint64_t hash, uint64_t seed)
{
    uint64_t x = unshift(hash, 31) * inverse(0x94D049BB133111EBu);
    x = unshift(x ^ (seed << 32 | seed >> 32), 27) * inverse(0xBF58476D1CE4E5B9u);
    return unshift(x, 30) - seed * 0x9E3779B97F4A7C15u;
}

uint64_t row_seed(uint64_t id)
{
    struct ps_row_table *table;
    struct ps_row_table_options options = {.memory = ps_allocator_heap(),
                                           .layout = {.dtype = PS_F32, .width = 1},
                                           .settings = {.width = 1},
                                           .id = id};
    ck_assert_int_eq(ps_row_table_create(&options, &table, NULL), PS_OK);
    uint64_t seed = table->seed;
    ps_row_table_destroy(table);
    return seed;
}

uint64_t row_model_due(const struct ps_row_table *table, const struct ps_row_aside *aside)
{
    uint64_t words = aside->first_pages[PS_ROW_STRIPES] * table->shape.live_words;
    uint64_t due = 0;
    for (uint64_t i = 0; i < words; i++)
        due += (uint64_t)__builtin_popcountll(aside->due[i]);
    return due;
}
