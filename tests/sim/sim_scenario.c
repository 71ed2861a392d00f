/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of scenarios. */
#include "tests/sim/sim_scenario.h"

#include "base/assert.h"
#include "tests/sim/sim_checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_MS 60000
#define TIMEOUT_MS 8000

struct command {
    const char *word;
    size_t words_min; /* with the command itself */
    bool (*play)(struct sim_player *player);
};

/* ---- Words ---- */

static const char *word(const struct sim_player *player, size_t i)
{
    return i < player->word_count ? player->words[i] : "";
}

static bool number(const char *text, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

/* The value of "key=value" among the words, else `otherwise`. */
static uint64_t option(const struct sim_player *player, const char *key, uint64_t otherwise)
{
    size_t size = strlen(key);
    uint64_t value;
    for (size_t i = 1; i < player->word_count; i++)
        if (strncmp(player->words[i], key, size) == 0 && player->words[i][size] == '=' &&
            number(player->words[i] + size + 1, &value))
            return value;
    return otherwise;
}

/* The number behind 's' or 'c', counted from 0. */
static bool named(const char *text, char letter, uint32_t count, uint32_t *value)
{
    uint64_t given;
    if (text[0] != letter || !number(text + 1, &given) || given == 0 || given > count)
        return false;
    *value = (uint32_t)given - 1;
    return true;
}

static struct sim_server *server_of(const struct sim_player *player, size_t i)
{
    uint32_t value;
    struct sim_world *world = player->world;
    return named(word(player, i), 's', world->options.server_count, &value) ? &world->servers[value]
                                                                            : NULL;
}

static struct sim_client *client_of(const struct sim_player *player, size_t i)
{
    uint32_t value;
    struct sim_world *world = player->world;
    return named(word(player, i), 'c', world->options.client_count, &value) ? &world->clients[value]
                                                                            : NULL;
}

static bool node_of(const struct sim_player *player, size_t i, uint32_t *node)
{
    const struct sim_server *server = server_of(player, i);
    const struct sim_client *client = client_of(player, i);
    *node = SIM_NODE_STORE;
    if (server != NULL)
        *node = sim_node_of_server(player->world, server->number);
    if (client != NULL)
        *node = sim_node_of_client(player->world, client->number);
    return server != NULL || client != NULL || strcmp(word(player, i), "etcd") == 0;
}

static bool shard_of(const struct sim_player *player, size_t i, uint32_t *shard)
{
    uint64_t value;
    if (!number(word(player, i), &value) || value >= player->world->options.shard_count)
        return false;
    *shard = (uint32_t)value;
    return true;
}

/* ---- The world ---- */

static bool play_world(struct sim_player *player)
{
    struct sim_options options = sim_options_quiet();
    options.seed = option(player, "seed", 1);
    options.shard_count = (uint32_t)option(player, "shards", 1);
    options.server_count = (uint32_t)option(player, "servers", 1);
    options.client_count = (uint32_t)option(player, "clients", 1);
    options.ttl_ms = option(player, "ttl", 10000);
    options.save_interval_ms = option(player, "interval", 60000);
    options.journal_bytes = option(player, "journal_bytes", 0);
    options.increments = (uint32_t)option(player, "increments", 0);
    options.saves = option(player, "saves", 1) != 0;
    options.journals = options.saves && option(player, "journal", 0) != 0;
    options.keeps_addresses = option(player, "addresses_kept", 0) != 0;
    bool fits = options.shard_count - 1 < SIM_SHARDS_MAX &&
                options.server_count - 1 < SIM_SERVERS_MAX &&
                options.client_count <= SIM_CLIENTS_MAX && options.ttl_ms >= PS_LEASE_TTL_MS_MIN;
    if (!fits || player->world != NULL)
        return false;
    player->world = sim_world_create(&options);
    return true;
}

static bool play_run(struct sim_player *player)
{
    uint64_t span_ms;
    if (strcmp(word(player, 1), "until") == 0 && strcmp(word(player, 2), "quiet") == 0) {
        sim_run_until_quiet(player->world, QUIET_MS);
        return true;
    }
    if (!number(word(player, 1), &span_ms))
        return false;
    sim_run(player->world, span_ms);
    return true;
}

static bool play_store(struct sim_player *player)
{
    bool down = strcmp(word(player, 1), "down") == 0;
    player->world->store_down = down;
    sim_trace(player->world, "etcd", down ? "is down" : "is up");
    return down || strcmp(word(player, 1), "up") == 0;
}

static bool cut(struct sim_player *player, bool forth, bool back, bool value)
{
    uint32_t a, b;
    if (!node_of(player, 1, &a) || !node_of(player, 2, &b))
        return false;
    sim_trace(player->world, "net", "%s %s %s", word(player, 0), word(player, 1), word(player, 2));
    if (forth)
        player->world->cut[a][b] = value;
    if (back)
        player->world->cut[b][a] = value;
    return true;
}

static bool play_cut(struct sim_player *player)
{
    return cut(player, true, true, true);
}

static bool play_mute(struct sim_player *player)
{
    return cut(player, true, false, true);
}

static bool play_join(struct sim_player *player)
{
    return cut(player, true, true, false);
}

static bool play_drop(struct sim_player *player)
{
    uint32_t a, b;
    if (!node_of(player, 1, &a) || !node_of(player, 2, &b))
        return false;
    player->world->drop_next[a][b]++;
    return true;
}

/* ---- Disks ---- */

static bool play_damage(struct sim_player *player)
{
    uint32_t shard;
    struct sim_files_view view;
    struct ps_bytes content;
    struct sim_world *world = player->world;
    if (!shard_of(player, 1, &shard))
        return false;
    sim_checker_look_at_files(world, shard, &view);
    if (!memory_files_get(world->disks[shard], view.newest, &content))
        return false;
    memory_files_flip(world->disks[shard], view.newest, content.size * 8 - 3);
    sim_trace(world, "disk", "the newest checkpoint of shard %u is damaged", shard);
    return true;
}

static bool play_disk(struct sim_player *player)
{
    uint32_t shard;
    if (!shard_of(player, 1, &shard))
        return false;
    bool full = strcmp(word(player, 2), "full") == 0;
    memory_files_knobs(player->world->disks[shard])->bytes_max = full ? 1 : 0;
    sim_trace(player->world, "disk", "of shard %u is %s", shard, full ? "full" : "fine");
    return full || strcmp(word(player, 2), "fine") == 0;
}

/* ---- Servers ---- */

static bool play_start(struct sim_player *player)
{
    struct sim_server *server = server_of(player, 1);
    if (server == NULL || server->running)
        return false;
    sim_server_start(server, (uint32_t)option(player, "index", PS_INDEX_ANY));
    return true;
}

static bool play_process(struct sim_player *player)
{
    struct sim_server *server = server_of(player, 1);
    const char *what = word(player, 0);
    if (server == NULL || !server->running || server->paused != (strcmp(what, "resume") == 0))
        return false;
    if (strcmp(what, "stop") == 0)
        sim_server_stop(server);
    else if (strcmp(what, "pause") == 0)
        sim_server_pause(server);
    else if (strcmp(what, "resume") == 0)
        sim_server_resume(server);
    else
        sim_server_crash(server, strcmp(what, "power") == 0);
    return true;
}

static bool play_doom(struct sim_player *player)
{
    struct sim_server *server = server_of(player, 1);
    uint64_t operation;
    if (server == NULL || !server->running || !number(word(player, 2), &operation))
        return false;
    server->die_at_operation = (int64_t)operation;
    return true;
}

static bool play_journal(struct sim_player *player)
{
    static const char *const fates[] = {[SIM_JOURNAL_FAILS] = "fails",
                                        [SIM_JOURNAL_DIES] = "dies",
                                        [SIM_JOURNAL_DIES_AFTER] = "synced"};
    struct sim_server *server = server_of(player, 1);
    uint64_t operation = 0;
    if (player->word_count > 3 && !number(word(player, 3), &operation))
        return false;
    for (enum sim_journal_fate i = SIM_JOURNAL_FAILS; i <= SIM_JOURNAL_DIES_AFTER; i++)
        if (server != NULL && server->running && strcmp(word(player, 2), fates[i]) == 0) {
            server->journal.fate = i;
            server->journal.operation = (int64_t)operation;
            return true;
        }
    return false;
}

static bool play_next(struct sim_player *player)
{
    static const char *const fates[] = {
        [SIM_FATE_BEFORE] = "before", [SIM_FATE_AFTER] = "after", [SIM_FATE_LATE] = "late"};
    struct sim_server *server = server_of(player, 1);
    for (enum sim_fate i = SIM_FATE_BEFORE; i <= SIM_FATE_LATE; i++)
        if (server != NULL && server->running && strcmp(word(player, 2), fates[i]) == 0) {
            server->kv->next_commit = i;
            return true;
        }
    return false;
}

/* ---- Clients ---- */

static bool play_open(struct sim_player *player)
{
    struct sim_client *client = client_of(player, 1);
    size_t count = player->word_count - 2;
    if (client == NULL || client->running || count > SIM_PARAMETERS_MAX)
        return false;
    struct sim_parameter *parameters = player->parameters[client->number];
    client->part_bytes = (size_t)option(player, "parts", 0);
    client->asks_early = client->part_bytes > 0;
    if (client->part_bytes > 0)
        count--; /* the last word */
    for (size_t i = 0; i < count; i++) {
        char *colon = strchr(player->words[2 + i], ':');
        uint64_t elements;
        if (colon == NULL || !number(colon + 1, &elements) || elements > SIM_ELEMENTS_MAX)
            return false;
        *colon = '\0';
        parameters[i] = (struct sim_parameter){.dtype = PS_F32, .count = (size_t)elements};
        snprintf(parameters[i].name, sizeof parameters[i].name, "%s", player->words[2 + i]);
    }
    sim_client_start(client, parameters, count, false);
    return true;
}

static bool play_freeze(struct sim_player *player)
{
    struct sim_client *client = client_of(player, 1);
    uint64_t span_ms;
    if (client == NULL || !client->running || !number(word(player, 2), &span_ms))
        return false;
    sim_client_pause(client, span_ms);
    return true;
}

static bool play_die(struct sim_player *player)
{
    struct sim_client *client = client_of(player, 1);
    if (client == NULL || !client->running)
        return false;
    sim_client_crash(client);
    return true;
}

static bool play_initialise(struct sim_player *player)
{
    struct sim_client *client = client_of(player, 1);
    if (client == NULL || !client->running || client->phase != SIM_PHASE_IDLE)
        return false;
    sim_client_initialise(client);
    return true;
}

static bool find_parameter(const struct sim_player *player, const struct sim_client *client,
                           size_t *parameter)
{
    for (size_t i = 0; i < client->parameter_count; i++)
        if (strcmp(client->parameters[i].name, word(player, 2)) == 0) {
            *parameter = i;
            return true;
        }
    *parameter = SIM_PARAMETERS_MAX;
    return strcmp(word(player, 2), "all") == 0;
}

static bool play_batch(struct sim_player *player)
{
    struct sim_client *client = client_of(player, 1);
    size_t parameter;
    uint64_t timeout_ms = option(player, "timeout", TIMEOUT_MS);
    if (client == NULL || !client->running || client->phase != SIM_PHASE_IDLE ||
        !find_parameter(player, client, &parameter))
        return false;
    if (strcmp(word(player, 0), "push") == 0)
        sim_client_push(client, parameter, strtod(word(player, 3), NULL), timeout_ms);
    else if (strcmp(word(player, 0), "pushpull") == 0)
        sim_client_push_pull(client, parameter, strtod(word(player, 3), NULL), timeout_ms);
    else
        sim_client_pull(client, parameter, timeout_ms);
    return true;
}

/* ---- Lines ---- */

static const struct command commands[] = {
    {"world", 1, play_world},     {"run", 2, play_run},
    {"store", 2, play_store},     {"cut", 3, play_cut},
    {"mute", 3, play_mute},       {"join", 3, play_join},
    {"drop", 3, play_drop},       {"damage", 2, play_damage},
    {"disk", 3, play_disk},       {"start", 2, play_start},
    {"stop", 2, play_process},    {"crash", 2, play_process},
    {"power", 2, play_process},   {"pause", 2, play_process},
    {"resume", 2, play_process},  {"doom", 3, play_doom},
    {"next", 3, play_next},       {"open", 2, play_open},
    {"die", 2, play_die},         {"initialise", 2, play_initialise},
    {"push", 4, play_batch},      {"pull", 3, play_batch},
    {"journal", 3, play_journal}, {"freeze", 3, play_freeze},
    {"pushpull", 4, play_batch},
};

bool sim_player_play(struct sim_player *player, char *line)
{
    char *rest = NULL;
    player->word_count = 0;
    for (char *at = strtok_r(line, " \t\n", &rest); at != NULL && at[0] != '#';
         at = strtok_r(NULL, " \t\n", &rest)) {
        if (player->word_count == SIM_WORDS_MAX)
            return false;
        player->words[player->word_count++] = at;
    }
    if (player->word_count == 0)
        return true;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct command *command = &commands[i];
        bool first = strcmp(command->word, "world") == 0;
        if (strcmp(command->word, player->words[0]) == 0)
            return player->word_count >= command->words_min && (player->world != NULL || first) &&
                   command->play(player);
    }
    return false;
}

void sim_player_fini(struct sim_player *player)
{
    sim_world_destroy(player->world);
    player->world = NULL;
}
