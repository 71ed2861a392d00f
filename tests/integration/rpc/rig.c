/* SPDX-License-Identifier: Apache-2.0 */
/* The server under test. */
#include "rig.h"

#include "base/assert.h"
#include "proto/codec.h"
#include "server/core/recovery/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 120000

static void changed(void *self, uint64_t topics)
{
    struct rig *rig = self;
    ps_rpc_server_wake(rig->server, topics);
}

static void wanted(void *self)
{
    (void)self;
}

void rig_start(struct rig *rig, const struct rig_options *options)
{
    *rig = (struct rig){.saves = options->saves};
    rig->metrics = ps_metrics_create(ps_allocator_heap());
    const struct ps_service_options service_options = {.memory = ps_allocator_heap(),
                                                       .clock = ps_clock_real(),
                                                       .metrics = rig->metrics,
                                                       .saves = options->saves,
                                                       .journals = options->journals,
                                                       .ack = PS_ACK_MEMORY,
                                                       .device = "cpu",
                                                       .job = ""};
    PS_ASSERT(ps_service_create(&service_options, &rig->service, NULL) == PS_OK);
    const struct ps_rpc_server_options server_options = {
        .service = rig->service,
        .memory = options->rpc_memory != NULL ? options->rpc_memory : ps_allocator_heap(),
        .clock = ps_clock_real(),
        .metrics = rig->metrics,
        .listen = "127.0.0.1:0",
        .lane_count = options->lane_count != 0 ? options->lane_count : 1,
        .message_bytes_max = options->message_bytes_max,
        .shared_memory_bytes = options->shared_memory_bytes,
        .reply_ms_max = options->reply_ms_max,
        .waiting_calls_max = options->waiting_calls_max,
        .client_calls_max = options->client_calls_max,
        .reflection = true};
    PS_ASSERT(ps_rpc_server_create(&server_options, &rig->server, NULL) == PS_OK);
    const struct ps_service_listener listener = {
        .changed = changed, .checkpoint_wanted = wanted, .self = rig};
    ps_service_listen(rig->service, &listener);
    ps_service_own(rig->service, 0, 1, 7, "127.0.0.1:1");
    ps_service_begin_empty(rig->service);
    ps_service_prove(rig->service, PS_DEADLINE_NEVER);
    PS_ASSERT(ps_rpc_server_start(rig->server, NULL) == PS_OK);
    raw_client_open(&rig->client, ps_rpc_server_port(rig->server));
}

void rig_stop(struct rig *rig)
{
    raw_client_close(&rig->client);
    ps_rpc_server_destroy(rig->server);
    ps_service_destroy(rig->service);
    ps_metrics_destroy(rig->metrics);
}

static struct ps_buffer new_buffer(void)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), (size_t)1 << 28);
    return buffer;
}

struct ps_buffer rig_init(const char *name, enum ps_dtype dtype, struct ps_bytes content,
                          struct ps_bytes config)
{
    struct ps_buffer request = new_buffer();
    const struct ps_init_request fields = {.name = ps_bytes_of_text(name),
                                           .dtype = dtype,
                                           .content = ps_view_of(&content),
                                           .config = config};
    ps_encode_init(&fields, &request);
    ps_buffer_append(&request, content);
    return request;
}

struct ps_buffer rig_push(const char *name, enum ps_dtype dtype, struct ps_bytes content)
{
    struct ps_buffer request = new_buffer();
    const struct ps_push_request fields = {
        .name = ps_bytes_of_text(name), .dtype = dtype, .content = ps_view_of(&content)};
    ps_encode_push(&fields, &request);
    ps_buffer_append(&request, content);
    return request;
}

struct ps_buffer rig_pull(const char *name)
{
    struct ps_buffer request = new_buffer();
    const struct ps_pull_request fields = {.name = ps_bytes_of_text(name)};
    ps_encode_pull(&fields, &request);
    return request;
}

struct raw_answer rig_call(struct rig *rig, enum ps_method method, struct ps_buffer request)
{
    struct raw_answer answer;
    PS_ASSERT(!request.failed);
    raw_call(&rig->client, ps_method_path(method),
             (struct ps_bytes){(const uint8_t *)request.text, request.size}, WAIT_MS, &answer);
    ps_buffer_fini(&request);
    return answer;
}

void rig_make_ready(struct rig *rig, size_t count)
{
    void *zeros = calloc(count, sizeof(float));
    PS_ASSERT(zeros != NULL);
    struct raw_answer answer =
        rig_call(rig, PS_METHOD_INIT,
                 rig_init("w", PS_F32, (struct ps_bytes){zeros, count * sizeof(float)},
                          (struct ps_bytes){NULL, 0}));
    PS_ASSERT(answer.code == 0);
    raw_answer_release(&answer);
    free(zeros);
    rig_finish(rig);
}

static void save_first_checkpoint(struct rig *rig)
{
    struct ps_snapshot snapshot;
    const struct ps_checkpoint_place place = {.position = 0};
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    while (ps_snapshot_take(rig->service, &snapshot, NULL) != PS_OK)
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
    ps_service_saved(rig->service, snapshot.ticket, &place);
    ps_snapshot_release(&snapshot);
}

void rig_finish(struct rig *rig)
{
    struct raw_pending pending;
    struct raw_answer answer;
    raw_start(&rig->client, &pending, ps_method_path(PS_METHOD_FINISH), (struct ps_bytes){NULL, 0},
              WAIT_MS);
    if (rig->saves)
        save_first_checkpoint(rig);
    PS_ASSERT(raw_wait(&rig->client, &pending, WAIT_MS, &answer));
    PS_ASSERT(answer.code == 0);
    raw_answer_release(&answer);
}

double rig_figure(const struct rig *rig, const char *name)
{
    char line[256];
    struct ps_buffer page;
    ps_buffer_init(&page, ps_allocator_heap(), 4 << 20);
    ps_metrics_render(rig->metrics, &page);
    PS_ASSERT(ps_buffer_status(&page, NULL) == PS_OK);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(page.text, line);
    PS_ASSERT(found != NULL);
    double figure = strtod(found + strlen(line), NULL);
    ps_buffer_fini(&page);
    return figure;
}

void rig_wait_until_parked(const struct rig *rig, unsigned calls)
{
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    while (rig_figure(rig, "ps_rpc_parked_calls") < calls)
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
}
