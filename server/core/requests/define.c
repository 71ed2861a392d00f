/* SPDX-License-Identifier: Apache-2.0 */
/* DefineParam: InitParam's checks and InitParam's build, without any lock; then, with the cut held
 * alone, what a push does: sessions, the place in the journal, the change. Its record has shape,
 * configuration and values, so that recovery builds the same parameter. */
#include "server/core/requests/change.h"

#include "base/assert.h"
#include "checkpoint/journal_definition.h"
#include "server/core/requests/change_wait.h"
#include "server/core/requests/parameter_build.h"
#include "server/core/requests/table_change.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/update/parameter_change.h"

/* One definition on its way. */
struct attempt {
    struct ps_service *service;
    const struct ps_init_request *request;
    struct ps_wish wish;
    struct ps_parameter *parameter; /* owned until the table has it */
    struct ps_journal_place place;
    struct ps_init_reply reply;
    uint64_t position; /* that the answer waits for */
};

static enum ps_status look(struct attempt *attempt, struct ps_view content,
                           struct ps_push_wait *wait, bool *is_over, struct ps_error *error);
static enum ps_status look_in_cut(struct attempt *attempt, struct ps_view content, bool *is_over,
                                  struct ps_error *error);
static enum ps_status compare(const struct ps_service *service,
                              const struct ps_parameter_spec *spec,
                              const struct ps_init_request *request, uint64_t count,
                              struct ps_error *error);
static enum ps_status define_part(struct attempt *attempt, struct ps_push_wait *wait,
                                  struct ps_error *error);
static enum ps_status define_whole(struct attempt *attempt, struct ps_push_wait *wait,
                                   struct ps_error *error);
static enum ps_status build(struct attempt *attempt, struct ps_error *error);
static enum ps_status draft_record(struct attempt *attempt, struct ps_error *error);
static enum ps_status enter(struct attempt *attempt, struct ps_error *error);
static enum ps_status enter_once(struct attempt *attempt, struct ps_error *error);
static enum ps_status insert(struct attempt *attempt, struct ps_error *error);
static void begin_wait(struct attempt *attempt, struct ps_push_wait *wait);

/* A repeat and an equal parameter are answered before every check: what was taken stays taken,
 * though it could not be taken now. The generation is read first, so that a loss of the shard at
 * whatever moment behind this line is seen when the parameter enters. */
enum ps_status ps_service_define(struct ps_service *service, const struct ps_init_request *request,
                                 struct ps_init_reply *reply, struct ps_push_wait *wait,
                                 struct ps_error *error)
{
    struct attempt attempt = {
        .service = service,
        .request = request,
        .wish = {.generation = ps_service_generation(service), .defines = true}};
    /* Of a range the content of the whole is not known. */
    bool is_part = ps_staging_is_part(request->range, request->total);
    PS_ASSERT(reply != NULL);
    bool is_over = false;
    /* A range of what is there already is answered as the whole would be: nothing is staged. */
    PS_TRY(look(&attempt, is_part ? (struct ps_view){0} : request->content, wait, &is_over, error));
    if (!is_over)
        PS_TRY(is_part ? define_part(&attempt, wait, error) : define_whole(&attempt, wait, error));
    *reply = attempt.reply;
    return PS_OK;
}

/* Is it answered already: applied before, or an equal one is there? */
static enum ps_status look(struct attempt *attempt, struct ps_view content,
                           struct ps_push_wait *wait, bool *is_over, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    ps_rwlock_read(&service->cut);
    enum ps_status status = look_in_cut(attempt, content, is_over, error);
    /* With the same cut: the position is one of this generation. */
    if (*is_over)
        begin_wait(attempt, wait);
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* With the cut held. The session comes before the table: a repeat whose parameter was dropped since
 * is told that it was taken, as it was. */
static enum ps_status look_in_cut(struct attempt *attempt, struct ps_view content, bool *is_over,
                                  struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    const struct ps_init_request *request = attempt->request;
    struct ps_session_answer given = {0};
    PS_TRY(ps_change_check_ready(service, request->shard, error));
    PS_ASSERT(attempt->parameter == NULL || attempt->reply.epoch == service->epoch);
    attempt->reply.epoch = service->epoch;
    if (request->request.present)
        PS_TRY(ps_sessions_look(&service->sessions, &request->request,
                                ps_fingerprint_of_define(request, content),
                                ps_service_unix_us(service), is_over, &given, error));
    /* A repeat waits as the first did. */
    if (*is_over) {
        attempt->position = given.position;
        return PS_OK;
    }
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    if (parameter == NULL)
        return PS_OK;
    /* The count is the whole's, which a range says and other content has. */
    bool is_part = ps_staging_is_part(request->range, request->total);
    /* A type that does not exist differs from the parameter's, whatever the count. */
    uint64_t size = (uint32_t)request->dtype < PS_DTYPE_COUNT ? ps_dtype_size(request->dtype) : 1;
    uint64_t count = is_part ? request->total : request->content.size / size;
    /* A table that is asked for says its width in the configuration, and nothing of a length. */
    if (count == 0 && ps_parameter_spec_is_table(parameter->spec))
        count = parameter->spec->count;
    PS_TRY(compare(service, parameter->spec, request, count, error));
    /* The answer waits until the definition that it speaks of is as durable as its own would be. */
    attempt->position = parameter->spec->birth;
    PS_ASSERT(attempt->position == 0 || service->position_at_begin > 0);
    attempt->reply.existed = true;
    *is_over = true;
    return PS_OK;
}

/* PS_OK: a parameter of `spec` is what the request wants. The configuration may be the present one
 * or the one that it was defined with. */
static enum ps_status compare(const struct ps_service *service,
                              const struct ps_parameter_spec *spec,
                              const struct ps_init_request *request, uint64_t count,
                              struct ps_error *error)
{
    /* Of the spec, behind whose name there is a zero byte. */
    const char *name = (const char *)spec->name.data;
    struct ps_shape shape = request->shape;
    /* One thing after the other, in the order in which a trainer's author would look. */
    char ours[PS_SHAPE_TEXT_BYTES], theirs[PS_SHAPE_TEXT_BYTES];
    if (spec->dtype != request->dtype)
        return ps_fail(error, PS_ERR_EXISTS,
                       "Name: %s exists, with elements of %s and not of the type that is asked for",
                       name, ps_dtype_name(spec->dtype));
    PS_ASSERT(spec->count > 0);
    /* Only a table is asked for without any content. */
    if (count == 0)
        return ps_fail(error, PS_ERR_EXISTS, "Name: %s exists, and is no table", name);
    /* A table's own shape is always given; who asks for an equal one may leave it out. */
    if (ps_parameter_spec_is_table(spec) && !shape.is_given)
        shape = *ps_parameter_spec_shape(spec);
    else if (!ps_parameter_spec_is_table(spec))
        ps_shape_settle(&shape, count);
    if (spec->count != count || !ps_shape_equal(ps_parameter_spec_shape(spec), &shape))
        return ps_fail(error, PS_ERR_EXISTS, "Name: %s exists, with shape %.80s and not %.80s",
                       name, ps_shape_text(ps_parameter_spec_shape(spec), spec->count, ours),
                       ps_shape_text(&shape, count, theirs));
    if (ps_parameter_config_is_same(spec->config, request->config, service->memory) ||
        ps_parameter_config_is_same(ps_parameter_spec_first(spec)->config, request->config,
                                    service->memory))
        return PS_OK;
    char difference[PS_CONFIG_DIFFERENCE_BYTES];
    return ps_fail(
        error, PS_ERR_EXISTS, "Name: %s exists, with %s", name,
        ps_parameter_config_difference(spec->config, request->config, service->memory, difference));
}

/* Puts a range to the others of its request; the last brings all of them, which go on as one. */
static enum ps_status define_part(struct attempt *attempt, struct ps_push_wait *wait,
                                  struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    struct ps_added added;
    PS_ASSERT(attempt->parameter == NULL);
    PS_TRY(ps_service_stage(service, attempt->request, PS_METHOD_DEFINE, &added, error));
    enum ps_status status = PS_OK;
    /* A range that waits for others waits for nothing else. */
    if (added.staged == NULL) {
        attempt->reply.staged = true;
        ps_rwlock_read(&service->cut);
        begin_wait(attempt, wait); /* for nothing */
        ps_rwlock_unlock(&service->cut);
    } else {
        struct ps_init_request whole = *attempt->request;
        whole.range = (struct ps_elements){0};
        whole.content = added.content;
        whole.hold = added.hold;
        /* Under the fingerprint of a message in one piece: a client may repeat it either way. */
        status = ps_service_define(service, &whole, &attempt->reply, wait, error);
        ps_staging_end(&service->staging, added.staged, status);
    }
    ps_service_count_ranges(service);
    return status;
}

/* The build and the record first, which need memory and time; then the cut, for a moment. What did
 * not get in is destroyed without it. */
static enum ps_status define_whole(struct attempt *attempt, struct ps_push_wait *wait,
                                   struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    const struct ps_init_request *request = attempt->request;
    /* An id under which ranges of something else are staged is not free. */
    if (request->request.present)
        PS_TRY(ps_staging_check_whole(&service->staging, &request->request, PS_METHOD_DEFINE,
                                      request->name, error));
    PS_TRY(build(attempt, error));
    PS_ASSERT(attempt->parameter != NULL && attempt->place.position == 0);
    ps_rwlock_write(&service->cut);
    enum ps_status status = enter(attempt, error);
    /* One that stayed outside gives its bytes back; one that got in keeps them. */
    if (attempt->parameter != NULL)
        service->bytes_used -= attempt->wish.bytes;
    if (status == PS_OK)
        begin_wait(attempt, wait);
    ps_rwlock_unlock(&service->cut);
    /* The place is read before it is released, and the writer told without the cut. */
    bool wakes_writer = attempt->place.is_first;
    ps_journal_place_release(&attempt->place);
    ps_parameter_destroy(attempt->parameter);
    if (wakes_writer)
        ps_service_tell_journal_wanted(service);
    return status;
}

/* Both the parameter and its record, which need memory. */
static enum ps_status build(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    PS_TRY(ps_wish_check(service, attempt->request, &attempt->wish, error));
    PS_TRY(ps_wish_build(service, &attempt->wish, &attempt->parameter, error));
    enum ps_status status = draft_record(attempt, error);
    /* The reservation was made by the build, and ends with the parameter. */
    if (status != PS_OK) {
        ps_parameter_destroy(attempt->parameter);
        ps_wish_unreserve(service, attempt->wish.bytes);
    }
    return status;
}

/* The values are not copied where the message can be kept (journal_queue.h): only the head is. It
 * is on the heap, since a configuration may be longer than a thread's stack should hold. */
static enum ps_status draft_record(struct attempt *attempt, struct ps_error *error)
{
    const struct ps_parameter_spec *spec = attempt->parameter->spec;
    struct ps_service *service = attempt->service;
    /* The shape as the spec has settled it, and the configuration as it came. */
    const struct ps_definition definition = {.shape = *ps_parameter_spec_shape(spec),
                                             .config = spec->config};
    PS_ASSERT(attempt->reply.epoch > 0);
    uint8_t *head = ps_plain(service->memory, PS_DEFINITION_HEAD_BYTES_MAX);
    if (head == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a record of the journal");
    const struct ps_journal_draft draft = {
        .type = PS_RECORD_DEFINE,
        .name = spec->name,
        .dtype = spec->dtype,
        .request = attempt->request->request,
        .head = {head, ps_definition_head_write(&definition, head)},
        .content = attempt->request->content,
        .hold = attempt->request->hold};
    enum ps_status status = ps_journal_place_draft(
        &attempt->place, &service->queue, &draft,
        ps_fingerprint_of_define(attempt->request, attempt->request->content), attempt->reply.epoch,
        error);
    ps_release(service->memory, head);
    return status;
}

/* With the cut held alone. What was asked before the build is asked once more: the shard may have
 * been lost, and another definition of the name may have been first. */
static enum ps_status enter(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    bool is_over = false;
    PS_ASSERT(attempt->parameter != NULL);
    if (ps_service_generation(service) != attempt->wish.generation)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the shard was lost meanwhile");
    PS_TRY(look_in_cut(attempt, attempt->request->content, &is_over, error));
    /* The parameter that was built for nothing is destroyed by the caller. */
    if (is_over)
        return PS_OK;
    PS_TRY(enter_once(attempt, error));
    return ps_service_owns(service, error);
}

/* A definition is one request of its client: it takes a slot of the session as a push does. */
static enum ps_status enter_once(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    const struct ps_init_request *request = attempt->request;
    struct ps_session_call call = {0};
    if (!request->request.present)
        return insert(attempt, error);
    PS_TRY(ps_sessions_begin(&service->sessions, &request->request,
                             ps_fingerprint_of_define(request, request->content),
                             ps_service_unix_us(service), &call, error));
    /* Nobody else has come in between, since all of it needs the cut. */
    PS_ASSERT(!call.is_repeat); /* looked at before, with the same cut */
    enum ps_status status = insert(attempt, error);
    if (status == PS_OK)
        ps_sessions_commit(&service->sessions, &call,
                           (struct ps_session_answer){.position = attempt->position});
    else
        ps_sessions_abort(&service->sessions, &call);
    return status;
}

/* The table may want memory, and the journal be full: nothing is behind both that can fail. */
static enum ps_status insert(struct attempt *attempt, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    PS_ASSERT(attempt->position == 0);
    PS_TRY(ps_service_check_header(service, attempt->parameter->spec, error));
    PS_TRY(ps_table_define(service, attempt->parameter, error));
    /* Version 0: a definition is no push. */
    enum ps_status status = ps_journal_queue_put(&attempt->place, 0, error);
    /* As if nothing had been asked: the request may come again under its id. */
    if (status != PS_OK) {
        ps_table_undefine(service, attempt->parameter);
        return status;
    }
    ps_table_defined(service, attempt->parameter, attempt->place.position);
    PS_ASSERT(attempt->place.position > 0);
    attempt->position = attempt->place.position;
    /* The table owns it, with the bytes that were reserved. */
    attempt->parameter = NULL;
    return PS_OK;
}

/* With the cut held, so that position and generation are of one state. */
static void begin_wait(struct attempt *attempt, struct ps_push_wait *wait)
{
    uint64_t durable = 0;
    PS_ASSERT(!attempt->reply.staged || attempt->position == 0);
    ps_change_begin_wait(attempt->service, attempt->position, wait, &durable);
}
