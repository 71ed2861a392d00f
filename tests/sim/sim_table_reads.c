/* SPDX-License-Identifier: Apache-2.0 */
/* What servers answer about rows, and what trainers got of that. An answer is the model's rows of
 * its version; what a trainer has is one of the newest answers that some server gave. */
#include "base/assert.h"
#include "proto/digest.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_table_copy.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <string.h>

static uint64_t hash_answer(struct ps_bytes name, uint64_t version, struct ps_view keys,
                            struct ps_view rows)
{
    uint8_t bytes[SIM_TABLE_BATCH_MAX * (1 + SIM_TABLE_WIDTH_MAX) * 8 + 16] = {0};
    PS_ASSERT(keys.size + rows.size + sizeof version + 2 <= sizeof bytes);
    uint8_t *to = bytes;
    memcpy(to, &version, sizeof version);
    memcpy(to + sizeof version, name.data, 2);
    to += sizeof version + 2;
    ps_view_copy(keys, 0, to, keys.size);
    ps_view_copy(rows, 0, to + keys.size, rows.size);
    return ps_digest_xxh64((struct ps_bytes){bytes, sizeof bytes});
}

static void compare_answer(struct sim_server *server, const struct sim_table_copy *copy,
                           const struct ps_pull_request *request, const struct ps_pull_reply *reply)
{
    size_t row_bytes = sim_table_row_bytes(copy->about);
    for (size_t i = 0; i < request->keys.size / sizeof(uint64_t); i++) {
        uint8_t given[SIM_TABLE_WIDTH_MAX * 8], mine[SIM_TABLE_WIDTH_MAX * 8];
        uint64_t key;
        ps_view_copy(request->keys, i * sizeof key, &key, sizeof key);
        uint32_t number = sim_table_key_number(key);
        sim_table_copy_values(copy, number, mine);
        ps_view_copy(reply->content, i * row_bytes, given, row_bytes);
        if (memcmp(given, mine, row_bytes) != 0)
            sim_fail(server->world, "rows: %s gives a wrong row of %s, key %" PRIu64 ", which %s",
                     server->name, copy->about->name, key,
                     copy->rows[number].is_there ? "is there" : "is not there");
    }
}

/* Who waits for a version that a round makes trains on from it: no crash may take it back. */
static void look_at_journal(struct sim_server *server, const struct sim_table_copy *copy,
                            const struct ps_pull_request *request)
{
    struct ps_journal_state state;
    bool waits = request->at_least_version > 0 && request->version == 0;
    if (!waits || !server->world->options.journals)
        return;
    ps_journal_queue_look(&server->service->queue, &state);
    if (copy->made_at > state.durable)
        sim_fail(server->world,
                 "rows: %s tells version %" PRIu64 " of %s, made at position %" PRIu64
                 ", when %" PRIu64 " is durable",
                 server->name, copy->version, copy->about->name, copy->made_at, state.durable);
}

void sim_rows_pulled(struct sim_server *server, const struct ps_pull_request *request,
                     const struct ps_pull_reply *reply)
{
    struct ps_status_reply now;
    char uuid[37];
    ps_service_status(server->service, &now, uuid);
    struct sim_table_copy *copy = sim_rows_copy(server->world, now.index, now.epoch, request->name);
    sim_rows_note_answer(server->world,
                         hash_answer(request->name, reply->version, request->keys, reply->content));
    if (copy == NULL)
        return;
    sim_rows_reach(server->world, server, copy, reply->version);
    size_t count = request->keys.size / sizeof(uint64_t);
    sim_rows_look_at_keys(server, copy->about, now.index, request->keys, count);
    look_at_journal(server, copy, request);
    if (reply->version != copy->version ||
        reply->content.size != count * sim_table_row_bytes(copy->about))
        sim_fail(server->world, "rows: %s gives version %" PRIu64 " of %s, which is at %" PRIu64,
                 server->name, reply->version, copy->about->name, copy->version);
    else
        compare_answer(server, copy, request, reply);
}

void sim_rows_judge(struct sim_client *client, const struct ps_item *item)
{
    const struct ps_bytes got = {item->destination, item->size};
    uint64_t hash =
        hash_answer(item->name, item->pulled_version, ps_view_of(&item->keys), ps_view_of(&got));
    if (!sim_rows_knows_answer(client->world, hash))
        sim_fail(client->world, "rows: %s has rows that no server gave", client->name);
}
