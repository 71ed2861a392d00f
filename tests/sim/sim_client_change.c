/* SPDX-License-Identifier: Apache-2.0 */
/* Rates are multiples of a power of two and gradients small whole numbers, so that values are exact
 * in float32 and can be compared with what they should be. */
#include "tests/sim/sim_client_change.h"

#include "base/assert.h"
#include "tests/sim/sim_client_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ELEMENTS 8
#define RATE_STEP (1.0 / 1024)
#define PATIENCE_MS 600000 /* longer than a world lives */

static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error);

/* A name of this life alone: messages of a former one may still be on their way. */
static void choose_name(struct sim_client *client)
{
    struct sim_own *own = &client->own;
    own->exists = false;
    own->parameter = (struct sim_parameter){.dtype = PS_F32, .count = ELEMENTS};
    snprintf(own->parameter.name, sizeof own->parameter.name, "own%" PRIu64 "-%" PRIu64,
             client->generation, ++own->names);
}

struct ps_bytes sim_config_encode(const struct ps_optimizer_config *config,
                                  char to[SIM_CONFIG_BYTES_MAX])
{
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), SIM_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(config, &bytes);
    PS_ASSERT(!bytes.failed);
    const struct ps_bytes encoded = {(const uint8_t *)to, bytes.size};
    memcpy(to, bytes.text, bytes.size);
    ps_buffer_fini(&bytes);
    return encoded;
}

static void choose_rate(struct sim_own *own)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.learning_rate = (double)++own->rates * RATE_STEP;
    own->parameter.config = sim_config_encode(&config, own->config);
}

static enum ps_method choose_method(struct sim_client *client)
{
    static const enum ps_method methods[] = {
        PS_METHOD_PUSH,      PS_METHOD_PUSH, PS_METHOD_PUSH, PS_METHOD_CONFIGURE,
        PS_METHOD_CONFIGURE, PS_METHOD_PULL, PS_METHOD_DROP};
    size_t last = sizeof methods / sizeof methods[0] - 1;
    return client->own.exists ? methods[sim_between(client->world, 0, last)] : PS_METHOD_DEFINE;
}

/* Of a parameter in one piece. */
static uint32_t shard_of(const struct sim_client *client, const struct ps_item *item)
{
    const struct ps_layout layout = sim_client_layout(client);
    const struct ps_placement placement =
        ps_placement_of(item->size, ps_dtype_size(item->dtype), &layout);
    PS_ASSERT(placement.range_count == 1);
    return ps_placement_range(&placement, item->name, 0).shard;
}

void sim_client_change(struct sim_client *client)
{
    struct sim_own *own = &client->own;
    struct ps_item *item = &client->items[0];
    if (own->parameter.count == 0)
        choose_name(client);
    enum ps_method method = choose_method(client);
    own->gradient = method == PS_METHOD_PUSH ? (double)sim_between(client->world, 1, 4) : 0.0;
    sim_client_fill_with(client, 0, &own->parameter, own->gradient);
    if (method == PS_METHOD_DEFINE || method == PS_METHOD_CONFIGURE) {
        choose_rate(own);
        item->config = own->parameter.config;
    }
    if (method == PS_METHOD_DROP || method == PS_METHOD_CONFIGURE) {
        item->shard = shard_of(client, item);
        item->content = NULL;
        item->size = 0;
        item->answer = (struct ps_answer_taker){take_answer, own};
    }
    client->item_count = 1;
    sim_client_start_batch(client, method, SIM_PHASE_CHANGING, PATIENCE_MS);
}

/* The configuration lies in the message, which goes. */
static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    struct sim_own *own = self;
    (void)error;
    own->answer = reply->change;
    own->answer.config = (struct ps_bytes){0};
    return PS_OK;
}

/* ---- What must be true ---- */

static void expect_version(struct sim_client *client, uint64_t version)
{
    if (version != client->own.version)
        sim_fail(client->world,
                 "P2: %s has made %" PRIu64 " pushes to %s, the answer says %" PRIu64, client->name,
                 client->own.version, client->own.parameter.name, version);
}

static void expect_value(struct sim_client *client)
{
    double value = sim_client_first_value(client, 0);
    if (value != client->own.value)
        sim_fail(client->world, "P2: %s pulls %.10g of %s, by its rates there must be %.10g",
                 client->name, value, client->own.parameter.name, client->own.value);
}

static void note_success(struct sim_client *client)
{
    struct sim_own *own = &client->own;
    const struct ps_item *item = &client->items[0];
    switch (client->method) {
    case PS_METHOD_DEFINE:
        if (item->existed)
            sim_fail(client->world, "P2: %s is there before %s has defined it", own->parameter.name,
                     client->name);
        own->exists = true;
        own->rate = own->rates;
        own->version = 0;
        own->value = 0.0;
        break;
    case PS_METHOD_CONFIGURE:
        own->rate = own->rates;
        expect_version(client, own->answer.version);
        break;
    case PS_METHOD_PUSH:
        own->value -= (double)own->rate * RATE_STEP * own->gradient;
        own->version++;
        expect_version(client, item->version);
        break;
    case PS_METHOD_PULL:
        expect_version(client, item->pulled_version);
        expect_value(client);
        client->rounds++;
        break;
    default:
        PS_ASSERT(client->method == PS_METHOD_DROP);
        expect_version(client, own->answer.version);
        own->exists = false;
        break;
    }
}

/* What it has defined, nobody else drops; what it drops is there until it has heard so. */
void sim_client_changed(struct sim_client *client)
{
    struct sim_own *own = &client->own;
    enum ps_status status = client->items[0].status;
    if (status == PS_OK) {
        note_success(client);
        return;
    }
    if (status == PS_ERR_NOT_FOUND && client->method == PS_METHOD_DROP)
        sim_fail(client->world, "P2: %s drops %s, and hears that it is not there", client->name,
                 own->parameter.name);
    else if (status == PS_ERR_NOT_FOUND)
        sim_fail(client->world, "P1: %s has defined %s, and it is not there", client->name,
                 own->parameter.name);
    else if (status == PS_ERR_EXISTS)
        sim_fail(client->world, "P2: another %s is there than %s defines", own->parameter.name,
                 client->name);
    choose_name(client);
}
