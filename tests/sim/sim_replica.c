/* SPDX-License-Identifier: Apache-2.0 */
/* Trainers that are kept up to date, and whether they are. */
#include "tests/sim/sim_replica.h"

#include "base/assert.h"
#include "client/engine/placement.h"
#include "proto/digest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TRUTHS_MAX 4096

struct sim_truth {
    char name[32];
    struct ps_chain chain;
    uint64_t version;
    uint64_t digest; /* of all bytes together: not what the product computes */
};

/* The newest ones. */
struct sim_truths {
    struct sim_truth list[TRUTHS_MAX];
    uint64_t count; /* ever */
};

struct sim_replica {
    struct sim_client *client; /* borrowed */
    struct ps_replica *replica;
    struct ps_since_message *messages; /* of the batch under way */
    size_t message_count;
    uint64_t values[SIM_PARAMETERS_MAX][SIM_ELEMENTS_MAX];
};

static void add_parts(struct sim_replica *replica, uint32_t parameter,
                      const struct ps_layout *layout);
static void judge(struct sim_replica *replica, const struct ps_replica_part *part);

struct sim_truths *sim_truths_create(void)
{
    struct sim_truths *truths = calloc(1, sizeof *truths);
    PS_ASSERT(truths != NULL);
    return truths;
}

void sim_truths_destroy(struct sim_truths *truths)
{
    free(truths);
}

struct sim_replica *sim_replica_create(struct sim_client *client)
{
    const struct ps_layout layout = sim_client_layout(client);
    struct sim_replica *replica = calloc(1, sizeof *replica);
    PS_ASSERT(replica != NULL);
    replica->client = client;
    enum ps_status status =
        ps_replica_create(&client->world->memory, SIM_PULLS_MAX, &replica->replica, NULL);
    PS_ASSERT(status == PS_OK);
    for (uint32_t i = 0; i < client->parameter_count; i++)
        add_parts(replica, i, &layout);
    return replica;
}

static void add_parts(struct sim_replica *replica, uint32_t parameter,
                      const struct ps_layout *layout)
{
    const struct sim_parameter *about = &replica->client->parameters[parameter];
    const struct ps_bytes name = ps_bytes_of_text(about->name);
    size_t element_size = ps_dtype_size(about->dtype);
    struct ps_placement placement =
        ps_placement_of(about->count * element_size, element_size, layout);
    for (uint32_t k = 0; k < placement.range_count; k++) {
        char text[PS_NAME_BYTES_MAX];
        struct ps_range range = ps_placement_range(&placement, name, k);
        const struct ps_replica_part part = {
            .name = {(const uint8_t *)text, ps_placement_name(&placement, name, k, text)},
            .shard = range.shard,
            .parameter = parameter,
            .dtype = about->dtype,
            .content = (uint8_t *)replica->values[parameter] + range.offset,
            .size = range.size};
        enum ps_status status = ps_replica_add(replica->replica, &part, NULL);
        PS_ASSERT(status == PS_OK);
    }
}

static void release_messages(struct sim_replica *replica)
{
    if (replica->messages != NULL)
        ps_replica_release(replica->replica, replica->messages, replica->message_count);
    replica->messages = NULL;
    replica->message_count = 0;
}

void sim_replica_destroy(struct sim_replica *replica)
{
    if (replica == NULL)
        return;
    release_messages(replica);
    ps_replica_destroy(replica->replica);
    free(replica);
}

static bool has_stale(const struct ps_replica *replica)
{
    for (size_t i = 0; i < replica->part_count; i++)
        if (replica->parts[i].state == PS_PART_STALE)
            return true;
    return false;
}

size_t sim_replica_begin(struct sim_replica *replica, struct ps_item *items)
{
    release_messages(replica);
    if (!has_stale(replica->replica) || !sim_chance(replica->client->world, 800))
        ps_replica_begin(replica->replica);
    enum ps_status status =
        ps_replica_ask(replica->replica, &replica->messages, &replica->message_count, NULL);
    PS_ASSERT(status == PS_OK && replica->message_count <= SIM_PARAMETERS_MAX);
    for (size_t i = 0; i < replica->message_count; i++)
        items[i] = ps_replica_item(&replica->messages[i]);
    return replica->message_count;
}

void sim_replica_finished(struct sim_replica *replica, const struct ps_item *items)
{
    for (size_t i = 0; i < replica->message_count; i++)
        if (items[i].status != PS_OK)
            ps_replica_fail(&replica->messages[i], items[i].status, items[i].text);
    ps_replica_check(replica->replica);
    for (size_t i = 0; i < replica->replica->part_count; i++)
        judge(replica, &replica->replica->parts[i]);
    if (!ps_replica_verify(replica->replica) || replica->replica->counters.mismatches > 0)
        sim_fail(replica->client->world, "delta: %s has a copy whose digest is wrong",
                 replica->client->name);
    release_messages(replica);
}

/* ---- The truth ---- */

static const struct sim_truth *find_truth(const struct sim_truths *truths, struct ps_bytes name,
                                          const struct ps_chain *chain, uint64_t version)
{
    uint64_t first = truths->count > TRUTHS_MAX ? truths->count - TRUTHS_MAX : 0;
    for (uint64_t i = truths->count; i > first; i--) {
        const struct sim_truth *truth = &truths->list[(i - 1) % TRUTHS_MAX];
        if (truth->version == version && truth->chain.epoch == chain->epoch &&
            truth->chain.life == chain->life && ps_bytes_equal(ps_bytes_of_text(truth->name), name))
            return truth;
    }
    return NULL;
}

static void judge(struct sim_replica *replica, const struct ps_replica_part *part)
{
    struct sim_world *world = replica->client->world;
    const char *who = replica->client->name;
    const struct ps_bytes content = {part->content, part->size};
    if (part->state == PS_PART_FAILED && part->status == PS_ERR_BAD_INPUT)
        sim_fail(world, "delta: %s got an answer that does not fit: %s", who, part->text);
    if (part->state != PS_PART_FRESH)
        return;
    const struct sim_truth *truth =
        find_truth(world->truths, part->name, &part->chain, part->version - 1);
    if (truth == NULL)
        sim_fail(world, "delta: %s has version %" PRIu64 " of %.*s, which nobody gave it", who,
                 part->version - 1, (int)part->name.size, (const char *)part->name.data);
    else if (truth->digest != ps_digest_xxh64(content))
        sim_fail(world, "delta: %s has another version %" PRIu64 " of %.*s than the server had",
                 who, part->version - 1, (int)part->name.size, (const char *)part->name.data);
}

/* What the server has now, in one piece. */
static uint64_t digest_now(struct sim_server *server, struct ps_bytes name)
{
    uint8_t content[SIM_ELEMENTS_MAX * 8];
    const struct ps_pull_request request = {.name = name};
    struct ps_pull pull = {0};
    enum ps_status status = ps_service_pull(server->service, &request, &pull, NULL);
    PS_ASSERT(status == PS_OK && pull.reply.content.size <= sizeof content);
    const struct ps_bytes bytes = {content, pull.reply.content.size};
    ps_view_copy(pull.reply.content, 0, content, bytes.size);
    ps_pull_release(&pull);
    return ps_digest_xxh64(bytes);
}

/* What the server has now is that version of the chain. */
static void remember(struct sim_server *server, struct ps_bytes name, const struct ps_chain *chain,
                     uint64_t version)
{
    struct sim_truths *truths = server->world->truths;
    struct sim_truth truth = {.chain = *chain, .version = version};
    PS_ASSERT(name.size < sizeof truth.name);
    memcpy(truth.name, name.data, name.size);
    truth.digest = digest_now(server, name);
    const struct sim_truth *before = find_truth(truths, name, chain, version);
    if (before != NULL && before->digest != truth.digest)
        sim_fail(server->world, "delta: %s gives another version %" PRIu64 " of %s than before",
                 server->name, version, truth.name);
    if (before == NULL)
        truths->list[truths->count++ % TRUTHS_MAX] = truth;
}

void sim_truths_pulled(struct sim_server *server, const struct ps_pull_request *request,
                       const struct ps_pull_reply *reply, struct ps_chain *chain)
{
    const struct ps_pull_request delta = {.name = request->name, .held = {.present = true}};
    struct ps_pull pull = {0};
    enum ps_status status = ps_service_pull(server->service, &delta, &pull, NULL);
    PS_ASSERT(status == PS_OK);
    *chain = pull.reply.delta.chain;
    uint64_t version = pull.reply.version;
    ps_pull_release(&pull);
    /* What comes in several answers may have become an older version since the first of them. */
    if (version == reply->version)
        remember(server, request->name, chain, version);
}

bool sim_truths_has(const struct sim_world *world, struct ps_bytes name,
                    const struct ps_chain *chain, uint64_t version, struct ps_bytes content)
{
    const struct sim_truth *truth = find_truth(world->truths, name, chain, version);
    return truth != NULL && truth->digest == ps_digest_xxh64(content);
}

bool sim_is_uniform(struct ps_view content, size_t element_size)
{
    uint8_t first[8];
    PS_ASSERT(element_size <= sizeof first && content.size >= element_size);
    ps_view_copy(content, 0, first, element_size);
    for (size_t i = 0; i < content.piece_count; i++) {
        const struct ps_bytes piece = content.pieces[i];
        if (piece.size == 0)
            continue;
        if (piece.size % element_size != 0 || memcmp(piece.data, first, element_size) != 0 ||
            memcmp(piece.data, piece.data + element_size, piece.size - element_size) != 0)
            return false;
    }
    return true;
}

void sim_truths_judge(struct sim_client *client, struct ps_bytes name, const struct ps_chain *chain,
                      const struct ps_pull_reply *reply)
{
    uint8_t bytes[SIM_ELEMENTS_MAX * 8];
    struct sim_world *world = client->world;
    const struct ps_bytes content = {bytes, reply->content.size};
    const struct sim_truth *truth = find_truth(world->truths, name, chain, reply->version);
    PS_ASSERT(content.size <= sizeof bytes);
    ps_view_copy(reply->content, 0, bytes, content.size);
    if (!sim_is_uniform(reply->content, ps_dtype_size(reply->dtype)))
        sim_fail(world, "ranges: %s pulled a mixture as version %" PRIu64 " of %.*s", client->name,
                 reply->version, (int)name.size, (const char *)name.data);
    else if (truth == NULL || truth->digest != ps_digest_xxh64(content))
        sim_fail(world, "ranges: %s pulled what never was version %" PRIu64 " of %.*s",
                 client->name, reply->version, (int)name.size, (const char *)name.data);
}

void sim_replica_forget_chain(struct sim_server *server, struct ps_pull_request *request)
{
    enum sim_mutation mutation = sim_is_table(request->name) ? SIM_MUTATION_TABLE_CHAIN_FORGOTTEN
                                                             : SIM_MUTATION_CHAIN_FORGOTTEN;
    if (server->world->options.mutation != mutation)
        return;
    struct ps_pull_request nothing = *request;
    struct ps_pull pull = {0};
    nothing.held = (struct ps_held){.present = true};
    if (ps_service_pull(server->service, &nothing, &pull, NULL) == PS_OK)
        request->held.chain = pull.reply.delta.chain;
    ps_pull_release(&pull);
}
