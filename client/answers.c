/* SPDX-License-Identifier: Apache-2.0 */
/* From decoded replies to the rows of the public header, in which every text has a fixed size, so
 * that a caller has nothing to free. Texts in a reply are borrowed and end with the batch:
 * everything is copied here, while the engine still holds the reply. */
#include "client/answers.h"

#include "client/caller_structs.h"

#include <string.h>

static enum ps_status take_server(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error);
static enum ps_status take_list(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error);
static void copy_row(struct psclient_param_info *row, const struct ps_param_info *info);
static void copy_config(struct psclient_config *to, struct ps_bytes config);
static enum ps_status take_changed(void *self, const struct ps_call_reply *reply,
                                   struct ps_error *error);
static enum ps_status take_saved(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error);
static void copy_text(char *to, size_t size, const char *from);

/* A taker is a function and the place that it writes to. By it the engine, which must not know the
 * public header, gives answers to code that does. */
struct ps_answer_taker ps_answer_server(struct psclient_server_status *to)
{
    return (struct ps_answer_taker){take_server, to};
}

struct ps_answer_taker ps_answer_list(struct ps_list_rows *to)
{
    return (struct ps_answer_taker){take_list, to};
}

struct ps_answer_taker ps_answer_changed(struct ps_changed *to)
{
    return (struct ps_answer_taker){take_changed, to};
}

struct ps_answer_taker ps_answer_saved(struct psclient_saved *to)
{
    return (struct ps_answer_taker){take_saved, to};
}

/* Numbers are taken as they are: what a newer server adds is left out here, and what an older one
 * does not say is 0. */
static enum ps_status take_server(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    (void)error;
    struct psclient_server_status *to = self;
    const struct ps_status_reply *from = &reply->status;
    to->index = from->index;
    copy_text(to->address, sizeof to->address, from->address);
    copy_text(to->state, sizeof to->state, from->state);
    copy_text(to->version, sizeof to->version, from->program_version);
    copy_text(to->device, sizeof to->device, from->device);
    copy_text(to->checkpoint_uuid, sizeof to->checkpoint_uuid, from->checkpoint_uuid);
    to->epoch = from->epoch;
    to->parameter_count = from->parameter_count;
    to->parameter_bytes = from->parameter_bytes;
    to->state_bytes = from->state_bytes;
    to->push_count = from->push_count;
    to->pull_count = from->pull_count;
    to->position = from->position;
    to->checkpoint_position = from->checkpoint_position;
    to->checkpoint_unix_ns = from->checkpoint_unix_ns;
    to->uptime_ms = from->uptime_ms;
    to->lost_push_count = from->lost_count;
    to->placement = from->placement;
    return PS_OK;
}

/* The server may know more rows than there is room for: the caller asks for the rest by name. A
 * server that sends more than it was asked for is cut here, and `more` then holds in any case. */
static enum ps_status take_list(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error)
{
    (void)error;
    struct ps_list_rows *to = self;
    const struct ps_list_reply *from = &reply->list;
    to->count = from->param_count < to->count_max ? from->param_count : to->count_max;
    to->more = from->more || from->param_count > to->count;
    for (size_t i = 0; i < to->count; i++) {
        struct psclient_param_info row = {.type = PSCLIENT_INT32};
        copy_row(&row, &from->params[i]);
        ps_caller_copy(ps_caller_at(to->rows, to->row_size, i), to->row_size, &row, sizeof row);
        /* In an array of their own: most who list want none of them. */
        if (to->configs != NULL)
            copy_config(&to->configs[i], from->params[i].config);
    }
    return PS_OK;
}

/* A configuration without its end would look like another one: so its size is told alone, which no
 * reader takes for a configuration. */
static void copy_config(struct psclient_config *to, struct ps_bytes config)
{
    to->step = 0;
    to->size = config.size;
    if (config.size > 0 && config.size <= sizeof to->bytes)
        memcpy(to->bytes, config.data, config.size);
}

/* Of a drop the configuration is empty. That of a change is the caller's to look at; everything
 * else is put together of ranges first. */
static enum ps_status take_changed(void *self, const struct ps_call_reply *reply,
                                   struct ps_error *error)
{
    (void)error;
    struct ps_changed *to = self;
    const struct ps_change_reply *from = &reply->change;
    to->version = from->version;
    to->position = from->position;
    to->step = from->step;
    /* Under its number it had been done before: it counts once. */
    to->duplicate = from->duplicate;
    if (to->config != NULL)
        copy_config(to->config, from->config);
    return PS_OK;
}

/* The type is the wire's number in both structs. A name is bytes with a length and may be as long
 * as the row's field allows: then the end is cut, never left without a terminator. */
static void copy_row(struct psclient_param_info *row, const struct ps_param_info *info)
{
    size_t name_size = info->name.size < sizeof row->name ? info->name.size : sizeof row->name - 1;
    if (name_size > 0)
        memcpy(row->name, info->name.data, name_size);
    row->name[name_size] = '\0';
    row->type = (enum psclient_type)info->dtype;
    row->element_count = info->element_count;
    row->version = info->version;
    row->state_bytes = info->state_bytes;
    row->learning_rate = info->learning_rate;
    copy_text(row->rule, sizeof row->rule, info->rule);
    row->round_workers = info->round_workers;
    row->round_counted = info->round_counted;
    copy_text(row->round_missing, sizeof row->round_missing, info->round_missing);
    /* A row always has a shape to show, also from a server that knows none. */
    row->rank = info->shape.is_given ? info->shape.rank : 1;
    memcpy(row->shape, info->shape.lengths, sizeof row->shape);
    if (!info->shape.is_given)
        row->shape[0] = info->element_count;
}

_Static_assert(PSCLIENT_RANK_MAX == PS_SHAPE_RANK_MAX, "a row has room for every shape");

/* The path is one of the server's machine: good for a person who looks there, not to be opened
 * here. */
static enum ps_status take_saved(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    (void)error;
    struct psclient_saved *to = self;
    const struct ps_save_reply *from = &reply->save;
    copy_text(to->uuid, sizeof to->uuid, from->uuid);
    copy_text(to->path, sizeof to->path, from->path);
    to->position = from->position;
    to->bytes = from->bytes;
    return PS_OK;
}

/* Cuts what does not fit, and takes a text that is missing for an empty one: a row is printed in
 * any case. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = from == NULL ? 0 : strnlen(from, size - 1);
    if (length > 0)
        /* The last byte of the field is left for the terminator: strnlen stops one short of its
         * size. */
        memcpy(to, from, length);
    to[length] = '\0';
}

/* Bytes of the reply end with the batch; the reader copies what the caller wants of them. */
static enum ps_status take_fields(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    return ps_fields_read(reply->ask, self, error);
}

struct ps_answer_taker ps_answer_fields(struct ps_fields *fields)
{
    return (struct ps_answer_taker){take_fields, fields};
}
