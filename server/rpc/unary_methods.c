/* What each method does: decode, call the service, encode. No rule of the parameter server lives
 * here. */
#include "server/rpc/unary_call.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "proto/bundle_codec.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_content.h"

#include <string.h>

/* A reply to the four calls is a name and a few numbers; one to an operator's may be long. */
enum {
    MANY_SLOTS = 160, /* more than one connection may have streams: none can take them all */
    SMALL_REPLY_BYTES_MAX = PS_BUNDLE_ITEM_BYTES_MAX,
    STATUS_REPLY_BYTES_MAX = 8 * 1024,
    LIST_REPLY_BYTES_MAX = PS_MESSAGE_BYTES_DEFAULT
};

static bool push_is_settled(struct ps_exchange *exchange);

static bool answer_init(struct ps_exchange *exchange)
{
    struct ps_init_request request;
    struct ps_init_reply reply;
    struct ps_decoded decoded;
    exchange->status = ps_decode_init(exchange->request, exchange->context->memory, &request,
                                      &decoded, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    request.hold = exchange->hold;
    exchange->status =
        ps_service_init(exchange->context->service, &request, &reply, &exchange->error);
    ps_decoded_release(&decoded);
    if (exchange->status == PS_OK)
        ps_encode_init_reply(&reply, exchange->reply);
    return true;
}

/* True when the reply may go out: the checkpoint that the ticket stands for is durable, or will
 * never be, which then is the reply. */
static bool ticket_is_settled(struct ps_exchange *exchange)
{
    struct ps_service *service = exchange->context->service;
    if (!ps_service_abandoned(service, exchange->ticket))
        return ps_service_satisfied(service, exchange->ticket);
    exchange->status = ps_fail(&exchange->error, PS_ERR_UNAVAILABLE,
                               "the shard was lost before its checkpoint was saved");
    return true;
}

/* A checkpoint that cannot be written is tried again, perhaps for hours: whoever waits is told why,
 * and may send the call again. */
static bool finish_is_settled(struct ps_exchange *exchange)
{
    struct ps_error why;
    if (ticket_is_settled(exchange))
        return true;
    if (!ps_service_save_failed(exchange->context->service, exchange->ticket, &why))
        return false;
    exchange->status =
        ps_fail(&exchange->error, PS_ERR_UNAVAILABLE,
                "no checkpoint yet, it is tried again, and so may this be: %.180s", why.text);
    return true;
}

/* Waits for the ticket whatever the status is: the reply promises a durable checkpoint. */
static bool answer_finish(struct ps_exchange *exchange)
{
    struct ps_service *service = exchange->context->service;
    if (exchange->asked)
        return finish_is_settled(exchange);
    struct ps_finish_request request;
    struct ps_decoded decoded;
    exchange->status = ps_decode_finish(exchange->request, exchange->context->memory, &request,
                                        &decoded, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    exchange->asked = true;
    exchange->status = ps_service_finish(service, &request, &exchange->ticket, &exchange->error);
    /* The messages that brought all parameters were larger than any to come. */
    if (exchange->status == PS_OK)
        ps_allocator_give_back();
    ps_decoded_release(&decoded);
    return finish_is_settled(exchange);
}

/* Waits until what the push was promised holds: that it is durable, when it asked for that. */
static bool answer_push(struct ps_exchange *exchange)
{
    if (exchange->asked)
        return push_is_settled(exchange);
    struct ps_push_request request;
    struct ps_shared_content content;
    struct ps_decoded decoded;
    exchange->status = ps_decode_push(exchange->request, exchange->context->memory, &request,
                                      &decoded, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    exchange->leaves = exchange->may_leave && ps_service_push_work(exchange->context->service,
                                                                   &request) >= PS_LARGE_WORK_BYTES;
    if (exchange->leaves) {
        ps_decoded_release(&decoded);
        return false;
    }
    request.hold = exchange->hold;
    exchange->asked = true;
    exchange->status =
        ps_shared_content_open(exchange->context, &request, &content, &exchange->error);
    if (exchange->status == PS_OK)
        exchange->status = ps_service_push(exchange->context->service, &request, &exchange->push,
                                           &exchange->wait, &exchange->error);
    ps_shared_content_close(&content);
    ps_decoded_release(&decoded);
    return exchange->status != PS_OK || push_is_settled(exchange);
}

static bool push_is_settled(struct ps_exchange *exchange)
{
    enum ps_status status = ps_service_settle(exchange->context->service, &exchange->wait,
                                              &exchange->push, &exchange->error);
    if (status == PS_ERR_NOT_READY)
        return false;
    exchange->status = status;
    if (status == PS_OK)
        ps_encode_push_reply(&exchange->push, exchange->reply);
    return true;
}

/* Waits while the service is not initialised, unless the server is going; beside the lane while a
 * long update has the parameter. */
static bool answer_pull(struct ps_exchange *exchange)
{
    struct ps_pull_request request;
    struct ps_decoded decoded;
    exchange->status = ps_decode_pull(exchange->request, exchange->context->memory, &request,
                                      &decoded, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    exchange->leaves = exchange->may_leave && ps_service_pull_work(exchange->context->service,
                                                                   &request) >= PS_LARGE_WORK_BYTES;
    if (exchange->leaves) {
        ps_decoded_release(&decoded);
        return false;
    }
    exchange->status =
        ps_service_pull(exchange->context->service, &request, &exchange->pull, &exchange->error);
    if (exchange->status == PS_OK) {
        exchange->status = ps_shared_content_give(exchange->context, &request.shared,
                                                  &exchange->pull.reply, &exchange->error);
        exchange->has_pull = exchange->status == PS_OK;
        if (!exchange->has_pull)
            ps_pull_release(&exchange->pull);
    }
    ps_decoded_release(&decoded);
    if (exchange->status == PS_ERR_NOT_READY && atomic_load(&exchange->context->draining))
        exchange->status = ps_fail(&exchange->error, PS_ERR_UNAVAILABLE, "shutting down");
    if (exchange->status == PS_ERR_NOT_READY)
        return false;
    if (exchange->status != PS_OK)
        return true;
    ps_encode_pull_reply(&exchange->pull.reply, exchange->reply);
    return true;
}

static bool begin_bundle(struct ps_exchange *exchange)
{
    exchange->status = ps_bundle_run_create(exchange->context, exchange->request, exchange->hold,
                                            &exchange->bundle, &exchange->error);
    return exchange->status == PS_OK;
}

static bool step_bundle(struct ps_exchange *exchange)
{
    enum ps_bundle_progress progress = ps_bundle_run_step(exchange->bundle);
    exchange->goes_on = progress == PS_BUNDLE_GOES_ON;
    return progress == PS_BUNDLE_DONE;
}

/* Many of them: every push, then one wait, then every pull; a long one in several turns. */
static bool answer_bundle(struct ps_exchange *exchange)
{
    if (exchange->bundle == NULL && !begin_bundle(exchange))
        return true;
    return step_bundle(exchange);
}

static bool answer_since(struct ps_exchange *exchange)
{
    if (exchange->bundle == NULL) {
        if (!begin_bundle(exchange))
            return true;
        ps_bundle_run_since(exchange->bundle);
    }
    return step_bundle(exchange);
}

static bool answer_status(struct ps_exchange *exchange)
{
    struct ps_status_reply reply = {0};
    char uuid[37] = "";
    exchange->status = ps_decode_nothing(exchange->request, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    ps_service_status(exchange->context->service, &reply, uuid);
    reply.checkpoint_uuid = uuid;
    ps_encode_status_reply(&reply, exchange->reply);
    return true;
}

static bool answer_list(struct ps_exchange *exchange)
{
    struct ps_service *service = exchange->context->service;
    struct ps_list_request request;
    struct ps_list_reply reply = {0};
    struct ps_decoded decoded;
    exchange->status = ps_decode_list(exchange->request, exchange->context->memory, &request,
                                      &decoded, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    exchange->status = ps_service_list(service, &request, &reply, &exchange->error);
    ps_decoded_release(&decoded);
    if (exchange->status != PS_OK)
        return true;
    ps_encode_list_reply(&reply, exchange->reply);
    ps_service_list_release(service, &reply);
    return true;
}

/* Waits until the checkpoint that was asked for is saved, then says which it was. Who asked for one
 * attempt is told why it failed, while the server goes on trying. */
static bool answer_save(struct ps_exchange *exchange)
{
    struct ps_service *service = exchange->context->service;
    if (!exchange->asked) {
        exchange->asked = true;
        struct ps_save_request request = {0};
        exchange->status = ps_decode_save(exchange->request, &request, &exchange->error);
        exchange->once = request.once;
        if (exchange->status == PS_OK)
            exchange->status =
                ps_service_want_checkpoint(service, &exchange->ticket, &exchange->error);
    }
    if (exchange->status != PS_OK)
        return true;
    if (!ticket_is_settled(exchange)) {
        if (!exchange->once || !ps_service_save_failed(service, exchange->ticket, &exchange->error))
            return false;
        exchange->status = exchange->error.status;
        return true;
    }
    if (exchange->status != PS_OK)
        return true;
    struct ps_checkpoint_place place;
    if (!ps_service_last_saved(service, &place)) {
        exchange->status =
            ps_fail(&exchange->error, PS_ERR_INTERNAL, "a checkpoint was saved, but not which");
        return true;
    }
    const struct ps_save_reply reply = {
        .uuid = place.uuid, .path = place.path, .position = place.position, .bytes = place.bytes};
    ps_encode_save_reply(&reply, exchange->reply);
    return true;
}

static bool answer_drain(struct ps_exchange *exchange)
{
    struct ps_drain_request request;
    exchange->status = ps_decode_drain(exchange->request, &request, &exchange->error);
    if (exchange->status == PS_OK)
        exchange->status =
            ps_service_want_drain(exchange->context->service, request.epoch, &exchange->error);
    return true;
}

static bool answer_health_check(struct ps_exchange *exchange)
{
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    exchange->status = ps_decode_health(exchange->request, service, &exchange->error);
    if (exchange->status != PS_OK)
        return true;
    enum ps_health health = ps_rpc_health(exchange->context, service);
    if (health == PS_HEALTH_SERVICE_UNKNOWN) {
        exchange->status = ps_fail(&exchange->error, PS_ERR_NOT_FOUND, "unknown service");
        return true;
    }
    ps_encode_health_reply(health, exchange->reply);
    return true;
}

#define SERVICE_PATH(name) "/pserver.v1.ParameterServer/" name
#define ADMIN_PATH(name) "/pserver.v1.Admin/" name

const struct ps_unary_method ps_unary_methods[PS_UNARY_METHOD_COUNT] = {
    {SERVICE_PATH("InitParam"), answer_init, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_INIT},
    {SERVICE_PATH("FinishInitParams"), answer_finish, 8, SMALL_REPLY_BYTES_MAX, PS_METHOD_FINISH},
    {SERVICE_PATH("SendGrad"), answer_push, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PUSH},
    {SERVICE_PATH("GetParam"), answer_pull, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PULL},
    {SERVICE_PATH("SendGrads"), answer_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PUSHES},
    {SERVICE_PATH("GetParams"), answer_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PULLS},
    {SERVICE_PATH("PushPull"), answer_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_PUSH_PULL},
    {SERVICE_PATH("GetParamsSince"), answer_since, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_SINCE},
    {ADMIN_PATH("GetStatus"), answer_status, MANY_SLOTS, STATUS_REPLY_BYTES_MAX, PS_METHOD_STATUS},
    {ADMIN_PATH("ListParams"), answer_list, 2, LIST_REPLY_BYTES_MAX, PS_METHOD_LIST},
    {ADMIN_PATH("SaveCheckpoint"), answer_save, 8, STATUS_REPLY_BYTES_MAX, PS_METHOD_SAVE},
    {ADMIN_PATH("Drain"), answer_drain, 2, SMALL_REPLY_BYTES_MAX, PS_METHOD_DRAIN},
    {PS_HEALTH_CHECK_PATH, answer_health_check, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_COUNT},
};
