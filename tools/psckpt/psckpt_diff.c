/* SPDX-License-Identifier: Apache-2.0 */
/* diff: which parameters two states do not share, and by how much they differ. Both states are
 * loaded whole, joined across shards when there are several, and walked in the order of names.
 * Values are compared as bits: the question is whether two states are the same state, and a
 * tolerance would have to be chosen by somebody who knows the model. How far they are apart is
 * shown beside it, so that rounding and damage can be told from each other. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/json_document.h"
#include "tools/psckpt/joined_state.h"
#include "tools/psckpt/state_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* As diff(1) and cmp(1) have it. */
#define EXIT_DIFFERENT 1

/* How two arrays of one type and length differ. The index of the first element that differs is what
 * one looks for in a debugger. */
struct distance {
    bool differs;
    uint64_t first; /* element */
    double largest; /* NaN where one of two is none */
};

/* `count` is over all parameters; any difference makes the exit status 1. */
struct comparing {
    const struct psckpt *tool;
    struct json_document document;
    size_t count;
};

static enum ps_status load_joined(const struct psckpt *tool, const char *path,
                                  struct state_set *set, struct shard_state *joined,
                                  struct ps_error *error);
static void compare_states(struct comparing *comparing, const struct shard_state *a,
                           const struct shard_state *b);
static void say_alone(struct comparing *comparing, const char *word,
                      const struct ps_checkpoint_parameter *row);
static void compare_rows(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                         const struct ps_checkpoint_parameter *b);
static void say_changed(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                        const struct ps_checkpoint_parameter *b, const char *part,
                        const struct distance *distance);
static struct distance measure(enum ps_dtype dtype, struct ps_view a, struct ps_view b);

/* The exit status is that of diff(1): 0 for equal, 1 for different, above that for trouble, so that
 * "psckpt diff a b && ..." does what a shell user expects. Both states are in memory at once; two
 * checkpoints of a large model need a machine for that. */
enum ps_status psckpt_diff(const struct psckpt *tool, struct ps_error *error)
{
    struct comparing comparing = {.tool = tool};
    struct state_set sets[2] = {{0}};
    struct shard_state joined[2];
    shard_state_init(&joined[0], tool->box.memory);
    shard_state_init(&joined[1], tool->box.memory);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < 2 && status == PS_OK; i++)
        status = load_joined(tool, tool->arguments[i], &sets[i], &joined[i], error);
    if (status == PS_OK) {
        json_document_init(&comparing.document);
        ps_json_begin_array(&comparing.document.json, NULL);
        compare_states(&comparing, &joined[0], &joined[1]);
        ps_json_end_array(&comparing.document.json);
        if (tool->json)
            json_document_print(&comparing.document);
        json_document_fini(&comparing.document);
    }
    for (size_t i = 0; i < 2; i++) {
        shard_state_fini(&joined[i]);
        state_set_fini(&sets[i]);
    }
    *tool->code = comparing.count > 0 ? EXIT_DIFFERENT : 0;
    return status;
}

/* A whole data folder is compared as its clients see it, so that jobs of different numbers of
 * shards can be compared; a single file is compared as it is stored, ranges included. */
static enum ps_status load_joined(const struct psckpt *tool, const char *path,
                                  struct state_set *set, struct shard_state *joined,
                                  struct ps_error *error)
{
    size_t uneven = 0;
    PS_TRY(state_set_load(set, tool, path, RECOVERY_TO_END, error));
    if (set->count > 1)
        return joined_state_make(set->states, set->count, joined, &uneven, error);
    /* The state moves: what is left behind is empty, so that releasing both frees it once. */
    *joined = set->states[0];
    shard_state_init(&set->states[0], tool->box.memory);
    return PS_OK;
}

/* A merge of two sorted lists: both states are sealed, that is, sorted by name and without a name
 * twice, so one pass finds every parameter that stands on one side only. The names of "added" and
 * "removed" are seen from A, as diff(1) does. Names that both have are compared in turn, so the
 * output is in the order of names. */
static void compare_states(struct comparing *comparing, const struct shard_state *a,
                           const struct shard_state *b)
{
    size_t i = 0;
    size_t j = 0;
    while (i < a->count || j < b->count) {
        int order = i == a->count ? 1
                    : j == b->count
                        ? -1
                        : ps_bytes_compare(a->parameters[i].name, b->parameters[j].name);
        if (order < 0)
            say_alone(comparing, "removed", &a->parameters[i++]);
        else if (order > 0)
            say_alone(comparing, "added", &b->parameters[j++]);
        else
            compare_rows(comparing, &a->parameters[i++], &b->parameters[j++]);
    }
}

/* Every difference goes into the document and, without --output json, into a line; the count
 * decides the exit status in both forms. */
static void say_alone(struct comparing *comparing, const char *word,
                      const struct ps_checkpoint_parameter *row)
{
    struct ps_json_writer *json = &comparing->document.json;
    comparing->count++;
    ps_json_begin_object(json, NULL);
    json_text(json, "change", word);
    ps_json_text(json, "name", row->name);
    ps_json_end_object(json);
    if (comparing->tool->json)
        return;
    (void)printf("%-8s ", word);
    (void)psckpt_print_text(row->name);
    (void)puts("");
}

/* Of a parameter of another type or length nothing more can be compared; one of another shape has
 * its elements in the same order all the same. Versions are reported only when
 * the values are equal: after different values a different version is no news. */
static void compare_rows(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                         const struct ps_checkpoint_parameter *b)
{
    static const struct distance none = {0};
    bool same_arrays = a->dtype == b->dtype && a->count == b->count;
    if (!same_arrays || !ps_shape_equal(&a->shape, &b->shape))
        say_changed(comparing, a, b, "shape", &none);
    if (!same_arrays)
        return;
    struct distance values = measure(a->dtype, a->values, b->values);
    if (values.differs)
        say_changed(comparing, a, b, "values", &values);
    /* Optimizer states are compared only under the same configuration: those of two rules have
     * nothing in common, and even their number differs. */
    bool same_config = ps_bytes_equal(a->config, b->config) && a->state_count == b->state_count;
    if (!same_config)
        say_changed(comparing, a, b, "optimizer", &none);
    for (uint32_t i = 0; i < a->state_count && same_config; i++) {
        char part[24];
        struct distance state = measure(a->dtype, a->states[i], b->states[i]);
        (void)snprintf(part, sizeof part, "state %" PRIu32, i);
        if (state.differs)
            say_changed(comparing, a, b, part, &state);
    }
    if (!values.differs && (a->version != b->version || a->step != b->step))
        say_changed(comparing, a, b, "version", &none);
}

/* Versions of both sides stand in every message, because they usually explain the difference: the
 * state with the higher version had more pushes applied. First the object, then the line, both from
 * the same arguments: the two forms cannot disagree. */
static void say_changed(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                        const struct ps_checkpoint_parameter *b, const char *part,
                        const struct distance *distance)
{
    struct ps_json_writer *json = &comparing->document.json;
    comparing->count++;
    ps_json_begin_object(json, NULL);
    json_text(json, "change", "changed");
    ps_json_text(json, "name", a->name);
    json_text(json, "part", part);
    ps_json_uint(json, "version_a", a->version);
    ps_json_uint(json, "version_b", b->version);
    if (distance->differs) {
        ps_json_uint(json, "first_element", distance->first);
        ps_json_real(json, "largest_difference", distance->largest);
    }
    ps_json_end_object(json);
    if (comparing->tool->json)
        return;
    (void)printf("changed  ");
    (void)psckpt_print_text(a->name);
    (void)printf(": %s, version %" PRIu64 " and %" PRIu64, part, a->version, b->version);
    if (distance->differs)
        (void)printf(", first at element %" PRIu64 ", largest difference %g", distance->first,
                     distance->largest);
    (void)puts("");
}

/* Generated from the table of element types, so that a new type cannot be forgotten here. The bytes
 * are copied out, since a piece of a file need not be aligned for its type. Through double a 64-bit
 * integer above 2^53 loses its last bits: the figure is for people, while the verdict comes from
 * the bits. Of NaN and anything else the difference is NaN. */
static double difference_at(enum ps_dtype dtype, const uint8_t *a, const uint8_t *b)
{
#define DIFFERENCE(TAG, suffix, T, SUM, label)     \
    case TAG: {                                    \
        T left;                                    \
        T right;                                   \
        memcpy(&left, a, sizeof left);             \
        memcpy(&right, b, sizeof right);           \
        return fabs((double)left - (double)right); \
    }
    switch (dtype) {
        PS_DTYPE_TABLE(DIFFERENCE)
    case PS_DTYPE_COUNT:
        break;
    }
#undef DIFFERENCE
    return 0;
}

/* Equal runs are the common case and cost one memcmp. A NaN takes over the largest difference and
 * stays there, because any later comparison with NaN is false: an operator must see it. */
static void measure_run(enum ps_dtype dtype, const uint8_t *a, const uint8_t *b, size_t size,
                        uint64_t offset, struct distance *distance)
{
    size_t width = ps_dtype_size(dtype);
    if (memcmp(a, b, size) == 0)
        return;
    for (size_t at = 0; at < size; at += width) {
        if (memcmp(a + at, b + at, width) == 0)
            continue;
        if (!distance->differs)
            distance->first = (offset + at) / width;
        distance->differs = true;
        double now = difference_at(dtype, a + at, b + at);
        if (isnan(now) || now > distance->largest)
            distance->largest = now;
    }
}

/* Bits decide what differs: two NaNs of the same bits are equal, 0 and -0 are not. Pieces hold
 * whole elements: blocks, arrays, and ranges of them. Pieces of the two views may be cut at
 * different places (blocks of a live snapshot, ranges of several shards), so two cursors advance by
 * what both have. Lengths were compared before, so both views end together. */
static struct distance measure(enum ps_dtype dtype, struct ps_view a, struct ps_view b)
{
    struct distance distance = {0};
    struct ps_view_cursor cursors[2] = {{.view = a}, {.view = b}};
    struct ps_bytes runs[2] = {{0}};
    for (uint64_t at = 0; at < a.size;) {
        for (size_t i = 0; i < 2; i++)
            if (runs[i].size == 0)
                runs[i] = ps_view_next(&cursors[i], SIZE_MAX);
        size_t size = runs[0].size < runs[1].size ? runs[0].size : runs[1].size;
        measure_run(dtype, runs[0].data, runs[1].data, size, at, &distance);
        for (size_t i = 0; i < 2; i++) {
            runs[i].data += size;
            runs[i].size -= size;
        }
        at += size;
    }
    return distance;
}
