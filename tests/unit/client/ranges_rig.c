/* SPDX-License-Identifier: Apache-2.0 */
/* The rig under the tests of calls in ranges. */
#include "ranges_rig.h"

#include <check.h>
#include <string.h>

static void note_what_leaves(struct ranges_rig *rig)
{
    enum ps_ranges_action action;
    uint32_t range;
    ps_ranges_check(&rig->ranges);
    while (ps_ranges_next(&rig->ranges, &action, &range)) {
        if (action == PS_RANGES_CANCEL) {
            rig->cancelled_count++;
            continue;
        }
        ck_assert_uint_lt(rig->sent_count, PS_RANGES_WINDOW);
        rig->sent[rig->sent_count++] = range;
    }
    ps_ranges_check(&rig->ranges);
}

void ranges_rig_begin(struct ranges_rig *rig, enum ps_method method)
{
    static const uint8_t client[16] = {1};
    const struct ps_request_id id = {
        .present = true, .client_id = {client, sizeof client}, .session = 1, .sequence = 1};
    const struct ps_bytes name = ps_bytes_of_text("w");
    rig->content = (struct ps_bytes){(const uint8_t *)rig->gradient, sizeof rig->gradient};
    const struct ps_push_request push = {
        .name = name, .request = id, .dtype = PS_F32, .content = ps_view_of(&rig->content)};
    const struct ps_pull_request pull = {.name = name,
                                         .dtype = PS_F32,
                                         .size_wish = sizeof rig->destination,
                                         .destination = (uint8_t *)rig->destination};
    for (size_t i = 0; i < RIG_COUNT; i++)
        rig->came[i] = (float)i + 1;
    rig->request = (struct ps_call_request){.method = method};
    if (method == PS_METHOD_PUSH)
        rig->request.push = push;
    else if (method == PS_METHOD_PULL)
        rig->request.pull = pull;
    else if (method == PS_METHOD_INIT)
        rig->request.init = (struct ps_init_request){
            .name = name, .request = id, .dtype = PS_F32, .content = ps_view_of(&rig->content)};
    else
        rig->request.push_pull.push = push, rig->request.push_pull.pull = pull;
    rig->options.above_bytes = sizeof(float) * RIG_RANGE;
    rig->options.range_bytes = sizeof(float) * RIG_RANGE;
    ranges_rig_again(rig);
}

void ranges_rig_again(struct ranges_rig *rig)
{
    rig->sent_count = 0;
    ps_ranges_begin(&rig->ranges, &rig->options, &rig->request);
    note_what_leaves(rig);
}

const struct ps_call_request *ranges_rig_oldest(const struct ranges_rig *rig)
{
    ck_assert_uint_gt(rig->sent_count, 0);
    return &rig->ranges.slots[rig->sent[0]].request;
}

void ranges_rig_give(struct ranges_rig *rig, const struct ps_call_outcome *outcome)
{
    ck_assert_uint_gt(rig->sent_count, 0);
    uint32_t range = rig->sent[0];
    rig->sent_count--;
    memmove(rig->sent, rig->sent + 1, rig->sent_count * sizeof rig->sent[0]);
    if (ps_ranges_took(&rig->ranges, range, outcome)) {
        note_what_leaves(rig);
        ps_ranges_keep(&rig->ranges, range, &outcome->reply);
    }
    note_what_leaves(rig);
}

static struct ps_call_outcome pushed(const struct ranges_rig *rig, uint64_t version, bool staged)
{
    enum ps_method method = ranges_rig_oldest(rig)->method;
    struct ps_call_outcome outcome = {.reply.method = method};
    if (method == PS_METHOD_INIT)
        outcome.reply.init.staged = staged;
    else if (method == PS_METHOD_PUSH)
        outcome.reply.push = (struct ps_push_reply){.version = version, .staged = staged};
    else
        outcome.reply.push_pull.push = (struct ps_push_reply){.version = version, .staged = staged};
    return outcome;
}

void ranges_rig_stage(struct ranges_rig *rig)
{
    const struct ps_call_outcome outcome = pushed(rig, 0, true);
    ranges_rig_give(rig, &outcome);
}

void ranges_rig_push(struct ranges_rig *rig, uint64_t version)
{
    const struct ps_call_outcome outcome = pushed(rig, version, false);
    ranges_rig_give(rig, &outcome);
}

void ranges_rig_fail(struct ranges_rig *rig, enum ps_status status, bool refused)
{
    const struct ps_call_outcome outcome = {.status = status, .refused = refused, .text = "no"};
    ranges_rig_give(rig, &outcome);
}

/* The elements that are asked for; without a range, all. */
static struct ps_pull_reply values(struct ranges_rig *rig, const struct ps_pull_request *asked,
                                   uint64_t version)
{
    uint64_t count = asked->range.count > 0 ? asked->range.count : RIG_COUNT;
    rig->piece = (struct ps_bytes){(const uint8_t *)(rig->came + asked->range.first),
                                   (size_t)count * sizeof(float)};
    return (struct ps_pull_reply){.dtype = PS_F32,
                                  .version = version,
                                  .life = 5,
                                  .range = asked->range,
                                  .total = RIG_COUNT,
                                  .content = ps_view_of(&rig->piece)};
}

void ranges_rig_pull(struct ranges_rig *rig, uint64_t version)
{
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PULL};
    outcome.reply.pull = values(rig, &ranges_rig_oldest(rig)->pull, version);
    ranges_rig_give(rig, &outcome);
}

void ranges_rig_early(struct ranges_rig *rig, uint64_t version, bool staged)
{
    struct ps_call_outcome outcome = pushed(rig, staged ? 0 : version, staged);
    outcome.reply.push_pull.pull = values(rig, &ranges_rig_oldest(rig)->push_pull.pull, version);
    ranges_rig_give(rig, &outcome);
}

void ranges_rig_assert_pulled(const struct ranges_rig *rig)
{
    for (size_t i = 0; i < RIG_COUNT; i++)
        ck_assert(rig->destination[i] == (float)i + 1);
}
