/* SPDX-License-Identifier: Apache-2.0 */
/* What each method does: decode, serve, encode. No rule of the parameter server lives here: what a
 * request means is decided by the service, so that the simulator, which calls that without gRPC,
 * checks the same rules.
 *
 * A function here may be called several times for one request: first with `begun` or `asked` unset,
 * and again after each wait. Whatever is to happen once, decoding and asking the service, stands
 * behind that mark. */
#include "server/rpc/unary_call.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bounds.h"
#include "proto/bundle_codec.h"
#include "proto/fields.h"
#include "server/rpc/applied_call.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/change_methods.h"
#include "server/rpc/clock_methods.h"
#include "server/rpc/cluster_methods.h"
#include "server/rpc/model_call.h"
#include "server/rpc/program_methods.h"
#include "server/rpc/rendezvous_methods.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_content.h"
#include "server/rpc/worker_methods.h"

/* A reply to gradients and pulls is a name and a few numbers, one to an operator's call may be
 * long. */
enum {
    MANY_SLOTS = 32, /* requests that come in one go; the rest of a burst is asked for singly */
    SMALL_CHECKPOINT_BYTES = 1024 * 1024,
    SMALL_REPLY_BYTES_MAX = PS_BUNDLE_ITEM_BYTES_MAX,
    STATUS_REPLY_BYTES_MAX = 8 * 1024,
    CONFIG_REPLY_BYTES_MAX = PS_CONFIG_BYTES_MAX + 1024,
    LIST_REPLY_BYTES_MAX = PS_MESSAGE_BYTES_DEFAULT
};

static enum ps_serve_progress await_finish(struct ps_call_answer *answer);
static void say_saved(struct ps_call_answer *answer);

/* What the service said in the end takes the place of what it said at first. */
static void fail_with(struct ps_call_answer *answer, const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    answer->error = *why;
    answer->status = why->status;
}

/* As an item of a bundle is asked about: before anything is looked up. Barriers are guarded by
 * their names, too: a trainer of some parameters could else open those of another's. */
static enum ps_status may_change(struct ps_call_answer *answer, struct ps_bytes name)
{
    const struct ps_serve_guard *guard = answer->guard;
    return guard == NULL ? PS_OK : guard->check(guard->self, name, true, &answer->error);
}

/* Never waits: a parameter is either taken or refused, and a range of it is put by. */
static enum ps_serve_progress serve_init(struct ps_call_answer *answer)
{
    struct ps_init_request request;
    struct ps_init_reply reply;
    struct ps_decoded decoded;
    answer->status = ps_decode_init(answer->request, answer->context->memory, &request, &decoded,
                                    &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    request.hold = answer->hold;
    request.request.origin = answer->origin;
    if (answer->guard != NULL)
        request.request.owner = answer->guard->owner;
    answer->status = may_change(answer, request.name);
    if (answer->status == PS_OK)
        answer->status =
            ps_service_init(answer->context->service, &request, &reply, &answer->error);
    ps_decoded_release(&decoded);
    if (answer->status == PS_OK)
        ps_encode_init_reply(&reply, answer->reply);
    return PS_SERVE_DONE;
}

/* The reply promises a durable checkpoint, so that the call waits for its ticket whatever the
 * status is: a second finish is refused, and refused only then. */
static enum ps_serve_progress serve_finish(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    if (answer->asked)
        return await_finish(answer);
    struct ps_finish_request request;
    struct ps_decoded decoded;
    answer->status = ps_decode_finish(answer->request, answer->context->memory, &request, &decoded,
                                      &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    answer->asked = true;
    request.request.origin = answer->origin;
    request.request.owner = answer->guard != NULL ? answer->guard->owner : 0;
    answer->status = ps_service_finish(service, &request, &answer->ticket, &answer->error);
    /* The messages that brought all parameters were larger than any to come: what the allocator
     * keeps of them is given back. */
    if (answer->status == PS_OK)
        ps_allocator_give_back();
    ps_decoded_release(&decoded);
    return await_finish(answer);
}

/* While the checkpoint is not saved the call is parked; a status that the finish had before
 * stays. */
static enum ps_serve_progress await_finish(struct ps_call_answer *answer)
{
    struct ps_error why;
    enum ps_status status = ps_service_await_finish(answer->context->service, answer->ticket, &why);
    answer->topic = PS_TOPIC_CHECKPOINT;
    if (status == PS_ERR_NOT_READY)
        return PS_SERVE_WAITS;
    if (status != PS_OK)
        fail_with(answer, &why);
    return PS_SERVE_DONE;
}

/* ---- Gradients and pulls ---- */

/* What a message of one needs lies in the slot: a call alone costs no allocation. */
static void begin_single(struct ps_call_answer *answer, struct ps_bundle_request request)
{
    struct ps_single_call *single = &answer->single;
    PS_ASSERT(!single->begun && request.push_count + request.pull_count == 1);
    ps_shared_content_init(&single->content, answer->context);
    single->serve = (struct ps_serve){.service = answer->context->service,
                                      .content = &single->content.ways,
                                      .origin = answer->origin,
                                      .guard = answer->guard,
                                      .hold = answer->hold,
                                      .request = request,
                                      .pushes = &single->push,
                                      .pulls = &single->pull,
                                      .error = &answer->error};
    ps_serve_begin(&single->serve);
    single->begun = true;
}

/* What has to be made for a request counts before it is made: of what is refused there is nothing
 * to give back. */
static bool charge_single(struct ps_call_answer *answer)
{
    return ps_call_answer_charge(answer, ps_serve_extra_work(&answer->single.serve));
}

/* The request is decoded once, and its reply is made when what was promised of the push holds: that
 * it is durable, when it asked for that. */
static enum ps_serve_progress serve_push(struct ps_call_answer *answer)
{
    struct ps_single_call *single = &answer->single;
    if (!single->begun) {
        answer->status = ps_decode_push(answer->request, answer->context->memory,
                                        &single->push_request, &single->decoded, &answer->error);
        if (answer->status != PS_OK)
            return PS_SERVE_DONE;
        begin_single(answer,
                     (struct ps_bundle_request){.pushes = &single->push_request, .push_count = 1});
        /* Before the first step, so that what is refused has changed nothing. */
        if (!charge_single(answer))
            return PS_SERVE_DONE;
    }
    enum ps_serve_progress progress = ps_call_step(answer, &single->serve);
    if (progress != PS_SERVE_DONE)
        return progress;
    answer->status = single->push.status.status;
    if (answer->status == PS_OK)
        ps_encode_push_reply(&single->push.reply, answer->reply);
    return PS_SERVE_DONE;
}

/* Waits while the service is not initialised, unless the server is going, which is what its client
 * is told then; beside the lane while a long update has the parameter. */
static enum ps_serve_progress serve_pull(struct ps_call_answer *answer)
{
    struct ps_single_call *single = &answer->single;
    if (!single->begun) {
        answer->status = ps_decode_pull(answer->request, answer->context->memory,
                                        &single->pull_request, &single->decoded, &answer->error);
        if (answer->status != PS_OK)
            return PS_SERVE_DONE;
        single->pull_request.of_push = false; /* no push is beside it */
        begin_single(answer,
                     (struct ps_bundle_request){.pulls = &single->pull_request, .pull_count = 1});
        if (!charge_single(answer))
            return PS_SERVE_DONE;
    }
    enum ps_serve_progress progress = ps_call_step(answer, &single->serve);
    if (progress != PS_SERVE_DONE)
        return progress;
    answer->status = single->pull.status.status;
    if (answer->status == PS_ERR_NOT_READY)
        answer->status = ps_fail(&answer->error, PS_ERR_UNAVAILABLE, "shutting down");
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    /* From here on the message takes what was pulled, and release_served finds nothing to give
     * back. */
    answer->pull = &single->pull.pull;
    ps_encode_pull_reply(&answer->pull->reply, answer->reply);
    return PS_SERVE_DONE;
}

/* False: the answer is made already. A message that cannot be decoded fails as a whole, since no
 * item of it can be told from another. */
static bool begin_bundle(struct ps_call_answer *answer)
{
    PS_ASSERT(answer->bundle == NULL);
    answer->status = ps_bundle_call_create(answer->context, answer->request, answer->hold,
                                           answer->origin, &answer->bundle, &answer->error);
    if (answer->status != PS_OK)
        return false;
    ps_bundle_call_guard(answer->bundle, answer->guard);
    return ps_call_answer_charge(answer, ps_bundle_call_extra_work(answer->bundle));
}

/* Many of them: every push, then one wait, then every pull; a long one in several turns. Failures
 * of items stand in their results: such a call is PS_OK. */
static enum ps_serve_progress serve_bundle(struct ps_call_answer *answer)
{
    if (answer->bundle == NULL && !begin_bundle(answer))
        return PS_SERVE_DONE;
    return ps_call_step(answer, ps_bundle_call_serve(answer->bundle));
}

/* A bundle of pulls, each of which wants only what has changed: a client that holds nothing says so
 * by saying nothing. */
static enum ps_serve_progress serve_since(struct ps_call_answer *answer)
{
    if (answer->bundle == NULL) {
        if (!begin_bundle(answer))
            return PS_SERVE_DONE;
        ps_bundle_call_since(answer->bundle);
    }
    return serve_bundle(answer);
}

/* ---- Barriers ---- */

/* The fields of BarrierRequest, in the order of the .proto. */
enum { NAME = 1, ROUND, MEMBER, OF, WAIT_MS, TOKEN };

/* A flat message: names are checked where they are used, numbers are cut so that they stay
 * wrong. */
static enum ps_status read_arrival(struct ps_view message, struct ps_fields *fields,
                                   struct ps_arrival *arrival, struct ps_error *error)
{
    PS_TRY(ps_fields_read(message, fields, error));
    /* Beyond every bound stays beyond it. */
    uint64_t of = fields->number[OF];
    uint64_t member = fields->number[MEMBER];
    *arrival = (struct ps_arrival){.name = ps_bytes_of_text(fields->text[NAME]),
                                   .round = fields->number[ROUND],
                                   .member = member < UINT32_MAX ? (uint32_t)member : UINT32_MAX,
                                   .of = of < UINT32_MAX ? (uint32_t)of : UINT32_MAX,
                                   .token = fields->number[TOKEN]};
    return PS_OK;
}

/* Arrives once, and then looks whether all are there. A call that is refused after it has arrived,
 * because as many wait as may, leaves with its answer: it was never there. */
static enum ps_serve_progress serve_barrier(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    if (!answer->asked) {
        struct ps_fields fields;
        struct ps_arrival arrival;
        answer->asked = true;
        answer->status = read_arrival(answer->request, &fields, &arrival, &answer->error);
        if (answer->status == PS_OK)
            answer->status = may_change(answer, arrival.name);
        if (answer->status != PS_OK)
            return PS_SERVE_DONE;
        answer->status = ps_service_arrive(service, &arrival,
                                           ps_call_patience_ms(answer, fields.number[WAIT_MS]),
                                           &answer->barrier, &answer->error);
    } else {
        /* Woken by the last member, by the time, or because the server goes. */
        answer->status = ps_service_await_members(service, &answer->barrier, &answer->error);
    }
    if (answer->status != PS_ERR_NOT_READY) {
        ps_service_leave(service, &answer->barrier);
        return PS_SERVE_DONE;
    }
    answer->topic = answer->barrier.topic;
    answer->again_ms = ps_service_again_ms(service, &answer->barrier);
    return PS_SERVE_WAITS;
}

/* ---- Operators' calls ---- */

/* Answers in every state of the service: an operator asks because something is wrong. */
static enum ps_serve_progress serve_status(struct ps_call_answer *answer)
{
    struct ps_status_reply reply = {0};
    char uuid[37] = "";
    answer->status = ps_decode_nothing(answer->request, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    ps_service_status(answer->context->service, &reply, uuid);
    reply.checkpoint_uuid = uuid;
    ps_encode_status_reply(&reply, answer->reply);
    return PS_SERVE_DONE;
}

/* The rows are the service's until they are encoded: no name is copied in between. */
static enum ps_serve_progress serve_list(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_list_request request;
    struct ps_list_reply reply = {0};
    struct ps_decoded decoded;
    answer->status = ps_decode_list(answer->request, answer->context->memory, &request, &decoded,
                                    &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    answer->status = ps_service_list(service, &request, &reply, &answer->error);
    ps_decoded_release(&decoded);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    ps_encode_list_reply(&reply, answer->reply);
    ps_service_list_release(service, &reply);
    return PS_SERVE_DONE;
}

/* A checkpoint is as much work as writing the whole shard, for a message without a byte in it.
 *
 * Who asks again and again makes the server write without end. An operator asks by hand or by a
 * timer; by the host, since each psctl is a connection of its own. Small
 * ones cost nothing that a push does not. */
enum ps_status ps_call_check_save_pace(struct ps_call_answer *answer)
{
    struct ps_rpc_context *context = answer->context;
    struct ps_checkpoint_place place;
    uint32_t wait_ms = 0;
    if (!ps_service_last_saved(context->service, &place) || place.bytes < SMALL_CHECKPOINT_BYTES ||
        ps_budgets_take(&context->budgets, ps_caller_host(ps_call_answer_caller(answer)),
                        PS_PACE_SAVES, ps_now_ms(context->clock), &wait_ms))
        return PS_OK;
    return ps_refuse(&answer->error, PS_ERR_BUSY, PS_REFUSED_SAVES, wait_ms,
                     "too many checkpoints were asked for from here: the next in %u ms "
                     "(--checkpoint-interval writes them without being asked)",
                     (unsigned)wait_ms);
}

/* Waits until the checkpoint that was asked for is saved, then says which it was. The ticket stands
 * for the state at the time of asking: a save that was under way then does not satisfy it, for it
 * may lack what the caller has just pushed.
 *
 * A caller that asked for one attempt is told why that failed, while the server goes on trying. */
static enum ps_serve_progress serve_save(struct ps_call_answer *answer)
{
    struct ps_service *service = answer->context->service;
    struct ps_error why;
    if (!answer->asked) {
        answer->asked = true;
        struct ps_save_request request = {0};
        answer->status = ps_decode_save(answer->request, &request, &answer->error);
        answer->once = request.once;
        if (answer->status == PS_OK)
            answer->status = ps_call_check_save_pace(answer);
        if (answer->status == PS_OK)
            answer->status = ps_service_want_checkpoint(service, &answer->ticket, &answer->error);
    }
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    enum ps_status status = ps_service_await_checkpoint(service, answer->ticket, &why);
    answer->topic = PS_TOPIC_CHECKPOINT;
    if (status == PS_ERR_NOT_READY &&
        !(answer->once && ps_service_save_failed(service, answer->ticket, &why)))
        return PS_SERVE_WAITS;
    if (status == PS_OK)
        say_saved(answer);
    else
        fail_with(answer, &why);
    return PS_SERVE_DONE;
}

/* Of the newest checkpoint, which covers the ticket, and may be one that was saved after it. */
static void say_saved(struct ps_call_answer *answer)
{
    struct ps_checkpoint_place place;
    if (!ps_service_last_saved(answer->context->service, &place)) {
        answer->status =
            ps_fail(&answer->error, PS_ERR_INTERNAL, "a checkpoint was saved, but not which");
        return;
    }
    const struct ps_save_reply reply = {
        .uuid = place.uuid, .path = place.path, .position = place.position, .bytes = place.bytes};
    ps_encode_save_reply(&reply, answer->reply);
}

/* The epoch makes sure that the server that is meant is the one that goes: another may have its
 * place by now. */
static enum ps_serve_progress serve_drain(struct ps_call_answer *answer)
{
    struct ps_drain_request request;
    answer->status = ps_decode_drain(answer->request, &request, &answer->error);
    if (answer->status == PS_OK)
        answer->status =
            ps_service_want_drain(answer->context->service, request.epoch, &answer->error);
    return PS_SERVE_DONE;
}

/* A service that this server does not have is an error here, as the health protocol demands; a
 * watch is told a state instead. */
static enum ps_serve_progress serve_health_check(struct ps_call_answer *answer)
{
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    answer->status = ps_decode_health(answer->request, service, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    enum ps_health health = ps_rpc_health(answer->context, service);
    if (health == PS_HEALTH_SERVICE_UNKNOWN) {
        answer->status = ps_fail(&answer->error, PS_ERR_NOT_FOUND, "unknown service");
        return PS_SERVE_DONE;
    }
    ps_encode_health_reply(health, answer->reply);
    return PS_SERVE_DONE;
}

/* What Check knows by name, and the whole server. The states of one reply are of one moment, but
 * for a change that comes between them: a watch tells of that. */
static enum ps_serve_progress serve_health_list(struct ps_call_answer *answer)
{
    static const char *const services[] = {"", PS_HEALTH_OF_PARAMETERS};
    answer->status = ps_decode_nothing(answer->request, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    for (size_t i = 0; i < PS_ARRAY_COUNT(services); i++)
        ps_encode_health_entry(services[i], ps_rpc_health(answer->context, services[i]),
                               answer->reply);
    return PS_SERVE_DONE;
}

#define SERVICE_PATH(name) "/pserver.v1.ParameterServer/" name
#define ADMIN_PATH(name) "/pserver.v1.Admin/" name
#define RENDEZVOUS_PATH(name) "/pserver.v1.Rendezvous/" name
#define PROGRAM_PATH(name) "/pserver.v1.Programs/" name

const struct ps_unary_method ps_unary_methods[PS_UNARY_METHOD_COUNT] = {
    {SERVICE_PATH("InitParam"), serve_init, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_INIT},
    {SERVICE_PATH("FinishInitParams"), serve_finish, 4, SMALL_REPLY_BYTES_MAX, PS_METHOD_FINISH},
    {SERVICE_PATH("SendGrad"), serve_push, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PUSH},
    {SERVICE_PATH("GetParam"), serve_pull, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PULL},
    {SERVICE_PATH("SendGrads"), serve_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PUSHES},
    {SERVICE_PATH("GetParams"), serve_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_PULLS},
    {SERVICE_PATH("PushPull"), serve_bundle, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_PUSH_PULL},
    {SERVICE_PATH("GetParamsSince"), serve_since, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_SINCE},
    {ADMIN_PATH("GetStatus"), serve_status, 4, STATUS_REPLY_BYTES_MAX, PS_METHOD_STATUS},
    {ADMIN_PATH("ListParams"), serve_list, 2, LIST_REPLY_BYTES_MAX, PS_METHOD_LIST},
    {ADMIN_PATH("SaveCheckpoint"), serve_save, 4, STATUS_REPLY_BYTES_MAX, PS_METHOD_SAVE},
    {ADMIN_PATH("Drain"), serve_drain, 2, SMALL_REPLY_BYTES_MAX, PS_METHOD_DRAIN},
    {ADMIN_PATH("SaveModel"), ps_serve_save_model, 4, LIST_REPLY_BYTES_MAX, PS_METHOD_SAVE_MODEL},
    {SERVICE_PATH("Barrier"), serve_barrier, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_BARRIER},
    {SERVICE_PATH("LastApplied"), ps_serve_applied, 4, LIST_REPLY_BYTES_MAX, PS_METHOD_APPLIED},
    {SERVICE_PATH("GetCluster"), ps_serve_cluster, 4, LIST_REPLY_BYTES_MAX, PS_METHOD_CLUSTER},
    {SERVICE_PATH("BeginInit"), ps_serve_begin_init, 4, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_BEGIN_INIT},
    {SERVICE_PATH("EndInit"), ps_serve_end_init, 2, SMALL_REPLY_BYTES_MAX, PS_METHOD_END_INIT},
    {SERVICE_PATH("JoinWorkers"), ps_serve_join_workers, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_JOIN},
    {SERVICE_PATH("LeaveWorkers"), ps_serve_leave_workers, 4, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_LEAVE},
    {SERVICE_PATH("ListWorkers"), ps_serve_list_workers, 4, LIST_REPLY_BYTES_MAX,
     PS_METHOD_WORKERS},
    {SERVICE_PATH("DefineParam"), ps_serve_define, 4, SMALL_REPLY_BYTES_MAX, PS_METHOD_DEFINE},
    {SERVICE_PATH("DropParam"), ps_serve_drop, 4, SMALL_REPLY_BYTES_MAX, PS_METHOD_DROP},
    {SERVICE_PATH("ConfigureParam"), ps_serve_configure, 4, CONFIG_REPLY_BYTES_MAX,
     PS_METHOD_CONFIGURE},
    {SERVICE_PATH("SetClocks"), ps_serve_set_clocks, 4, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_SET_CLOCKS},
    {SERVICE_PATH("Clock"), ps_serve_clock, MANY_SLOTS, SMALL_REPLY_BYTES_MAX, PS_METHOD_CLOCK},
    {SERVICE_PATH("Progress"), ps_serve_progress, 4, LIST_REPLY_BYTES_MAX, PS_METHOD_PROGRESS},
    {RENDEZVOUS_PATH("SendTensor"), ps_serve_send_tensor, MANY_SLOTS, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_SEND_TENSOR},
    {RENDEZVOUS_PATH("RecvTensors"), ps_serve_recv_tensors, MANY_SLOTS, LIST_REPLY_BYTES_MAX,
     PS_METHOD_RECV_TENSORS},
    {RENDEZVOUS_PATH("StepControl"), ps_serve_step_control, 4, SMALL_REPLY_BYTES_MAX,
     PS_METHOD_STEP},
    {PROGRAM_PATH("Ask"), ps_serve_ask, MANY_SLOTS, LIST_REPLY_BYTES_MAX, PS_METHOD_ASK},
    {PROGRAM_PATH("Take"), ps_serve_take, MANY_SLOTS, LIST_REPLY_BYTES_MAX, PS_METHOD_TAKE},
    {PROGRAM_PATH("Answer"), ps_serve_answer, MANY_SLOTS, LIST_REPLY_BYTES_MAX, PS_METHOD_ANSWER},
    {PROGRAM_PATH("ListApps"), ps_serve_apps, 4, LIST_REPLY_BYTES_MAX, PS_METHOD_APPS},
    {PS_HEALTH_LIST_PATH, serve_health_list, 4, SMALL_REPLY_BYTES_MAX, PS_METHOD_COUNT},
    {PS_HEALTH_CHECK_PATH, serve_health_check, 4, SMALL_REPLY_BYTES_MAX, PS_METHOD_COUNT},
};
