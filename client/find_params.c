/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of ListParams, of all servers side by side, until every server has told its last. Only the
 * part of each list is asked for that begins as all the names do. */
#include "client/find_params.h"

#include "base/assert.h"
#include "base/range_name.h"

#include <string.h>

/* Room for so many rows at first. */
#define PLACES_MIN 16

/* One server's list, on its way. */
struct list_reader {
    struct psclient *client;             /* borrowed */
    const struct ps_sought_param *names; /* borrowed; NULL: all with the prefix */
    size_t count;
    struct ps_bytes prefix; /* borrowed */
    struct ps_found_params *found;
    uint32_t shard;
    bool more;
    size_t after_size;
    char after[PS_NAME_BYTES_MAX]; /* the last name that was told */
};

static enum ps_status read_pages(struct psclient *client, struct list_reader *readers,
                                 uint64_t deadline_ms, struct ps_error *error);
static enum ps_status take_page(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error);
static enum ps_status take_row(struct list_reader *reader, struct ps_bytes name,
                               struct ps_error *error);
static bool is_sought(const struct list_reader *reader, struct ps_bytes base, size_t *which);
static size_t common_prefix(const struct ps_sought_param *names, size_t count);

/* A reader for each server, each with a place in its own list. */
enum ps_status ps_find_params(struct psclient *client, const struct ps_sought_param *names,
                              size_t count, const char *prefix, uint64_t deadline_ms,
                              struct ps_found_params *found, struct ps_error *error)
{
    PS_ASSERT((names == NULL) == (prefix != NULL) && (names == NULL || count > 0));
    struct list_reader *readers =
        ps_zeroed_array(client->memory, client->shard_count, sizeof *readers);
    if (readers == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look for parameters");
    /* The servers are asked for no more than the part of their lists that can have a match. */
    struct ps_bytes begin = ps_bytes_of_text(prefix);
    if (count > 0)
        begin = (struct ps_bytes){(const uint8_t *)names[0].name, common_prefix(names, count)};
    /* All servers are asked, since any of them may have a range, and none is worth more than the
     * others. */
    for (uint32_t i = 0; i < client->shard_count; i++)
        readers[i] = (struct list_reader){.client = client,
                                          .names = names,
                                          .count = count,
                                          .prefix = begin,
                                          .found = found,
                                          .shard = i,
                                          .more = true};
    /* The rows are in `found`, which outlives the readers. */
    enum ps_status status = read_pages(client, readers, deadline_ms, error);
    ps_release(client->memory, readers);
    return status;
}

/* The names are sorted: what the first and the last have in common, all have. */
static size_t common_prefix(const struct ps_sought_param *names, size_t count)
{
    const char *first = names[0].name;
    const char *last = names[count - 1].name;
    /* Of a single name it is the name: then each server tells one row, or some ranges. */
    size_t size = 0;
    while (first[size] != '\0' && first[size] == last[size])
        size++;
    return size;
}

/* An item for each server that has another page; how many there are. */
static size_t next_pages(struct list_reader *readers, uint32_t reader_count, struct ps_item *items)
{
    size_t count = 0;
    for (uint32_t i = 0; i < reader_count; i++) {
        struct list_reader *reader = &readers[i];
        if (reader->more)
            items[count++] =
                (struct ps_item){.shard = i,
                                 .name = {(const uint8_t *)reader->after, reader->after_size},
                                 .prefix = reader->prefix,
                                 .answer = {take_page, reader}};
    }
    return count;
}

/* The next page of every server that has one, as one batch, again and again. */
static enum ps_status read_pages(struct psclient *client, struct list_reader *readers,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    struct ps_item *items = ps_zeroed_array(client->memory, client->shard_count, sizeof *items);
    if (items == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look for parameters");
    struct ps_batch_request request = {
        .method = PS_METHOD_LIST, .items = items, .deadline_ms = deadline_ms};
    /* A last round without an item costs nothing: such a batch is finished when it begins. */
    do {
        request.item_count = next_pages(readers, client->shard_count, items);
        status = ps_client_run(client, &request, error);
        for (size_t i = 0; status == PS_OK && i < request.item_count; i++) {
            status = items[i].status;
            /* One server that does not answer may have what is looked for: half of an answer would
             * say that it is not there. */
            if (status != PS_OK)
                ps_fail(error, status, "shard %u: %s", items[i].shard, items[i].text);
        }
    } while (status == PS_OK && request.item_count > 0);
    ps_release(client->memory, items);
    return status;
}

/* A page that says "more" and brings nothing further ends the list: nothing could be asked after
 * it. */
static enum ps_status take_page(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error)
{
    struct list_reader *reader = self;
    const struct ps_list_reply *list = &reply->list;
    /* Rows that were taken before memory is refused are released with all the others. */
    for (size_t i = 0; i < list->param_count; i++)
        PS_TRY(take_row(reader, list->params[i].name, error));
    reader->more = list->more && list->param_count > 0;
    /* The name is copied: the reply's memory ends with the batch. */
    if (!reader->more)
        return PS_OK;
    struct ps_bytes last = list->params[list->param_count - 1].name;
    if (last.size > sizeof reader->after)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a name of %zu bytes in a list", last.size);
    reader->after_size = last.size;
    memcpy(reader->after, last.data, last.size);
    return PS_OK;
}

/* Twice as many each time, so that a job of thousands is copied a few times only. */
static enum ps_status make_room(const struct ps_allocator *memory, struct ps_found_params *found,
                                struct ps_error *error)
{
    if (found->count < found->places)
        return PS_OK;
    size_t places = found->places > 0 ? 2 * found->places : PLACES_MIN;
    struct ps_found_param *rows = ps_zeroed_array(memory, places, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parameters", places);
    if (found->count > 0)
        memcpy(rows, found->rows, found->count * sizeof *rows);
    ps_release(memory, found->rows);
    found->rows = rows;
    found->places = places;
    return PS_OK;
}

/* Under the name of its parameter a range is looked for; a name that only looks like a range's was
 * refused when it was given (client/engine/placement.h). */
static enum ps_status take_row(struct list_reader *reader, struct ps_bytes name,
                               struct ps_error *error)
{
    struct ps_bytes base = name;
    uint32_t range = 0, ranges = 1;
    size_t which = 0;
    /* What does not come apart is a whole parameter, whatever is in its name. */
    if (!ps_range_name_split(name, &base, &range, &ranges))
        base = name;
    if (name.size > PS_NAME_BYTES_MAX || !is_sought(reader, base, &which))
        return PS_OK;
    struct ps_found_params *found = reader->found;
    PS_TRY(make_room(reader->client->memory, found, error));
    /* Copied: the reply ends with the batch, and these names are sent back. */
    struct ps_found_param *row = &found->rows[found->count++];
    *row = (struct ps_found_param){.which = which,
                                   .shard = reader->shard,
                                   .range = range,
                                   .ranges = ranges,
                                   .size = name.size};
    memcpy(row->name, name.data, name.size);
    return PS_OK;
}

/* As strcmp orders names of which one is not a text. */
static int compare(struct ps_bytes base, const char *name)
{
    int order = strncmp((const char *)base.data, name, base.size);
    /* A name that goes on comes behind one that ends. */
    return order == 0 && name[base.size] != '\0' ? -1 : order;
}

/* A server that does not know prefixes lists everything: so this is looked at here as well. */
static bool is_sought(const struct list_reader *reader, struct ps_bytes base, size_t *which)
{
    /* Also of ranges: the prefix is that of the parameter. */
    if (reader->names == NULL)
        return base.size >= reader->prefix.size &&
               memcmp(base.data, reader->prefix.data, reader->prefix.size) == 0;
    /* Between `low` and `high` the name is, if it is there. */
    size_t low = 0, high = reader->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(base, reader->names[middle].name);
        if (order == 0) {
            *which = reader->names[middle].which;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* Zeroed ones have nothing. */
void ps_found_params_fini(struct psclient *client, struct ps_found_params *found)
{
    ps_release(client->memory, found->rows);
    *found = (struct ps_found_params){0};
}
