/* SPDX-License-Identifier: Apache-2.0 */
/* One walk for every encoding: the cases differ in how a scratch is filled. What needs no decoding
 * is given where it lies in the message; everything else goes through 16 KiB that stay in the
 * first-level cache, so that a decoded gradient costs no memory traffic of its own. */
#include "server/core/update/gradient_runs.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#include <string.h>

static size_t decode_plain(struct ps_gradient_runs *runs, size_t count);
static size_t decode_groups(struct ps_gradient_runs *runs, size_t count);
static size_t decode_pairs(struct ps_gradient_runs *runs, size_t count);

/* The scratch is left as it is: zeroing 16 KiB would cost a small push more than reading its own
 * elements does. The scales of INT8 stand before the elements, so those get a cursor of their
 * own. */
void ps_gradient_runs_init(struct ps_gradient_runs *runs, struct ps_gradient gradient,
                           enum ps_dtype dtype, uint64_t count)
{
    bool is_native = ps_encoding_is_native(gradient.encoding, dtype);
    runs->encoding = is_native ? PS_ENCODING_NATIVE : gradient.encoding;
    runs->dtype = dtype;
    runs->count = count;
    runs->at = 0;
    if (runs->encoding == PS_ENCODING_TOP_K) {
        ps_gradient_pairs_init(&runs->pairs, gradient.content);
        return;
    }
    ps_element_runs_init(&runs->elements, gradient.content,
                         ps_encoding_width(runs->encoding, dtype));
    /* The elements begin behind as many scales as the count has groups. */
    if (runs->encoding == PS_ENCODING_INT8) {
        runs->scales = (struct ps_view_cursor){.view = gradient.content};
        ps_view_skip(&runs->elements.cursor, ps_encoding_groups(count) * sizeof runs->scale);
    }
}

/* A run may be shorter than what was asked for: pieces of the message end anywhere, and the scratch
 * is bounded. Callers go on until they have what they need. */
struct ps_element_run ps_gradient_runs_next(struct ps_gradient_runs *runs, size_t count_max)
{
    PS_ASSERT(count_max > 0);
    uint64_t rest = runs->count - runs->at;
    size_t count = rest < count_max ? (size_t)rest : count_max;
    if (count == 0)
        return (struct ps_element_run){NULL, 0};
    if (runs->encoding == PS_ENCODING_NATIVE) {
        struct ps_element_run run = ps_element_runs_next(&runs->elements, count);
        runs->at += run.count;
        return run;
    }

    /* A multiple of a group for every type, so a walk that is not cut decodes whole groups. */
    size_t room = sizeof runs->scratch / ps_dtype_size(runs->dtype);
    count = count < room ? count : room;
    if (runs->encoding == PS_ENCODING_TOP_K)
        count = decode_pairs(runs, count);
    else if (runs->encoding == PS_ENCODING_INT8)
        count = decode_groups(runs, count);
    else
        count = decode_plain(runs, count);
    runs->at += count;
    return (struct ps_element_run){runs->scratch, count};
}

/* For walks that several threads share: each passes over the blocks of the others. Both ends lie
 * between groups, so that a scale is read exactly once by whoever decodes its group. */
void ps_gradient_runs_skip_to(struct ps_gradient_runs *runs, uint64_t at)
{
    PS_ASSERT(at >= runs->at && at <= runs->count);
    if (at == runs->at)
        return;
    PS_ASSERT(at % PS_ENCODING_GROUP == 0 && runs->at % PS_ENCODING_GROUP == 0);
    size_t count = (size_t)(at - runs->at);
    runs->at = at;
    if (runs->encoding == PS_ENCODING_TOP_K) {
        ps_gradient_pairs_skip_to(&runs->pairs, at);
        return;
    }
    PS_ASSERT(runs->elements.carried == 0); /* the last run went up to `at` */
    ps_view_skip(&runs->elements.cursor, count * runs->elements.element_size);
    if (runs->encoding == PS_ENCODING_INT8)
        ps_view_skip(&runs->scales, count / PS_ENCODING_GROUP * sizeof runs->scale);
}

/* Encodings in which each element stands for itself; one piece of the message at a time. */
static size_t decode_plain(struct ps_gradient_runs *runs, size_t count)
{
    struct ps_element_run run = ps_element_runs_next(&runs->elements, count);
    PS_ASSERT(run.count > 0); /* the length was checked */
    ps_decode_run(runs->encoding, runs->dtype, run.elements, run.count, runs->scratch);
    return run.count;
}

/* A run may begin or end within a group, since blocks and pieces do not end where groups do. The
 * scale stays in `runs` until the group is used up. */
static size_t decode_groups(struct ps_gradient_runs *runs, size_t count)
{
    size_t element_size = ps_dtype_size(runs->dtype);
    for (size_t done = 0; done < count;) {
        size_t in_group = (size_t)((runs->at + done) % PS_ENCODING_GROUP);
        /* A walk that was cut within a group still has its scale. */
        if (in_group == 0)
            ps_view_read(&runs->scales, &runs->scale, sizeof runs->scale);
        size_t wanted = PS_ENCODING_GROUP - in_group;
        wanted = wanted < count - done ? wanted : count - done;
        struct ps_element_run run = ps_element_runs_next(&runs->elements, wanted);
        PS_ASSERT(run.count > 0);
        ps_decode_group(runs->dtype, runs->scale, run.elements, run.count,
                        runs->scratch + done * element_size);
        done += run.count;
    }
    return count;
}

/* Elements that no pair names are zeros of the gradient, for rules that have to see them: momentum
 * and decay move an element also where its gradient is 0. */
static size_t decode_pairs(struct ps_gradient_runs *runs, size_t count)
{
    memset(runs->scratch, 0, count * ps_dtype_size(runs->dtype));
    PS_ASSERT(count * ps_dtype_size(runs->dtype) <= sizeof runs->scratch);
    for (;;) {
        struct ps_gradient_pair_run run = ps_gradient_pairs_next(&runs->pairs, runs->at + count);
        if (run.count == 0)
            return count;
        /* One at a time: neighbours among pairs are not neighbours in the parameter. */
        for (size_t i = 0; i < run.count; i++) {
            size_t at = (size_t)(run.indices[i] - runs->at);
            ps_decode_run(PS_ENCODING_FLOAT32, runs->dtype, &run.values[i], 1,
                          runs->scratch + at * ps_dtype_size(runs->dtype));
        }
    }
}
