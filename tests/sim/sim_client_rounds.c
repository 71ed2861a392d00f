/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer that contributes to the version behind the one that it has pulled needs to remember
 * nothing: when it begins anew, it pulls first. Some contribute to whatever is open, and some wait
 * for versions to which they have not contributed. */
#include "tests/sim/sim_client_rounds.h"

#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_rounds.h"

#define OPEN_PERMILLE 200   /* of contributions: to the open round, whichever that is */
#define AWAIT_PERMILLE 700  /* of pulls: for the version to which the trainer has contributed */
#define BEYOND_PERMILLE 100 /* of pulls: for the version behind the one that it has */
#define CONFIGURE_PERMILLE 250
#define CONFIGURE_MS 6000

/* Of the parameter that the item is about. */
static struct sim_round_place *place_of(struct sim_client *client, const struct ps_item *item)
{
    for (size_t i = 0; i < client->parameter_count; i++)
        if (ps_bytes_equal(ps_bytes_of_text(client->parameters[i].name), item->name))
            return &client->round_places[i];
    PS_ASSERT(false && "the trainer has no such parameter");
    return NULL;
}

static bool is_in_rounds(const struct sim_client *client, const struct ps_item *item)
{
    return sim_rounds_of(sim_checker_rounds(client->world), item->name) != NULL;
}

/* Tenths have no exact binary form, so that the order in which they are added shows. */
static void contribute(struct sim_client *client, size_t i, struct sim_round_place *place)
{
    static const float weights[] = {0, 1, 2, 4, 0.5f};
    struct sim_world *world = client->world;
    struct ps_item *item = &client->items[i];
    sim_client_fill(client, i, (size_t)(place - client->round_places),
                    0.1 * ((double)sim_between(world, 0, 80) - 40));
    sim_client_encode(client, i);
    item->worker = client->number + 1;
    item->weight = weights[sim_between(world, 0, sizeof weights / sizeof weights[0] - 1)];
    item->round = sim_chance(world, OPEN_PERMILLE) ? 0 : place->next;
}

static uint64_t version_to_await(struct sim_client *client, const struct sim_round_place *place)
{
    if (place->awaited > 0 && sim_chance(client->world, AWAIT_PERMILLE))
        return place->awaited;
    return sim_chance(client->world, BEYOND_PERMILLE) ? place->next : 0;
}

void sim_client_join_rounds(struct sim_client *client, enum ps_method method)
{
    if (!client->world->options.waits)
        return;
    for (size_t i = 0; i < client->item_count; i++) {
        struct ps_item *item = &client->items[i];
        struct sim_round_place *place = place_of(client, item);
        bool rounds = is_in_rounds(client, item);
        if (method != PS_METHOD_PULL && rounds)
            contribute(client, i, place);
        /* The step of a synchronous trainer: one round trip. */
        if (method == PS_METHOD_PUSH_PULL && rounds)
            item->at_least_version = item->round;
        else if (method == PS_METHOD_PULL)
            item->at_least_version = version_to_await(client, place);
    }
}

/* The first from any one on that is trained in rounds; none is: the number of parameters. */
static size_t choose_in_rounds(struct sim_client *client)
{
    size_t from = (size_t)sim_between(client->world, 0, client->parameter_count - 1);
    for (size_t tried = 0; tried < client->parameter_count; tried++) {
        size_t i = (from + tried) % client->parameter_count;
        sim_client_fill(client, 0, i, 0);
        if (is_in_rounds(client, &client->items[0]))
            return i;
    }
    return client->parameter_count;
}

/* As the client library changes a parameter that is cut: one batch with an item for every range,
 * under the range's name and to its shard. What a crash or an open round leaves undone of it makes
 * ranges of different rules, whose versions come apart. A trainer has one round for all of them,
 * and finds back when it contributes to whichever is open. */
static void ask_every_range(struct sim_client *client, struct sim_new_setting wish)
{
    struct ps_item whole = client->items[0];
    const struct ps_layout layout = sim_client_layout(client);
    const struct ps_placement placement =
        ps_placement_of(whole.size, ps_dtype_size(whole.dtype), &layout);
    PS_ASSERT(placement.range_count <= SIM_SHARDS_MAX);
    sim_settings_ask(&whole, wish, client->setting);
    whole.content = NULL;
    whole.size = 0;
    client->item_count = placement.range_count;
    for (uint32_t k = 0; k < placement.range_count; k++) {
        char *text = client->range_names[k];
        struct ps_item *item = &client->items[k];
        *item = whole;
        item->shard = ps_placement_range(&placement, whole.name, k).shard;
        item->name = (struct ps_bytes){(const uint8_t *)text,
                                       ps_placement_name(&placement, whole.name, k, text)};
    }
}

bool sim_client_configures(struct sim_client *client)
{
    struct sim_world *world = client->world;
    if (!world->options.rounds || !sim_chance(world, CONFIGURE_PERMILLE) ||
        choose_in_rounds(client) == client->parameter_count)
        return false;
    const struct sim_round_rules *first =
        sim_rounds_of(sim_checker_rounds(world), client->items[0].name);
    ask_every_range(client, sim_settings_draw(world, first->workers, true));
    sim_client_start_batch(client, PS_METHOD_CONFIGURE, SIM_PHASE_CONFIGURING, CONFIGURE_MS);
    return true;
}

/* A contribution that failed may have been counted or not; after a recovery without a journal there
 * may be no such version yet. */
static void note_push(const struct ps_item *item, struct sim_round_place *place)
{
    uint64_t awaited = 0;
    if (item->status == PS_OK && !item->late)
        awaited = item->version;
    if (item->status == PS_ERR_EXISTS)
        awaited = item->round;
    *place = (struct sim_round_place){.awaited = awaited};
}

/* No parameter of trainers is ever dropped: each of its ranges is where its shard is. */
static void expect_found(struct sim_client *client)
{
    for (size_t i = 0; i < client->item_count; i++)
        if (client->items[i].status == PS_ERR_NOT_FOUND)
            sim_fail(client->world, "rounds: %s configures %.*s, and hears that it is not there",
                     client->name, (int)client->items[i].name.size,
                     (const char *)client->items[i].name.data);
}

void sim_client_note_rounds(struct sim_client *client)
{
    enum ps_method method = client->method;
    bool pushes = method == PS_METHOD_PUSH || method == PS_METHOD_PUSH_PULL;
    bool pulls = method == PS_METHOD_PULL || method == PS_METHOD_PUSH_PULL;
    if (client->phase == SIM_PHASE_CONFIGURING)
        expect_found(client);
    if (!client->world->options.waits || (!pushes && !pulls))
        return;
    for (size_t i = 0; i < client->item_count && client->phase != SIM_PHASE_CHANGING; i++) {
        const struct ps_item *item = &client->items[i];
        struct sim_round_place *place = place_of(client, item);
        if (pushes)
            note_push(item, place);
        if (pulls && item->status == PS_OK && item->pulled_version != UINT64_MAX)
            *place = (struct sim_round_place){.next = item->pulled_version + 1};
        else if (pulls && !pushes)
            *place = (struct sim_round_place){0};
    }
}
