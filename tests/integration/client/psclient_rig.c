/* SPDX-License-Identifier: Apache-2.0 */
/* Servers with canned answers, and a client on them. */
#include "tests/integration/client/psclient_rig.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "proto/codec.h"

#include <check.h>
#include <string.h>

struct fake_server *servers[2];
struct psclient *client;
struct psclient_error error;
static struct ps_buffer replies[2], status_bytes[2];
const float ones[4] = {1, 1, 1, 1};

struct fake_answer refuse(enum ps_status status)
{
    return (struct fake_answer){.kind = FAKE_REFUSE, .status = status};
}

/* Servers in state "ready" with four float32 ones under every name, at version 6 and 7. */
void open_client(uint32_t server_count, const char *state)
{
    char list[128] = "";
    for (uint32_t i = 0; i < server_count; i++) {
        servers[i] = fake_server_start(0);
        strcat(list, i > 0 ? "," : "");
        strcat(list, fake_server_address(servers[i]));

        struct ps_pull_reply pull = {.dtype = PS_F32, .version = 6 + i};
        struct ps_bytes content = {(const uint8_t *)ones, sizeof ones};
        pull.content = ps_view_of(&content);
        ps_buffer_init(&replies[i], ps_allocator_heap(), 1000);
        ps_encode_pull_reply(&pull, &replies[i]);
        ps_buffer_append(&replies[i], content);
        fake_server_answer(
            servers[i], PS_METHOD_PULL,
            (struct fake_answer){.kind = FAKE_REPLY,
                                 .bytes = {(const uint8_t *)replies[i].text, replies[i].size}});
        struct ps_status_reply status = {.state = state, .index = i};
        ps_buffer_init(&status_bytes[i], ps_allocator_heap(), 1000);
        ps_encode_status_reply(&status, &status_bytes[i]);
        fake_server_answer(servers[i], PS_METHOD_STATUS,
                           (struct fake_answer){.kind = FAKE_REPLY,
                                                .bytes = {(const uint8_t *)status_bytes[i].text,
                                                          status_bytes[i].size}});
    }
    const struct psclient_options options = {.servers = list};
    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_OK);
}

void close_client(void)
{
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++) {
        fake_server_stop(servers[i]);
        ps_buffer_fini(&replies[i]);
        ps_buffer_fini(&status_bytes[i]);
    }
}

struct psclient_gradient gradient(const char *name)
{
    return (struct psclient_gradient){
        .name = name, .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
}

struct psclient_parameter parameter(const char *name, float *content)
{
    return (struct psclient_parameter){.name = name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = content,
                                       .content_size = 4 * sizeof(float)};
}
