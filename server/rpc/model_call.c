/* SPDX-License-Identifier: Apache-2.0 */
/* SaveModel: a snapshot of the whole model, asked for at any one server. The server that is asked
 * does nothing that the others do not do as well: it writes down what is wanted, and looks until
 * every shard's row is there. A client that asks another server under the same name joins. */
#include "server/rpc/model_call.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "proto/codec.h"
#include "proto/fields.h"
#include "proto/wire.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/rpc_context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Between two looks of a call that waits: rows come from other servers, which tell nobody. */
enum { LOOK_MS = 200 };

/* The fields of the messages, in the order of the .proto. */
enum { SET = 1, WAIT_MS };
enum { REPLY_SET = 1, REPLY_WHOLE, REPLY_EXISTED, REPLY_SHARD_COUNT, REPLY_SHARDS };

static bool begin(struct ps_call_answer *answer);
static bool ask(struct ps_call_answer *answer, bool begins);
static bool take_answer(struct ps_call_answer *answer, struct ps_set_question *answered);
static bool decide(struct ps_call_answer *answer, const struct ps_set_question *answered);
static void encode(struct ps_call_answer *answer, const struct ps_set_question *answered);

static uint64_t time_left_ms(const struct ps_call_answer *answer)
{
    /* A server that is going lets nobody wait. */
    if (atomic_load(&answer->context->draining))
        return 0;
    return ps_time_left_ms(answer->context->clock, answer->cluster.until_ms);
}

/* The first question only looks: what is there already costs nothing, and is not refused for the
 * pace at which new ones may be asked for. */
enum ps_serve_progress ps_serve_save_model(struct ps_call_answer *answer)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    if (!answer->asked && !begin(answer))
        return PS_SERVE_DONE;
    if (wait->inquiry == NULL) {
        uint64_t look_ms = ps_time_left_ms(answer->context->clock, wait->look_ms);
        answer->again_ms = look_ms;
        if (look_ms > 0)
            return PS_SERVE_WAITS;
        if (!ask(answer, false))
            return PS_SERVE_DONE;
    }
    struct ps_set_question answered;
    while (take_answer(answer, &answered)) {
        bool is_done = answer->status != PS_OK || decide(answer, &answered);
        ps_set_question_fini(&answered);
        if (is_done)
            return PS_SERVE_DONE;
    }
    return PS_SERVE_WAITS;
}

/* A server that saves nothing itself would keep the set from ever being whole. False: the answer is
 * made. */
static bool begin(struct ps_call_answer *answer)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    const struct ps_clock *clock = answer->context->clock;
    struct ps_fields fields;
    answer->asked = true;
    answer->status = ps_fields_read(answer->request, &fields, &answer->error);
    if (answer->status == PS_OK)
        answer->status = ps_service_can_save(answer->context->service, &answer->error);
    /* Told in the answer: a client that asks again says it. */
    if (answer->status == PS_OK && fields.text[SET][0] == '\0')
        (void)snprintf(fields.text[SET], sizeof fields.text[SET], "set-%" PRIu64,
                       ps_unix_ns(clock) / 1000000);
    if (answer->status == PS_OK)
        answer->status = ps_set_name_check(fields.text[SET], &answer->error);
    if (answer->status != PS_OK)
        return false;
    wait->set = (struct ps_set_question){.begins = false};
    memcpy(wait->set.name, fields.text[SET], strlen(fields.text[SET]));
    wait->until_ms = ps_deadline_after(clock, ps_call_patience_ms(answer, fields.number[WAIT_MS]));
    return ask(answer, false);
}

/* False: the answer is made. */
static bool ask(struct ps_call_answer *answer, bool begins)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    PS_ASSERT(wait->inquiry == NULL);
    wait->set.begins = begins;
    answer->status = ps_cluster_ask_set(answer->context->cluster.cluster, &wait->set,
                                        &wait->inquiry, &answer->error);
    return answer->status == PS_OK;
}

/* False while the answer is not there; then the call is to wait. The rows are the caller's. */
static bool take_answer(struct ps_call_answer *answer, struct ps_set_question *answered)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    answer->topic = PS_TOPIC_INIT;
    if (wait->inquiry == NULL)
        return false;
    answer->again_ms = 0;
    if (!atomic_load(&wait->inquiry->answered))
        return false;
    answer->status = wait->inquiry->status;
    answer->error = wait->inquiry->error;
    *answered = wait->inquiry->set;
    wait->inquiry->set = (struct ps_set_question){.begins = false};
    ps_cluster_inquiry_release(wait->inquiry);
    wait->inquiry = NULL;
    return true;
}

/* True: the answer is made. Else the next question is out, or the call waits for its time. */
static bool decide(struct ps_call_answer *answer, const struct ps_set_question *answered)
{
    struct ps_cluster_wait *wait = &answer->cluster;
    uint64_t left_ms = time_left_ms(answer);
    if (answered->is_there && (answered->is_whole || left_ms == 0)) {
        encode(answer, answered);
        return true;
    }
    if (!answered->is_there && wait->is_begun) {
        answer->status = ps_fail(&answer->error, PS_ERR_UNAVAILABLE,
                                 "set %s was given up for another one", wait->set.name);
        return true;
    }
    if (!answered->is_there) {
        answer->status = ps_call_check_save_pace(answer);
        return answer->status != PS_OK || !ask(answer, true);
    }
    /* Under way: it has not been there before this call, or another call has begun it. */
    wait->is_begun = true;
    wait->look_ms =
        ps_deadline_after(answer->context->clock, left_ms < LOOK_MS ? left_ms : LOOK_MS);
    answer->again_ms = left_ms < LOOK_MS ? left_ms : LOOK_MS;
    return false;
}

/* One row, made apart since its length comes first. */
static void encode_shard(struct ps_call_answer *answer, uint32_t index,
                         const struct ps_kv_entry *entry)
{
    char bytes[2048];
    struct ps_buffer row;
    struct ps_checkpoint_place place;
    const struct ps_bytes json = {entry->value, entry->value_size};
    /* Somebody has written it by hand: the shard is missing in the answer. */
    if (ps_catalog_pointer_read(json, answer->context->memory, &place, NULL) != PS_OK)
        return;
    ps_buffer_init_fixed(&row, bytes, sizeof bytes);
    ps_wire_put_uint(&row, 1, index);
    ps_wire_put_text(&row, 2, place.uuid);
    ps_wire_put_text(&row, 3, place.path);
    ps_wire_put_uint(&row, 4, place.position);
    ps_wire_put_uint(&row, 5, place.bytes);
    ps_wire_put_uint(&row, 6, place.epoch);
    ps_wire_put_uint(&row, 7, place.unix_ns);
    PS_ASSERT(!row.failed);
    ps_wire_put_head(answer->reply, REPLY_SHARDS, row.size);
    ps_buffer_append(answer->reply, (struct ps_bytes){(const uint8_t *)row.text, row.size});
}

static void encode(struct ps_call_answer *answer, const struct ps_set_question *answered)
{
    const struct ps_cluster_wait *wait = &answer->cluster;
    ps_wire_put_text(answer->reply, REPLY_SET, wait->set.name);
    ps_wire_put_uint(answer->reply, REPLY_WHOLE, answered->is_whole);
    ps_wire_put_uint(answer->reply, REPLY_EXISTED, answered->is_whole && !wait->is_begun);
    ps_wire_put_uint(answer->reply, REPLY_SHARD_COUNT, answered->shard_count);
    for (size_t i = 0; i < answered->rows.count; i++) {
        uint32_t index = 0;
        if (ps_set_row_index(&answered->rows.entries[i], answered->shard_count, &index))
            encode_shard(answer, index, &answered->rows.entries[i]);
    }
}
