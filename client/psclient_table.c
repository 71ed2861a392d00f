/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: tables that are defined, opened and closed. A table is a parameter that every
 * server has under one name: it is defined at each of them, and any of them can tell what it is.
 * Which server has a key is worked out here from that, and nobody is asked where a row is. */
#include "client/psclient.h"

#include "base/attributes.h"
#include "client/status_map.h"
#include "client/table_state.h"

#include <stdio.h>
#include <string.h>

static int give(struct psclient *client, enum ps_method method, const struct ps_item *wish,
                const bool *is_wanted, bool *was_before, uint64_t deadline_ms,
                struct psclient_error *error);
static enum ps_status may_initialise(struct psclient *client, uint64_t deadline_ms, bool *may,
                                     struct ps_error *error);
static int give_to_all(struct psclient *client, const struct ps_item *wish, uint64_t deadline_ms,
                       struct psclient_error *error);

/* ---- Defining ---- */

/* The rule's bytes go as they came, with the table's settings behind them: a field of a newer
 * .proto needs no newer client. */
static enum ps_status make_config(const struct psclient_table_options *options,
                                  struct ps_buffer *config, struct ps_error *error)
{
    if (options->bound_count > PS_TABLE_BOUNDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu bounds of a table: at most %d go",
                       options->bound_count, PS_TABLE_BOUNDS_MAX);
    if (options->clocks != NULL && strlen(options->clocks) > PS_CLOCKS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a name of clocks of %zu bytes: at most %d go",
                       strlen(options->clocks), PS_CLOCKS_NAME_BYTES_MAX);
    if (options->config != NULL)
        ps_buffer_append(config, (struct ps_bytes){options->config, options->config_size});
    if (options->width > 0)
        ps_table_wish_encode(options, config);
    return ps_buffer_status(config, error);
}

/* A table is made here first: what is wrong with it in itself costs no message, and there is no
 * memory to be asked for when the servers have it. */
PS_EXPORT int psclient_table_define(struct psclient *client,
                                    const struct psclient_table_options *options,
                                    uint64_t timeout_ms, struct psclient_table **out,
                                    struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    struct psclient_table *table = NULL;
    struct ps_buffer config;
    struct ps_item wish = ps_client_item(options->name, (enum psclient_type)options->type);
    /* A configuration that is too long fails here, and not at the first of several servers. */
    ps_buffer_init(&config, client->memory, PS_CONFIG_BYTES_MAX);
    enum ps_status status = make_config(options, &config, &why);
    wish.of_table = true;
    wish.config = (struct ps_bytes){(const uint8_t *)config.text, config.size};
    if (status == PS_OK)
        status = ps_table_create(client, wish.name, wish.dtype, wish.config, &table, &why);
    /* The servers judge what only they know: whether the rule and the type go with a table. */
    int result = status == PS_OK ? give_to_all(client, &wish, deadline_ms, error)
                                 : ps_client_fail(error, status, why.text);
    ps_buffer_fini(&config);
    if (result == PSCLIENT_OK)
        *out = table;
    else
        ps_table_destroy(table);
    return result;
}

/* Whoever initialises the job gives the table to it. At servers that were initialised before, by a
 * trainer that died half-way, the table is defined, as everybody else does: they wait, like callers
 * of psclient_define, until the job is initialised. */
static int give_to_all(struct psclient *client, const struct ps_item *wish, uint64_t deadline_ms,
                       struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    bool may_init = false;
    enum ps_status status = may_initialise(client, deadline_ms, &may_init, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    bool *defines = ps_plain(client->memory, client->shard_count * sizeof *defines);
    if (defines == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    for (uint32_t i = 0; i < client->shard_count; i++)
        defines[i] = !may_init;
    int result = PSCLIENT_OK;
    if (may_init)
        result = give(client, PS_METHOD_INIT, wish, NULL, defines, deadline_ms, error);
    if (result == PSCLIENT_OK)
        result = give(client, PS_METHOD_DEFINE, wish, defines, NULL, deadline_ms, error);
    ps_release(client->memory, defines);
    return result;
}

/* The right to initialise is this client's, or is nobody's: servers of a list that have no such
 * right take parameters from whoever gives them. */
static enum ps_status may_initialise(struct psclient *client, uint64_t deadline_ms, bool *may,
                                     struct ps_error *error)
{
    bool is_ready = true;
    /* The right belongs to whichever thread is initialising; it is only looked at here. */
    PS_TRY(ps_client_enter_initialising(client, deadline_ms, error));
    *may = client->initialiser.holding;
    /* Lost a moment later, it makes servers refuse what is given: nothing is initialised twice. */
    ps_client_leave_initialising(client);
    if (*may || !client->is_list)
        return PS_OK;
    PS_TRY(ps_client_ask_ready(client, 0, deadline_ms, &is_ready, error));
    *may = !is_ready;
    return PS_OK;
}

/* The same item for every server that wants it; NULL: for all. `was_before` (may be NULL) is told
 * which of them had been initialised before, and has not looked at it. */
static int give(struct psclient *client, enum ps_method method, const struct ps_item *wish,
                const bool *is_wanted, bool *was_before, uint64_t deadline_ms,
                struct psclient_error *error)
{
    struct ps_item *items = ps_zeroed_array(client->memory, client->shard_count, sizeof *items);
    size_t count = 0;
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    for (uint32_t i = 0; i < client->shard_count; i++) {
        if (is_wanted != NULL && !is_wanted[i])
            continue;
        /* No content goes along: a table begins without rows. */
        items[count] = *wish;
        items[count++].shard = i;
    }
    int result = ps_client_run_items(client, method, items, count,
                                     ps_time_left_ms(client->clock, deadline_ms), NULL, error);
    /* Of an item that failed this says nothing, and the call has failed. */
    for (size_t i = 0; was_before != NULL && i < count; i++)
        was_before[items[i].shard] = items[i].before;
    ps_release(client->memory, items);
    return result;
}

/* ---- Opening ---- */

/* Where an answer goes while the engine has it. */
struct opening {
    struct psclient *client;
    struct ps_bytes name;
    struct psclient_table *table; /* filled in */
};

/* The list is sorted: the name itself comes before those that only begin so. */
static enum ps_status take_row(void *self, const struct ps_call_reply *reply,
                               struct ps_error *error)
{
    struct opening *opening = self;
    const struct ps_list_reply *list = &reply->list;
    const struct ps_param_info *row = list->params;
    /* A server that is older than prefixes lists its first parameter, whatever that is called. */
    if (list->param_count == 0 || !ps_bytes_equal(row->name, opening->name))
        return ps_fail(error, PS_ERR_NOT_FOUND, "no such table");
    return ps_table_create(opening->client, row->name, row->dtype, row->config, &opening->table,
                           error);
}

/* The first server is asked, which has the table as every other does: a table that was defined at
 * some servers only, by a client that died meanwhile, is found out by the first push or read. */
PS_EXPORT int psclient_table_open(struct psclient *client, const char *name, uint64_t timeout_ms,
                                  struct psclient_table **table, struct psclient_error *error)
{
    struct opening opening = {.client = client, .name = ps_bytes_of_text(name)};
    struct ps_item item = {
        .rows_max = 1, .prefix = opening.name, .with_config = true, .answer = {take_row, &opening}};
    /* Every name begins with the empty one: the server would tell its first parameter. */
    if (opening.name.size == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a table's name is empty");
    int result = ps_client_run_items(client, PS_METHOD_LIST, &item, 1, timeout_ms, NULL, error);
    if (result == PSCLIENT_OK)
        *table = opening.table;
    return result;
}

/* Nothing is told to the servers: a table has no readers that they would count. */
PS_EXPORT void psclient_table_close(struct psclient_table *table)
{
    ps_table_destroy(table);
}

/* ---- Asking ---- */

/* What does not change after open is told without a lock. */
PS_EXPORT const char *psclient_table_name(const struct psclient_table *table)
{
    return table->name;
}

PS_EXPORT uint32_t psclient_table_width(const struct psclient_table *table)
{
    return table->width;
}

PS_EXPORT int psclient_table_type(const struct psclient_table *table)
{
    return (int)table->dtype;
}

/* For callers that know no types: how far apart two rows lie in their memory. */
PS_EXPORT size_t psclient_table_row_bytes(const struct psclient_table *table)
{
    return table->row_bytes;
}

/* For tools, and for trainers that keep the keys of one server together. */
PS_EXPORT uint32_t psclient_table_shard(const struct psclient_table *table, uint64_t key)
{
    return ps_partition_shard(&table->partition, key);
}

/* Copied: the caller's text may go. Both or neither, as the servers want it: a clock without a
 * worker would wait for nothing. */
PS_EXPORT int psclient_table_at(struct psclient_table *table, const char *clocks, uint32_t worker,
                                uint64_t clock, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    size_t size = clocks != NULL ? strlen(clocks) : 0;
    /* In a child of a fork the table's lock may be held for ever. */
    if (ps_client_check_process(table->client, &why) != PS_OK)
        return ps_client_fail(error, why.status, why.text);
    if (size > PS_CLOCKS_NAME_BYTES_MAX)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a name of clocks is at most 64 bytes long");
    if (size > 0 && worker == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "a pull at a clock names a worker and the clocks");
    ps_mutex_lock(&table->mutex);
    memset(table->clocks, 0, sizeof table->clocks);
    if (size > 0)
        memcpy(table->clocks, clocks, size);
    table->worker = size > 0 ? worker : 0;
    table->clock = size > 0 ? clock : 0;
    if (table->cache != NULL && size > 0)
        ps_row_cache_at(table->cache, clocks, worker, clock);
    ps_mutex_unlock(&table->mutex);
    return ps_client_succeed(error);
}
