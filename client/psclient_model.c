/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_save_model: asks one server after the other. Any of them can say how far the set is, and
 * one that dies takes nothing with it: the next is asked under the same name. */
#include "client/psclient.h"

#include "client/client_state.h"
#include "client/status_map.h"
#include "proto/codec.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One server is asked to wait for so long, and is waited for so much longer. */
enum { WAIT_MS = 2000, MARGIN_MS = 2000 };

/* Where an answer goes while the engine has it. */
struct taker {
    const struct ps_allocator *memory;
    struct psclient_set *set;
};

static int ask(struct psclient *client, uint32_t index, const char *name, uint64_t wait_ms,
               struct psclient_set *set, struct psclient_error *error);

/* The name is made here, so that a repeat of a lost question joins what the first one began. */
static enum ps_status choose_name(const struct psclient *client, const char *wish, char name[72])
{
    int length = snprintf(name, 72, "%s", wish != NULL ? wish : "");
    if (wish == NULL)
        length = snprintf(name, 72, "set-%" PRIu64, ps_unix_ns(client->clock) / 1000000);
    return length > 0 && length < 72 ? PS_OK : PS_ERR_BAD_INPUT;
}

/* What the next server may answer better: a server that died, and one that is slow. A refusal would
 * be the same everywhere. */
static bool may_pass(int status)
{
    return status == PSCLIENT_UNAVAILABLE || status == PSCLIENT_UNKNOWN;
}

PS_EXPORT int psclient_save_model(struct psclient *client, const char *wish, uint64_t timeout_ms,
                                  struct psclient_set *set, struct psclient_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    /* As long as the field of the answer that it is compared with. */
    char name[72];
    /* Of the answers so far the last counts, but for what was whole before the call. */
    bool is_first = true;
    uint32_t failed_count = 0; /* servers since the last that answered */
    *set = (struct psclient_set){.whole = 0};
    if (choose_name(client, wish, name) != PS_OK)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a set's name is 1 to 64 characters");
    for (uint32_t turn = 0;; turn++) {
        uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
        struct psclient_set answer = {.whole = 0};
        uint64_t wait_ms = left_ms > 0 && left_ms < WAIT_MS ? left_ms : WAIT_MS;
        /* With no time left the server is still asked once, for what is there now. */
        int status = ask(client, turn % client->shard_count, name, left_ms > 0 ? wait_ms : 1,
                         &answer, error);
        if (status == PSCLIENT_OK) {
            psclient_set_release(set);
            *set = answer;
            /* Whole at a later question is what the first one asked for. */
            set->existed = set->existed && is_first;
            failed_count = 0;
            /* The one that answered is asked again. */
            turn--;
        }
        if ((status == PSCLIENT_OK && set->whole) || (status != PSCLIENT_OK && !may_pass(status)))
            return status;
        /* A question without an answer may have been heard. */
        is_first = false;
        failed_count += status != PSCLIENT_OK;
        /* The servers wait themselves, so that this asks about every two seconds. A server that
         * died may have taken all of the time: each of the others is asked once. */
        if (ps_time_left_ms(client->clock, deadline_ms) > 0 ||
            (failed_count > 0 && failed_count < client->shard_count))
            continue;
        /* No server has answered: its own words say why. */
        if (set->name[0] == '\0')
            return status;
        char text[160];
        (void)snprintf(text, sizeof text,
                       "set %s is not whole yet: %" PRIu32 " of %" PRIu32 " shards are there", name,
                       set->saved_count, set->shard_count);
        return ps_client_fail(error, PS_ERR_TIMEOUT, text);
    }
}

PS_EXPORT void psclient_set_release(struct psclient_set *set)
{
    ps_release(ps_allocator_heap(), set->shards);
    *set = (struct psclient_set){.whole = 0};
}

/* A text that does not fit is cut, as in every answer of this library. */
static void copy_text(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
}

/* Rows by index. One beyond the count is passed over, and one that came twice counts once: both are
 * mistakes of a server. */
static enum ps_status fill(struct psclient_set *set, const struct ps_model_reply *reply,
                           struct ps_error *error)
{
    /* Also of a set that has no row yet: the caller sees which shards are missing. */
    set->shards = ps_zeroed_array(ps_allocator_heap(), reply->shard_count, sizeof set->shards[0]);
    if (set->shards == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the shards of a set");
    copy_text(set->name, sizeof set->name, reply->set);
    set->whole = reply->whole;
    set->existed = reply->existed;
    set->shard_count = reply->shard_count;
    for (size_t i = 0; i < reply->count; i++) {
        const struct ps_saved_shard *from = &reply->shards[i];
        if (from->index >= set->shard_count)
            continue;
        struct psclient_set_shard *to = &set->shards[from->index];
        set->saved_count += to->uuid[0] == '\0';
        copy_text(to->uuid, sizeof to->uuid, from->uuid);
        copy_text(to->path, sizeof to->path, from->path);
        to->position = from->position;
        to->bytes = from->bytes;
        to->epoch = from->epoch;
        to->unix_ns = from->unix_ns;
    }
    return PS_OK;
}

/* In the engine's turn, while the bytes of the answer are there. */
static enum ps_status take(void *self, const struct ps_call_reply *bytes, struct ps_error *error)
{
    const struct taker *taker = self;
    /* The texts live until the release, and are copied before that. */
    struct ps_model_reply reply;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_model_reply(bytes->ask, taker->memory, &reply, &decoded, error));
    enum ps_status status = fill(taker->set, &reply, error);
    ps_decoded_release(&decoded);
    return status;
}

static int ask(struct psclient *client, uint32_t index, const char *name, uint64_t wait_ms,
               struct psclient_set *set, struct psclient_error *error)
{
    char room[256];
    struct ps_buffer message;
    struct taker taker = {client->memory, set};
    struct ps_error why = {.status = PS_OK};
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_wire_put_text(&message, 1, name);
    ps_wire_put_uint(&message, 2, wait_ms);
    /* Carried as bytes: the engine repeats the call, and looks at neither message. */
    struct ps_item item = {.shard = index,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .answer = {take, &taker}};
    const struct ps_batch_request batch =
        ps_client_request(client, PS_METHOD_SAVE_MODEL, &item, 1, wait_ms + MARGIN_MS);
    enum ps_status status = ps_client_run(client, &batch, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    return ps_client_verdict(client, &item, 1, NULL, error);
}
