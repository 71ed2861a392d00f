/* SPDX-License-Identifier: Apache-2.0 */
/* diff: which parameters two states do not share, and by how much they differ. Both states are
 * loaded whole, joined across shards when there are several, and walked in the order of names.
 * Values are compared as bits: the question is whether two states are the same state, and a
 * tolerance would have to be chosen by somebody who knows the model. How far they are apart is
 * shown beside it, so that rounding and damage can be told from each other. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/json_document.h"
#include "tools/psckpt/array_distance.h"
#include "tools/psckpt/candidate_shards.h"
#include "tools/psckpt/joined_state.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/state_sections.h"
#include "tools/psckpt/state_set.h"
#include "tools/psckpt/table_diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* As diff(1) and cmp(1) have it. */
#define EXIT_DIFFERENT 1

/* `count` is over all parameters; any difference makes the exit status 1. */
struct comparing {
    const struct psckpt *tool;
    struct json_document document;
    const struct state_set *sets; /* of A and B, and what was joined of them */
    struct shard_state *joined;
    size_t count;
};

static enum ps_status load_joined(const struct psckpt *tool, const char *path,
                                  struct state_set *set, struct shard_state *joined,
                                  struct ps_error *error);
static void say_held(const struct state_set sets[2], const struct shard_state joined[2]);
static enum ps_status compare_states(struct comparing *comparing, const struct shard_state *a,
                                     const struct shard_state *b, struct ps_error *error);
static void say_alone(struct comparing *comparing, const char *word,
                      const struct ps_checkpoint_parameter *row);
static enum ps_status compare_rows(struct comparing *comparing,
                                   const struct ps_checkpoint_parameter *a,
                                   const struct ps_checkpoint_parameter *b, struct ps_error *error);
static enum ps_status compare_tables(struct comparing *comparing,
                                     const struct ps_checkpoint_parameter *a,
                                     const struct ps_checkpoint_parameter *b,
                                     struct ps_error *error);
static enum ps_status compare_candidates(struct comparing *comparing,
                                         const struct ps_checkpoint_parameter *a,
                                         const struct ps_checkpoint_parameter *b,
                                         struct ps_error *error);
static void say_rows(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                     const struct ps_checkpoint_parameter *b, const char *part, const char *what,
                     const struct table_diff *rows);
static void begin_change(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                         const struct ps_checkpoint_parameter *b, const char *part);
static void say_changed(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                        const struct ps_checkpoint_parameter *b, const char *part,
                        const struct array_distance *distance);

/* The exit status is that of diff(1): 0 for equal, 1 for different, above that for trouble, so that
 * "psckpt diff a b && ..." does what a shell user expects. Both states are in memory at once; two
 * checkpoints of a large model need a machine for that. */
enum ps_status psckpt_diff(const struct psckpt *tool, struct ps_error *error)
{
    struct state_set sets[2] = {{0}};
    struct shard_state joined[2];
    struct comparing comparing = {.tool = tool, .sets = sets, .joined = joined};
    shard_state_init(&joined[0], tool->box.memory);
    shard_state_init(&joined[1], tool->box.memory);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < 2 && status == PS_OK; i++)
        status = load_joined(tool, tool->arguments[i], &sets[i], &joined[i], error);
    if (status == PS_OK)
        say_held(sets, joined);
    if (status == PS_OK) {
        json_document_init(&comparing.document);
        ps_json_begin_array(&comparing.document.json, NULL);
        status = compare_states(&comparing, &joined[0], &joined[1], error);
        ps_json_end_array(&comparing.document.json);
        /* A half of the differences is no answer. */
        if (tool->json && status == PS_OK)
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

/* Two states of which one has half a round more are equal by their values, and whoever compares
 * them has to know of it. */
static void say_held(const struct state_set sets[2], const struct shard_state joined[2])
{
    size_t held[2];
    for (size_t i = 0; i < 2; i++) {
        /* The state of a single shard has moved; what was joined of several has no sections. */
        held[i] = state_sections_held(&joined[i].facts);
        for (size_t j = 0; j < sets[i].count; j++)
            held[i] += state_sections_held(&sets[i].states[j].facts);
    }
    if (held[0] + held[1] > 0)
        (void)fprintf(stderr,
                      "psckpt: contributions to open rounds are not compared: A holds %zu, B %zu\n",
                      held[0], held[1]);
}

/* A whole data folder is compared as its clients see it, so that jobs of different numbers of
 * shards can be compared; a single file is compared as it is stored, ranges included. */
static enum ps_status load_joined(const struct psckpt *tool, const char *path,
                                  struct state_set *set, struct shard_state *joined,
                                  struct ps_error *error)
{
    size_t uneven = 0;
    PS_TRY(state_set_load(set, tool, path, RECOVERY_TO_END, error));
    if (set->count > 1) {
        PS_TRY(joined_state_make(set->states, set->count, joined, &uneven, error));
        return parameter_room_take_tables(joined, error);
    }
    /* The state moves: what is left behind is empty, so that releasing both frees it once. */
    *joined = set->states[0];
    shard_state_init(&set->states[0], tool->box.memory);
    return PS_OK;
}

/* A merge of two sorted lists: both states are sealed, that is, sorted by name and without a name
 * twice, so one pass finds every parameter that stands on one side only. The names of "added" and
 * "removed" are seen from A, as diff(1) does. Names that both have are compared in turn, so the
 * output is in the order of names. */
static enum ps_status compare_states(struct comparing *comparing, const struct shard_state *a,
                                     const struct shard_state *b, struct ps_error *error)
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
            PS_TRY(compare_rows(comparing, &a->parameters[i++], &b->parameters[j++], error));
    }
    return PS_OK;
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
static enum ps_status compare_rows(struct comparing *comparing,
                                   const struct ps_checkpoint_parameter *a,
                                   const struct ps_checkpoint_parameter *b, struct ps_error *error)
{
    static const struct array_distance none = {0};
    /* Two tables of one kind differ by rows, however many each has. A table and a parameter, or two
     * widths, have nothing that could be compared. */
    if (a->is_table && b->is_table && a->dtype == b->dtype && a->width == b->width)
        return compare_tables(comparing, a, b, error);
    bool same_counts = a->count == b->count && a->is_table == b->is_table && a->width == b->width;
    /* One each: a tensor that came back in another type has its shape. */
    if (a->dtype != b->dtype)
        say_changed(comparing, a, b, "type", &none);
    if (!same_counts || !ps_shape_equal(&a->shape, &b->shape))
        say_changed(comparing, a, b, "shape", &none);
    if (!same_counts || a->dtype != b->dtype)
        return PS_OK;
    struct array_distance values = array_distance_of(a->dtype, a->values, b->values);
    if (values.differs)
        say_changed(comparing, a, b, "values", &values);
    /* Optimizer states are compared only under the same configuration: those of two rules have
     * nothing in common, and even their number differs. */
    bool same_config = ps_bytes_equal(a->config, b->config) && a->state_count == b->state_count;
    if (!same_config)
        say_changed(comparing, a, b, "optimizer", &none);
    for (uint32_t i = 0; i < a->state_count && same_config; i++) {
        char part[24];
        struct array_distance state = array_distance_of(a->dtype, a->states[i], b->states[i]);
        (void)snprintf(part, sizeof part, "state %" PRIu32, i);
        if (state.differs)
            say_changed(comparing, a, b, part, &state);
    }
    if (!values.differs && (a->version != b->version || a->step != b->step))
        say_changed(comparing, a, b, "version", &none);
    return PS_OK;
}

/* Of an array behind the first. Keys of one side are told with that one, so that they do not count
 * twice. */
static void say_others(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                       const struct ps_checkpoint_parameter *b, const char *part, const char *what,
                       struct table_diff *other)
{
    other->added = other->removed = 0;
    other->first_key = other->first_changed;
    if (other->changed > 0)
        say_rows(comparing, a, b, part, what, other);
}

/* Rows by their keys. Keys that only one side has are told once, with the values. States and clock
 * have news of the others only; a clock differs where rows were pushed to without becoming
 * others. */
static enum ps_status compare_tables(struct comparing *comparing,
                                     const struct ps_checkpoint_parameter *a,
                                     const struct ps_checkpoint_parameter *b,
                                     struct ps_error *error)
{
    static const struct array_distance none = {0};
    size_t before = comparing->count;
    /* Row-wise or not is a matter of the configuration, too; compared apart, since the arrays must
     * be of one size. */
    bool same_config = ps_bytes_equal(a->config, b->config) && a->state_count == b->state_count &&
                       memcmp(a->state_is_one, b->state_is_one, sizeof a->state_is_one) == 0;
    /* First the keys and the values, which is what a trainer sees. */
    struct table_diff rows = table_diff_of(a, b, 0);
    if (rows.added + rows.removed + rows.changed > 0)
        say_rows(comparing, a, b, "rows", "rows", &rows);
    if (!same_config)
        say_changed(comparing, a, b, "optimizer", &none);
    uint32_t arrays = ps_array_count(a);
    for (uint32_t array = 1; array < arrays && same_config; array++) {
        char part[24] = "clock";
        struct table_diff other = table_diff_of(a, b, array);
        if (array <= a->state_count)
            (void)snprintf(part, sizeof part, "state %" PRIu32, array - 1);
        say_others(comparing, a, b, part, "rows", &other);
    }
    PS_TRY(compare_candidates(comparing, a, b, error));
    if (comparing->count == before && (a->version != b->version || a->step != b->step))
        say_changed(comparing, a, b, "version", &none);
    return PS_OK;
}

/* Keys that are counted until they get their row, as two tables whose values are the counts: where
 * those differ, rows of one state come later than those of the other, though all else may be
 * equal. */
static enum ps_status compare_candidates(struct comparing *comparing,
                                         const struct ps_checkpoint_parameter *a,
                                         const struct ps_checkpoint_parameter *b,
                                         struct ps_error *error)
{
    const struct ps_checkpoint_parameter *tables[2] = {a, b};
    struct ps_checkpoint_parameter counted[2];
    for (size_t i = 0; i < 2; i++)
        PS_TRY(candidate_shards_table(comparing->sets[i].states, comparing->sets[i].count,
                                      &comparing->joined[i], tables[i], &counted[i], error));
    /* Without any on either side, as of a table that makes its rows at once, nothing is said. */
    struct table_diff counts = table_diff_of(&counted[0], &counted[1], 0);
    if (counts.added + counts.removed + counts.changed > 0)
        say_rows(comparing, a, b, "candidates", "keys", &counts);
    struct table_diff clocks =
        table_diff_of(&counted[0], &counted[1], ps_array_of_keys(&counted[0]) + 1);
    say_others(comparing, a, b, "candidates clock", "keys", &clocks);
    return PS_OK;
}

/* The key in place of the element: it says the same in both files. */
static void say_rows(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                     const struct ps_checkpoint_parameter *b, const char *part, const char *what,
                     const struct table_diff *rows)
{
    const struct {
        const char *word;
        uint64_t count;
    } counts[] = {{"added", rows->added}, {"removed", rows->removed}, {"changed", rows->changed}};
    struct ps_json_writer *json = &comparing->document.json;
    begin_change(comparing, a, b, part);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s_%s", what, counts[i].word);
        ps_json_uint(json, name, counts[i].count);
    }
    ps_json_uint(json, "first_key", rows->first_key);
    if (rows->changed > 0)
        ps_json_real(json, "largest_difference", rows->distance.largest);
    ps_json_end_object(json);
    if (comparing->tool->json)
        return;
    (void)printf(", %" PRIu64 " %s added, %" PRIu64 " removed, %" PRIu64
                 " changed, first key %" PRIu64,
                 rows->added, what, rows->removed, rows->changed, rows->first_key);
    if (rows->changed > 0)
        (void)printf(", largest difference %g", rows->distance.largest);
    (void)puts("");
}

static void say_changed(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                        const struct ps_checkpoint_parameter *b, const char *part,
                        const struct array_distance *distance)
{
    struct ps_json_writer *json = &comparing->document.json;
    begin_change(comparing, a, b, part);
    if (distance->differs) {
        ps_json_uint(json, "first_element", distance->first);
        ps_json_real(json, "largest_difference", distance->largest);
    }
    ps_json_end_object(json);
    if (comparing->tool->json)
        return;
    if (distance->differs)
        (void)printf(", first at element %" PRIu64 ", largest difference %g", distance->first,
                     distance->largest);
    (void)puts("");
}

/* Versions of both sides stand in every message, because they usually explain the difference: the
 * state with the higher version had more pushes applied. The object and the line are begun from the
 * same arguments: the two forms cannot disagree. */
static void begin_change(struct comparing *comparing, const struct ps_checkpoint_parameter *a,
                         const struct ps_checkpoint_parameter *b, const char *part)
{
    struct ps_json_writer *json = &comparing->document.json;
    comparing->count++;
    ps_json_begin_object(json, NULL);
    json_text(json, "change", "changed");
    ps_json_text(json, "name", a->name);
    json_text(json, "part", part);
    ps_json_uint(json, "version_a", a->version);
    ps_json_uint(json, "version_b", b->version);
    if (comparing->tool->json)
        return;
    (void)printf("changed  ");
    (void)psckpt_print_text(a->name);
    (void)printf(": %s, version %" PRIu64 " and %" PRIu64, part, a->version, b->version);
}
