/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: batches of parameters, and the operators' calls. Each public function makes an item
 * of each of its arguments, lets the engine run them as one batch, and reads the results back in
 * the same order. The engine judges each item, and its failure stands in that item: so all the
 * others of a batch go on. */
#include "client/psclient.h"

#include "base/buffer.h"
#include "base/utf8.h"
#include "client/answers.h"
#include "client/ask.h"
#include "client/caller_structs.h"
#include "client/client_state.h"
#include "client/half_types.h"
#include "client/job_placement.h"
#include "client/round_step.h"
#include "client/status_map.h"
#include "proto/codec.h"

#include <stdio.h>
#include <string.h>

/* An item of any batch of parameters; NULL names and contents are judged later, with the rest. The
 * public types have the wire's numbers, so that a type that is none passes through here unchanged
 * and is refused there. */
struct ps_item ps_client_item(const char *name, enum psclient_type type)
{
    return (struct ps_item){.name = ps_bytes_of_text(name), .dtype = (enum ps_dtype)type};
}

/* Halves are encoded already. In a child of a fork the encoder's lock may be held for ever; nothing
 * is sent from there. */
static void encode(struct psclient *client, struct ps_item *item)
{
    if (ps_process_mark_is_child(&client->mark))
        return;
    const struct ps_layout layout = ps_client_layout(client);
    if (!item->as_is)
        ps_push_encoder_encode(&client->encoder, item, &layout);
    else if (ps_half_is_sound(item))
        ps_push_encoder_pass(&client->encoder, item, item->encoding, item->content, &layout);
}

/* Encoding comes before the engine sees the item: a gradient has one encoded form for all of its
 * attempts, or the server could apply one form and acknowledge the repeat of another. */
struct ps_item *ps_client_push_items(struct psclient *client,
                                     const struct psclient_gradient *gradients, size_t count)
{
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    /* NULL is passed on: the caller says that there was no memory, in the words of its own call. */
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i] = ps_client_push_item(client, gradients, i);
        ps_half_fit(&items[i], ps_caller_gradient(&client->sizes, gradients, i).type);
        encode(client, &items[i]);
    }
    return items;
}

/* Rounds are passed on in any case: only the server knows whether a parameter has them. */
struct ps_item ps_client_push_item(const struct psclient *client,
                                   const struct psclient_gradient *gradients, size_t i)
{
    const struct psclient_gradient gradient = ps_caller_gradient(&client->sizes, gradients, i);
    struct ps_item item = ps_client_item(gradient.name, gradient.type);
    item.content = gradient.content;
    item.size = gradient.content_size;
    item.worker = gradient.worker;
    item.round = gradient.round;
    item.weight = gradient.weight;
    return item;
}

/* The encoder learns what became of each push from the item's status, so that this comes after the
 * batch, and for items that were never sent after their status was set. */
void ps_client_release_items(struct psclient *client, struct ps_item *items, size_t count)
{
    for (size_t i = 0; items != NULL && i < count; i++)
        ps_push_encoder_settle(&client->encoder, &items[i]);
    ps_release(client->memory, items);
}

/* The results are filled before the items go. */
PS_EXPORT int psclient_push(struct psclient *client, const struct psclient_gradient *gradients,
                            size_t count, uint64_t timeout_ms, struct psclient_result *results,
                            struct psclient_error *error)
{
    struct ps_item *items = ps_client_push_items(client, gradients, count);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    int status =
        ps_client_run_items(client, PS_METHOD_PUSH, items, count, timeout_ms, results, error);
    ps_client_release_items(client, items, count);
    return status;
}

/* For whole numbers every encoding is their own; a server refuses any other. Halves have their own,
 * too. */
static void choose_reply(const struct psclient *client, struct ps_item *item)
{
    if (!item->as_is && (item->dtype == PS_F32 || item->dtype == PS_F64))
        item->encoding = client->reply_encoding;
}

/* The reply's encoding is for floats only: whole numbers travel as they are. */
struct ps_item *ps_client_push_pull_items(struct psclient *client,
                                          const struct psclient_gradient *gradients,
                                          const struct psclient_parameter *parameters, size_t count)
{
    struct ps_item *items = ps_client_push_items(client, gradients, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        /* Not the gradient's memory: a push that is sent again must find the gradient as it was,
         * also after the first bytes of an answer have come. */
        items[i].destination = ps_caller_parameter(&client->sizes, parameters, i).content;
        if (items[i].worker != 0)
            items[i].at_least_version = items[i].round;
        choose_reply(client, &items[i]);
    }
    return items;
}

/* Has an older server said that it has no PushPull? One such item is enough: all servers of a job
 * are asked in the same way from then on. */
static bool is_unknown(const struct ps_item *items, size_t count)
{
    bool is_unknown = false;
    for (size_t i = 0; i < count; i++)
        is_unknown = is_unknown || items[i].no_such_call;
    return is_unknown;
}

/* Was nothing of these applied by anybody? Then they may be pushed under other numbers. An item
 * that went to a newer server, or whose message broke on the way, may have been: pushing it again
 * would apply it twice. */
static bool is_untouched(const struct ps_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        /* An item that is wrong in itself fails here as well: nothing is gained by pushing it. */
        if (!items[i].no_such_call || items[i].may_be_applied)
            return false;
    return true;
}

/* The way for older servers. Both calls together keep the caller's timeout, since the deadline is
 * made once; a pull whose push has failed is not made, for it would read a parameter without it. */
static int push_then_pull(struct psclient *client, const struct psclient_gradient *gradients,
                          struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                          struct psclient_result *results, struct psclient_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    int status = psclient_push(client, gradients, count, timeout_ms, results, error);
    /* Of the parameters only the content was the caller's to fill in (psclient_push_pull). */
    for (size_t i = 0; i < count; i++) {
        const struct psclient_gradient gradient = ps_caller_gradient(&client->sizes, gradients, i);
        struct psclient_parameter *parameter = ps_caller_at(parameters, client->sizes.parameter, i);
        parameter->name = gradient.name;
        parameter->type = gradient.type;
        parameter->content_size = gradient.content_size;
        ps_caller_clear_waits(&client->sizes, parameter);
    }
    if (status != PSCLIENT_OK)
        return status;
    uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
    return psclient_pull(client, parameters, count, left_ms, NULL, error);
}

/* A server of before PushPull answers "unimplemented", which the engine notes in the items. The
 * answer is remembered for the client's life: a mixture of servers is a matter of an upgrade. */
PS_EXPORT int psclient_push_pull(struct psclient *client, const struct psclient_gradient *gradients,
                                 struct psclient_parameter *parameters, size_t count,
                                 uint64_t timeout_ms, struct psclient_result *results,
                                 struct psclient_error *error)
{
    /* A step has a way of its own for servers that know no such call, since its pull waits for what
     * the answer to the push says. */
    bool is_step = ps_client_contributes(client, gradients, count);
    if (atomic_load(&client->no_push_pull) && !is_step)
        return push_then_pull(client, gradients, parameters, count, timeout_ms, results, error);
    struct ps_item *items = ps_client_push_pull_items(client, gradients, parameters, count);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    if (is_step)
        return ps_client_step(client, items, parameters, count, timeout_ms, results, error);
    int status =
        ps_client_run_items(client, PS_METHOD_PUSH_PULL, items, count, timeout_ms, results, error);
    ps_client_note_pulled(client, items, parameters, count);
    if (is_unknown(items, count))
        atomic_store(&client->no_push_pull, true); /* for all that follow */
    bool may_be_pushed = is_unknown(items, count) && is_untouched(items, count);
    /* Before the push that takes its place: what the failed attempt left out is put back first, and
     * is encoded into the second one. */
    ps_client_release_items(client, items, count);
    if (!may_be_pushed)
        return status;
    return push_then_pull(client, gradients, parameters, count, timeout_ms, results, error);
}

/* The parameter's own memory is where the channel puts the content: no copy is made of what is
 * pulled. */
struct ps_item *ps_client_pull_items(struct psclient *client,
                                     const struct psclient_parameter *parameters, size_t count)
{
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i] = ps_client_pull_item(client, parameters, i);
        ps_half_fit(&items[i], ps_caller_parameter(&client->sizes, parameters, i).type);
        choose_reply(client, &items[i]);
    }
    return items;
}

struct ps_item ps_client_pull_item(const struct psclient *client,
                                   const struct psclient_parameter *parameters, size_t i)
{
    const struct psclient_parameter parameter = ps_caller_parameter(&client->sizes, parameters, i);
    struct ps_item item = ps_client_item(parameter.name, parameter.type);
    item.destination = parameter.content;
    item.size = parameter.content_size;
    item.at_least_version = parameter.at_least_version;
    item.worker = parameter.worker;
    item.clock = parameter.clock;
    item.clocks = ps_bytes_of_text(parameter.clocks);
    return item;
}

/* The type changes only for pulls that take any; else it is the one that was asked for. */
void ps_client_note_pulled(const struct psclient *client, const struct ps_item *items,
                           struct psclient_parameter *parameters, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].status != PS_OK)
            continue;
        struct psclient_parameter *parameter = ps_caller_at(parameters, client->sizes.parameter, i);
        parameter->version = items[i].pulled_version;
        if (!items[i].as_is)
            parameter->type = (enum psclient_type)items[i].dtype;
    }
}

/* A content of a type that is not known beforehand cannot be asked for in an encoding, which
 * belongs to floats: such a pull takes the type's own. */
static int pull(struct psclient *client, struct psclient_parameter *parameters, size_t count,
                bool any_type, uint64_t timeout_ms, struct psclient_result *results,
                struct psclient_error *error)
{
    struct ps_item *items = ps_client_pull_items(client, parameters, count);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    for (size_t i = 0; i < count && any_type; i++) {
        items[i].any_dtype = true;
        items[i].encoding = PS_ENCODING_NATIVE;
    }
    int status =
        ps_client_run_items(client, PS_METHOD_PULL, items, count, timeout_ms, results, error);
    ps_client_note_pulled(client, items, parameters, count);
    ps_release(client->memory, items);
    return status;
}

/* A parameter of another type than the caller's memory is refused, not converted. */
PS_EXPORT int psclient_pull(struct psclient *client, struct psclient_parameter *parameters,
                            size_t count, uint64_t timeout_ms, struct psclient_result *results,
                            struct psclient_error *error)
{
    return pull(client, parameters, count, false, timeout_ms, results, error);
}

/* Without results: the old interface has no place for them. */
int ps_client_pull_any(struct psclient *client, struct psclient_parameter *parameters, size_t count,
                       uint64_t timeout_ms, struct psclient_error *error)
{
    return pull(client, parameters, count, true, timeout_ms, NULL, error);
}

/* Also for items that failed: retries and a version may have come before the failure. */
static void fill_result(const struct psclient *client, const struct ps_item *item,
                        struct psclient_result *results, size_t i)
{
    struct psclient_result result = {.status = ps_client_status_of(item->status),
                                     .version = item->version,
                                     .retries = item->retries,
                                     .duplicate = item->duplicate ? 1 : 0,
                                     .position = item->position,
                                     .existed = item->existed ? 1 : 0,
                                     .held = item->held ? 1 : 0,
                                     .late = item->late ? 1 : 0};
    /* Half of what the item has: the end says what is wrong, and the name is the caller's own. */
    ps_utf8_shorten(result.text, sizeof result.text, item->text);
    ps_caller_copy(ps_caller_at(results, client->sizes.result, i), client->sizes.result, &result,
                   sizeof result);
}

/* The deadline is made here, from the caller's timeout, and passed down: no attempt starts a time
 * of its own. */
struct ps_batch_request ps_client_request(struct psclient *client, enum ps_method method,
                                          struct ps_item *items, size_t count, uint64_t timeout_ms)
{
    return (struct ps_batch_request){.method = method,
                                     .ack = client->ack,
                                     .items = items,
                                     .item_count = count,
                                     .deadline_ms = ps_deadline_after(client->clock, timeout_ms),
                                     .init_epochs = client->init_epochs};
}

/* Runs the batch and says what the public functions say. */
int ps_client_run_items(struct psclient *client, enum ps_method method, struct ps_item *items,
                        size_t count, uint64_t timeout_ms, struct psclient_result *results,
                        struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    const struct ps_batch_request request =
        ps_client_request(client, method, items, count, timeout_ms);
    if (ps_client_run(client, &request, &why) == PS_OK)
        return ps_client_verdict(client, items, count, results, error);
    return ps_client_refuse_items(client, items, count, &why, results, error);
}

/* Their batch was never started. Items that the engine has judged wrong keep their own reason. */
int ps_client_refuse_items(struct psclient *client, struct ps_item *items, size_t count,
                           const struct ps_error *why, struct psclient_result *results,
                           struct psclient_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == PS_OK) {
            items[i].status = why->status;
            snprintf(items[i].text, sizeof items[i].text, "%.255s", why->text);
        }
        /* Results are complete after a failure as well, so that a caller may look at them without
         * asking why. */
        if (results != NULL)
            fill_result(client, &items[i], results, i);
    }
    return ps_client_fail(error, why->status, why->text);
}

/* The first failure in request order, not in time: the same batch fails with the same text,
 * whichever server was slower. */
int ps_client_verdict(const struct psclient *client, const struct ps_item *items, size_t count,
                      struct psclient_result *results, struct psclient_error *error)
{
    for (size_t i = 0; results != NULL && i < count; i++)
        fill_result(client, &items[i], results, i);
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == PS_OK)
            continue;
        /* The name comes first, since a batch may have thousands of items, and is cut before the
         * reason is; both fit. */
        char text[sizeof error->text];
        char reason[151];
        ps_utf8_shorten(reason, sizeof reason, items[i].text);
        snprintf(text, sizeof text, "%.*s: %s",
                 (int)(items[i].name.size < 100 ? items[i].name.size : 100),
                 (const char *)items[i].name.data, reason);
        /* Texts that begin so have the name in them. */
        bool named = items[i].name.size > 0 && strncmp(items[i].text, "parameter", 9) != 0;
        return ps_client_fail(error, items[i].status, named ? text : items[i].text);
    }
    return ps_client_succeed(error);
}

/* ---- Operators ---- */

/* Of a server that does not answer an operator wants to know at least where it should be: the
 * route's address, which may be empty. Routes change with the members, hence the lock. */
PS_EXPORT int psclient_server_status(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                                     struct psclient_server_status *status,
                                     struct psclient_error *error)
{
    struct psclient_server_status now = {.index = index};
    struct ps_item item = {.shard = index, .answer = ps_answer_server(&now)};
    int result = ps_client_run_items(client, PS_METHOD_STATUS, &item, 1, timeout_ms, NULL, error);
    if (result != PSCLIENT_OK)
        now = (struct psclient_server_status){.index = index};
    if (result != PSCLIENT_OK && index < client->shard_count &&
        !ps_process_mark_is_child(&client->mark)) {
        ps_mutex_lock(&client->mutex);
        memcpy(now.address, client->routes[index].address, sizeof now.address);
        ps_mutex_unlock(&client->mutex);
    }
    ps_caller_copy(status, client->sizes.server_status, &now, sizeof now);
    return result;
}

/* The rows are written by the taker while the reply is there; the results say how many. */
PS_EXPORT int psclient_list(struct psclient *client, uint32_t index, const char *after,
                            struct psclient_param_info *rows, size_t count_max, size_t *count,
                            int *more, uint64_t timeout_ms, struct psclient_error *error)
{
    return psclient_list_configs(client, index, after, rows, NULL, count_max, count, more,
                                 timeout_ms, error);
}

/* A server that does not tell configurations leaves them empty. They are asked for only where there
 * is a place for them, since an answer with them is several times as long. */
PS_EXPORT int psclient_list_configs(struct psclient *client, uint32_t index, const char *after,
                                    struct psclient_param_info *rows,
                                    struct psclient_config *configs, size_t count_max,
                                    size_t *count, int *more, uint64_t timeout_ms,
                                    struct psclient_error *error)
{
    struct ps_list_rows list = {.rows = rows,
                                .row_size = client->sizes.param_info,
                                .count_max = count_max,
                                .configs = configs};
    struct ps_item item = {.shard = index,
                           .name = ps_bytes_of_text(after),
                           .rows_max = (uint32_t)count_max,
                           .with_config = configs != NULL,
                           .answer = ps_answer_list(&list)};
    int result = ps_client_run_items(client, PS_METHOD_LIST, &item, 1, timeout_ms, NULL, error);
    if (result != PSCLIENT_OK)
        return result;
    *count = list.count;
    *more = list.more ? 1 : 0;
    return result;
}

/* Waits for the server to save, which may be minutes: the caller's timeout is the limit, and a call
 * that is given up does not stop the save. */
PS_EXPORT int psclient_save(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                            struct psclient_saved *saved, struct psclient_error *error)
{
    struct psclient_saved now = {.position = 0};
    struct ps_item item = {.shard = index, .answer = ps_answer_saved(&now)};
    int result = ps_client_run_items(client, PS_METHOD_SAVE, &item, 1, timeout_ms, NULL, error);
    if (result == PSCLIENT_OK)
        ps_caller_copy(saved, client->sizes.saved, &now, sizeof now);
    return result;
}

/* The epoch makes the order good for one server only: a repeat of it that arrives late must not end
 * the successor. */
PS_EXPORT int psclient_drain(struct psclient *client, uint32_t index, uint64_t epoch,
                             uint64_t timeout_ms, struct psclient_error *error)
{
    char room[16];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_encode_drain(&(struct ps_drain_request){epoch}, &message);
    return ps_client_ask(client, index, PS_METHOD_DRAIN, &message, NULL, timeout_ms, error);
}

/* The bytes of the answer end with the message that brought them, so that they are read at once. */
int ps_client_ask(struct psclient *client, uint32_t index, enum ps_method method,
                  const struct ps_buffer *message, struct ps_fields *fields, uint64_t timeout_ms,
                  struct psclient_error *error)
{
    struct ps_item item = {.shard = index};
    if (message != NULL)
        item.ask = (struct ps_bytes){(const uint8_t *)message->text, message->size};
    if (fields != NULL)
        item.answer = ps_answer_fields(fields);
    return ps_client_run_items(client, method, &item, 1, timeout_ms, NULL, error);
}
