/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over a gradient that come before its update. They are there for one promise: a push
 * that is refused has changed nothing, so whatever may refuse it is looked for before the first
 * element is written. Each is left out where something else tells the same sooner: a rule that
 * accepts every element, an encoding in which a few bytes speak for many. */
#include "server/core/update/gradient_check.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/update/spread.h"

#include <inttypes.h>
#include <string.h>

static enum ps_status check_content(const struct ps_parameter_spec *spec,
                                    struct ps_gradient gradient, struct ps_elements range,
                                    bool *touched, struct ps_error *error);
static enum ps_status check_scales(struct ps_view content, struct ps_elements range,
                                   struct ps_error *error);
static enum ps_status check_indices(const struct ps_parameter_spec *spec, struct ps_view content,
                                    struct ps_elements range, bool *touched,
                                    struct ps_error *error);
static bool is_asked(const struct ps_parameter_spec *spec, struct ps_gradient gradient);
static bool scales_are_small(struct ps_view content, uint64_t groups);
static void scan_elements(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                          struct ps_gradient_scan *scan);
static bool scan_together(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                          struct ps_gradient_scan *scan);
static void scan_part(const struct ps_parameter_spec *spec, struct ps_gradient_runs *runs,
                      uint64_t count, struct ps_gradient_scan *scan);
static void scan_values(const struct ps_parameter_spec *spec, struct ps_view content,
                        struct ps_gradient_scan *scan);

enum ps_status ps_gradient_check(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                                 bool *touched, struct ps_error *error)
{
    const struct ps_elements all = {0, spec->count};
    PS_ASSERT(touched == NULL || gradient.encoding == PS_ENCODING_TOP_K);
    return check_content(spec, gradient, all, touched, error);
}

/* The name is put before the reason here and not by the caller: ranges come without a parameter's
 * lock, and the text is the one that a whole push gives. */
enum ps_status ps_gradient_check_range(const struct ps_parameter_spec *spec,
                                       struct ps_gradient gradient, struct ps_elements range,
                                       struct ps_error *error)
{
    struct ps_error reason;
    PS_ASSERT(range.first <= spec->count && range.count <= spec->count - range.first);
    enum ps_status status = check_content(spec, gradient, range, NULL, &reason);
    return status == PS_OK ? PS_OK
                           : ps_fail(error, status, "Name: %s, %.180s",
                                     (const char *)spec->name.data, reason.text);
}

/* Two encodings can say what no gradient can be; the others are numbers, whatever the bits. */
static enum ps_status check_content(const struct ps_parameter_spec *spec,
                                    struct ps_gradient gradient, struct ps_elements range,
                                    bool *touched, struct ps_error *error)
{
    if (gradient.encoding == PS_ENCODING_INT8)
        return check_scales(gradient.content, range, error);
    if (gradient.encoding == PS_ENCODING_TOP_K)
        return check_indices(spec, gradient.content, range, touched, error);
    return PS_OK;
}

/* An infinite scale would make infinite elements of a whole group. Groups are counted from the
 * parameter's first element, so that a range names the group that a whole push would name. */
static enum ps_status check_scales(struct ps_view content, struct ps_elements range,
                                   struct ps_error *error)
{
    float scales[PS_GRADIENT_PAIRS];
    struct ps_view_cursor cursor = {.view = content};
    uint64_t groups = ps_encoding_groups(range.count);
    uint64_t groups_before = range.first / PS_ENCODING_GROUP;
    PS_ASSERT(range.first % PS_ENCODING_GROUP == 0);
    PS_ASSERT(content.size >= groups * sizeof scales[0]);
    for (uint64_t first = 0; first < groups; first += PS_GRADIENT_PAIRS) {
        uint64_t rest = groups - first;
        size_t count = rest < PS_GRADIENT_PAIRS ? (size_t)rest : PS_GRADIENT_PAIRS;
        ps_view_read(&cursor, scales, count * sizeof scales[0]);
        PS_TRY(ps_encoding_check_scales(scales, count, groups_before + first, error));
    }
    return PS_OK;
}

/* Indices that rise name no element twice: otherwise the bits would depend on where batches end.
 * Where ranges are put together their pairs follow each other in the order of the ranges: if those
 * of each lie within it and rise, all of them rise. The flags of touched blocks fall off this walk,
 * which reads every index anyway. */
static enum ps_status check_indices(const struct ps_parameter_spec *spec, struct ps_view content,
                                    struct ps_elements range, bool *touched, struct ps_error *error)
{
    const size_t block_elements = PS_BLOCK_BYTES / ps_dtype_size(spec->dtype);
    const uint64_t end = range.first + range.count;
    const bool is_part = range.count < spec->count;
    struct ps_gradient_pairs pairs;
    ps_gradient_pairs_init(&pairs, content);
    uint64_t least = range.first;
    PS_ASSERT(range.count > 0 && block_elements > 0);
    for (;;) {
        struct ps_gradient_pair_run run = ps_gradient_pairs_next(&pairs, UINT64_MAX);
        if (run.count == 0)
            return PS_OK;
        for (size_t i = 0; is_part && i < run.count; i++)
            if (run.indices[i] < range.first || run.indices[i] >= end)
                return ps_fail(error, PS_ERR_BAD_INPUT,
                               "index %" PRIu32 " in a range of elements %" PRIu64 " to %" PRIu64
                               " (top_k)",
                               run.indices[i], range.first, end - 1);
        PS_TRY(ps_encoding_check_indices(run.indices, run.count, end, &least, error));
        /* Behind the check: an index beyond the parameter would set a flag beyond the flags. */
        for (size_t i = 0; touched != NULL && i < run.count; i++)
            touched[run.indices[i] / block_elements] = true;
    }
}

/* Asked by the device's store: a scan that reads few bytes is sooner done on the host than asked
 * for there. */
bool ps_gradient_scan_is_long(const struct ps_parameter_spec *spec, struct ps_gradient gradient)
{
    if (!is_asked(spec, gradient))
        return false;
    if (spec->settings.clip_norm > 0)
        return true;
    if (gradient.encoding == PS_ENCODING_INT8)
        return !scales_are_small(gradient.content, ps_encoding_groups(spec->count));
    return gradient.encoding != PS_ENCODING_TOP_K;
}

/* A gradient that was looked at before has nothing to refuse. Its norm is another matter: that
 * is a sum of a fixed shape, in which every element has its place, and no range knows it of the
 * others. */
static bool is_asked(const struct ps_parameter_spec *spec, struct ps_gradient gradient)
{
    return ps_optimizer_scans(&spec->settings, spec->dtype) &&
           (!gradient.is_plain || spec->settings.clip_norm > 0);
}

/* Of pairs only the named elements can be anything but 0; where the encoding shows at once that all
 * are finite, none is decoded for it. */
void ps_gradient_scan(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                      struct ps_gradient_scan *scan)
{
    if (!is_asked(spec, gradient))
        return;
    bool has_norm = spec->settings.clip_norm > 0;
    PS_ASSERT(!scan->nonfinite);
    PS_ASSERT(spec->count > 0);
    if (gradient.encoding == PS_ENCODING_TOP_K && !has_norm)
        scan_values(spec, gradient.content, scan);
    else if (has_norm || !ps_gradient_is_plainly_finite(gradient, spec->count))
        scan_elements(spec, gradient, scan);
}

/* A range is looked at when it comes, while the network has just put it into the cache; the whole,
 * much later, would come from memory. No range of pairs is: their scan reads few bytes anyway. */
bool ps_gradient_range_is_plain(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                                uint64_t count)
{
    struct ps_gradient_scan scan = {0};
    struct ps_gradient_runs runs;
    PS_ASSERT(count > 0 && count <= spec->count);
    if (spec->settings.clip_norm > 0 || gradient.encoding == PS_ENCODING_TOP_K)
        return false;
    if (ps_gradient_is_plainly_finite(gradient, count))
        return true;
    ps_gradient_runs_init(&runs, gradient, spec->dtype, count);
    struct ps_element_run run = ps_gradient_runs_next(&runs, SIZE_MAX / 8);
    while (run.count > 0 && !scan.nonfinite) {
        ps_optimizer_scan(&spec->settings, spec->dtype, run.elements, run.count, &scan);
        run = ps_gradient_runs_next(&runs, SIZE_MAX / 8);
    }
    return !scan.nonfinite;
}

/* Most gradients are seen to be finite without being decoded for it. Where that says nothing, or
 * no, the elements themselves are asked: they know which one it is. */
bool ps_gradient_is_plainly_finite(struct ps_gradient gradient, uint64_t count)
{
    PS_ASSERT(count > 0);
    /* The scales, 4 of every 260 bytes, are read; the codes are not. */
    if (gradient.encoding == PS_ENCODING_INT8)
        return scales_are_small(gradient.content, ps_encoding_groups(count));
    if (gradient.encoding != PS_ENCODING_BFLOAT16 && gradient.encoding != PS_ENCODING_FLOAT16)
        return false;
    struct ps_element_runs runs;
    ps_element_runs_init(&runs, gradient.content, sizeof(uint16_t));
    struct ps_element_run run = ps_element_runs_next(&runs, SIZE_MAX / 8);
    /* The first run with something else ends it: the caller then looks at the elements
     * themselves. */
    while (run.count > 0 && ps_encoding_run_finite(gradient.encoding, run.elements, run.count))
        run = ps_element_runs_next(&runs, SIZE_MAX / 8);
    /* All of it was walked through, so all of it is finite. */
    return run.count == 0;
}

/* A scale times the largest code is finite for every scale that is small enough: then no element
 * can be anything else. */
static bool scales_are_small(struct ps_view content, uint64_t groups)
{
    PS_ASSERT(groups > 0);
    /* Read a batch at a time: where the message was cut, a scale may lie on both sides. */
    float scales[PS_GRADIENT_PAIRS];
    PS_ASSERT(content.size >= groups * sizeof scales[0]);
    struct ps_view_cursor cursor = {.view = content};
    for (uint64_t first = 0; first < groups; first += PS_GRADIENT_PAIRS) {
        uint64_t rest = groups - first;
        size_t count = rest < PS_GRADIENT_PAIRS ? (size_t)rest : PS_GRADIENT_PAIRS;
        ps_view_read(&cursor, scales, count * sizeof scales[0]);
        if (!ps_encoding_scales_small(scales, count))
            return false;
    }
    return true;
}

/* By several threads where that pays; without memory for their parts by this one, with the same
 * bits. */
static void scan_elements(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                          struct ps_gradient_scan *scan)
{
    if (ps_spread_pays(spec) && scan_together(spec, gradient, scan))
        return;
    PS_ASSERT(scan->count == 0 && !scan->nonfinite); /* it begins here */
    struct ps_gradient_runs runs;
    ps_gradient_runs_init(&runs, gradient, spec->dtype, spec->count);
    scan_part(spec, &runs, spec->count, scan);
}

/* The next `count` elements of the walk. The scan itself keeps count of where they stand. */
static void scan_part(const struct ps_parameter_spec *spec, struct ps_gradient_runs *runs,
                      uint64_t count, struct ps_gradient_scan *scan)
{
    /* Runs end where pieces of the message do; a part ends where its elements do. */
    while (count > 0) {
        size_t wanted = count < SIZE_MAX / 8 ? (size_t)count : SIZE_MAX / 8;
        struct ps_element_run run = ps_gradient_runs_next(runs, wanted);
        PS_ASSERT(run.count > 0);
        ps_optimizer_scan(&spec->settings, spec->dtype, run.elements, run.count, scan);
        count -= run.count;
    }
}

/* A scan by several threads. Each part has a result of its own, joined in their order at the end:
 * the sum of squares then has the shape that one thread gives it. */
struct scan_work {
    const struct ps_parameter_spec *spec;
    struct ps_gradient gradient;
    struct ps_spread spread;
    struct ps_gradient_scan *parts;
};

/* Whichever parts this thread gets, it walks through the gradient from the front, and passes over
 * those that others do. */
static void scan_some(void *argument)
{
    struct scan_work *work = argument;
    const struct ps_parameter_spec *spec = work->spec;
    struct ps_gradient_runs runs;
    struct ps_elements part;
    ps_gradient_runs_init(&runs, work->gradient, spec->dtype, spec->count);
    while (ps_spread_next(&work->spread, &part)) {
        ps_gradient_runs_skip_to(&runs, part.first);
        PS_ASSERT(part.first + part.count <= spec->count);
        scan_part(spec, &runs, part.count, &work->parts[part.first / work->spread.part]);
    }
}

/* False: there is no memory for it. Parts of a norm have the length that ps_optimizer_scan_join
 * asks for; where only finiteness is asked, shorter ones spread better. */
static bool scan_together(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                          struct ps_gradient_scan *scan)
{
    struct scan_work work = {.spec = spec, .gradient = gradient};
    bool has_norm = spec->settings.clip_norm > 0;
    ps_spread_init(&work.spread, spec,
                   has_norm ? PS_SCAN_PART_ELEMENTS : PS_SCAN_PART_ELEMENTS / 4);
    size_t part_count = (size_t)((spec->count + work.spread.part - 1) / work.spread.part);
    work.parts = ps_zeroed_array(spec->memory, part_count, sizeof work.parts[0]);
    /* Not refused for it: one thread finds the same. */
    if (work.parts == NULL)
        return false;
    PS_ASSERT(part_count > 0);
    ps_spread_run(spec, scan_some, &work);
    for (size_t i = 0; i < part_count; i++)
        ps_optimizer_scan_join(scan, &work.parts[i]);
    ps_release(spec->memory, work.parts);
    return true;
}

/* Zeros are finite: only what is named need be looked at. The scan counts pairs, and whoever pushed
 * wants to know which element of the parameter it was. */
static void scan_values(const struct ps_parameter_spec *spec, struct ps_view content,
                        struct ps_gradient_scan *scan)
{
    struct ps_gradient_pairs pairs;
    ps_gradient_pairs_init(&pairs, content);
    PS_ASSERT(spec->settings.clip_norm == 0);
    struct ps_gradient_pair_run run = ps_gradient_pairs_next(&pairs, UINT64_MAX);
    for (; run.count > 0; run = ps_gradient_pairs_next(&pairs, UINT64_MAX)) {
        /* Of double, so that a batch of either type fits and is aligned. */
        double elements[PS_GRADIENT_PAIRS]; /* as large as elements of any type */
        bool known = scan->nonfinite;
        uint64_t before = scan->count;
        ps_decode_run(PS_ENCODING_FLOAT32, spec->dtype, run.values, run.count, elements);
        ps_optimizer_scan(&spec->settings, spec->dtype, elements, run.count, scan);
        /* Counted among the pairs: whoever pushed wants to know which element. */
        if (scan->nonfinite && !known)
            scan->nonfinite_index = run.indices[scan->nonfinite_index - before];
    }
}
