/* SendGrad: is the shard ours, is the gradient right, was it applied before; apply it, is the shard
 * still ours. May the reply go is asked in settle.c. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/service_state.h"
#include "server/core/requests/staged_part.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/update/gradient_check.h"

#include <inttypes.h>

/* What became of one push. */
struct outcome {
    struct ps_push_reply reply;
    struct ps_device_due due; /* of the parameter: also a repeat waits for the first */
    bool wakes_writer;
    struct ps_pull *made; /* borrowed; where the caller wants what a range has made, or NULL */
};

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct outcome *outcome, struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, uint32_t shard,
                                  struct ps_error *error);
static enum ps_status check_acknowledgement(const struct ps_service *service, enum ps_ack ack,
                                            struct ps_error *error);
static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, struct outcome *outcome,
                                 struct ps_error *error);
static enum ps_status push_part(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct outcome *outcome,
                                struct ps_error *error);
static enum ps_status was_applied(struct ps_service *service, const struct ps_push_request *range,
                                  bool *is_repeat, struct ps_error *error);
static enum ps_status look_at_part(struct ps_service *service, struct ps_parameter *parameter,
                                   struct ps_part *part, struct ps_error *error);
static void give_made(struct ps_service *service, const struct ps_added *added,
                      struct ps_elements range, struct ps_pull *made);
static enum ps_status push_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  struct ps_push_request *whole, struct ps_staged *staged,
                                  struct outcome *outcome, struct ps_error *error);
static enum ps_status note_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  const struct ps_push_request *request, struct outcome *outcome,
                                  struct ps_error *error);
static bool is_ahead(struct ps_service *service, struct ps_parameter *parameter,
                     const struct ps_part *part);
static enum ps_status push_once(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct ps_ahead *ahead,
                                struct outcome *outcome, struct ps_error *error);
static enum ps_status apply(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, uint32_t fingerprint,
                            struct ps_ahead *ahead, struct outcome *outcome,
                            struct ps_error *error);
static enum ps_status update(const struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, struct ps_ahead *ahead,
                             struct ps_journal_place *place, uint64_t *version,
                             struct ps_error *error);
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct outcome *outcome,
                       struct ps_push_wait *wait);
static void count(const struct ps_service *service, const struct ps_push_request *request,
                  const struct ps_push_reply *reply, uint64_t start_unix_ns);
static void count_attempt(const struct ps_service *service, enum ps_status status);

enum ps_status ps_service_push(struct ps_service *service, const struct ps_push_request *request,
                               struct ps_push_reply *reply, struct ps_push_wait *wait,
                               struct ps_error *error)
{
    return ps_service_push_range(service, request, reply, wait, NULL, error);
}

enum ps_status ps_service_push_range(struct ps_service *service,
                                     const struct ps_push_request *request,
                                     struct ps_push_reply *reply, struct ps_push_wait *wait,
                                     struct ps_pull *made, struct ps_error *error)
{
    struct ps_push_wait unused;
    struct outcome outcome = {.made = made};
    uint64_t start_unix_ns = ps_unix_ns(service->clock);
    ps_rwlock_read(&service->cut);
    enum ps_status status = push_in_cut(service, request, &outcome, error);
    begin_wait(service, request->ack, &outcome, wait != NULL ? wait : &unused);
    ps_rwlock_unlock(&service->cut);

    /* What waits for the disk does so whether this caller is answered or not. */
    if (outcome.wakes_writer)
        ps_service_tell_journal_wanted(service);
    if (status != PS_OK) {
        ps_counter_add(service->metrics.pushes_refused, 1);
        return status;
    }
    *reply = outcome.reply;
    count(service, request, reply, start_unix_ns);
    return PS_OK;
}

void ps_service_expect(struct ps_service *service, const struct ps_bytes *names, size_t count)
{
    ps_rwlock_read(&service->cut);
    ps_parameter_table_expect(&service->table, names, count);
    ps_rwlock_unlock(&service->cut);
}

uint64_t ps_service_push_work(struct ps_service *service, const struct ps_push_request *request)
{
    if (request->range.count == 0 || !request->request.present)
        return request->content.size;
    if (ps_staging_way(&service->staging, &request->request) == PS_STAGING_AHEAD)
        return 0;
    uint64_t present = ps_staging_present(&service->staging, &request->request);
    ps_rwlock_read(&service->cut);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    uint64_t total = parameter != NULL ? parameter->spec->count : 0;
    uint64_t bytes = parameter != NULL ? ps_parameter_spec_bytes(parameter->spec) : 0;
    ps_rwlock_unlock(&service->cut);
    return total <= request->range.count || present < total - request->range.count ? 0 : bytes;
}

static enum ps_status push_in_cut(struct ps_service *service, const struct ps_push_request *request,
                                  struct outcome *outcome, struct ps_error *error)
{
    PS_TRY(check_ready(service, request->shard, error));
    struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    if (parameter == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(request->name), (const char *)request->name.data);
    PS_TRY(check_acknowledgement(service, request->ack, error));
    if (ps_staging_is_part(request->range, parameter->spec->count))
        PS_TRY(push_part(service, parameter, request, outcome, error));
    else
        PS_TRY(push_whole(service, parameter, request, outcome, error));
    if (!outcome->reply.staged)
        outcome->due = ps_parameter_due(parameter);

    /* The lease may have run out meanwhile (a stopped process wakes up here): then another server
     * may own the shard, and what was applied is not acknowledged. */
    return ps_service_owns(service, error);
}

static enum ps_status check_ready(const struct ps_service *service, uint32_t shard,
                                  struct ps_error *error)
{
    PS_TRY(ps_service_admit_for(service, shard, error));
    if (ps_service_phase(service) != PS_PHASE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    return PS_OK;
}

/* Texts that clients know from before there were encodings stay as they are; what a type's number
 * means is said behind it. */
enum ps_status ps_service_check_gradient(const struct ps_parameter_spec *spec, enum ps_dtype dtype,
                                         enum ps_encoding encoding, uint64_t bytes,
                                         struct ps_error *error)
{
    const char *name = (const char *)spec->name.data;
    if (dtype != ps_parameter_spec_gradient(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient element type not match, parameter: %d, "
                       "gradient: %d (%s, %s)",
                       name, (int)spec->dtype, (int)dtype, ps_dtype_name(spec->dtype),
                       dtype < PS_DTYPE_COUNT ? ps_dtype_name(dtype) : "no type");
    if (encoding != PS_ENCODING_NATIVE) {
        struct ps_error reason;
        enum ps_status status =
            ps_encoding_check(encoding, spec->dtype, spec->count, bytes, &reason);
        return status == PS_OK ? PS_OK
                               : ps_fail(error, status, "Name: %s, %.180s", name, reason.text);
    }
    if (bytes != ps_parameter_spec_bytes(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient does not have same content len, "
                       "parameter: %zu, gradient: %" PRIu64,
                       name, ps_parameter_spec_bytes(spec), bytes);
    return PS_OK;
}

static enum ps_status check_acknowledgement(const struct ps_service *service, enum ps_ack ack,
                                            struct ps_error *error)
{
    bool journals = service->queue.journals;
    if (ack == PS_ACK_DEFAULT || ack == PS_ACK_MEMORY || (ack == PS_ACK_LOGGED && journals))
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "this server acknowledges what it has applied in memory (ACK_MEMORY)%s and "
                   "offers no stronger level",
                   journals ? " or has in its journal (ACK_LOGGED)" : "");
}

static enum ps_status push_whole(struct ps_service *service, struct ps_parameter *parameter,
                                 const struct ps_push_request *request, struct outcome *outcome,
                                 struct ps_error *error)
{
    PS_TRY(ps_service_check_gradient(parameter->spec, request->dtype, request->encoding,
                                     request->content.size, error));
    if (!request->request.present)
        return push_once(service, parameter, request, NULL, outcome, error);
    PS_TRY(ps_staging_check_whole(&service->staging, &request->request, PS_METHOD_PUSH,
                                  request->name, error));
    PS_TRY(push_once(service, parameter, request, NULL, outcome, error));
    ps_staging_forget(&service->staging, &request->request);
    return PS_OK;
}

/* Puts a range to the others of its request. The last one brings all of them, which go on as one;
 * a range of what was applied before is answered as that is. */
static enum ps_status push_part(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct outcome *outcome,
                                struct ps_error *error)
{
    struct ps_push_request whole = *request;
    bool is_native = ps_encoding_is_native(request->encoding, request->dtype);
    struct ps_part part = {.method = PS_METHOD_PUSH,
                           .id = &request->request,
                           .name = request->name,
                           .dtype = request->dtype,
                           .encoding = is_native ? PS_ENCODING_NATIVE : request->encoding,
                           .total = parameter->spec->count,
                           .range = request->range,
                           .content = request->content,
                           .hold = request->hold};
    struct ps_added added;
    bool is_repeat = false;
    PS_TRY(ps_service_check_gradient(parameter->spec, request->dtype, PS_ENCODING_NATIVE,
                                     ps_parameter_spec_bytes(parameter->spec), error));
    if (request->request.present)
        PS_TRY(was_applied(service, request, &is_repeat, error));
    if (is_repeat)
        return push_once(service, parameter, request, NULL, outcome, error);
    PS_TRY(look_at_part(service, parameter, &part, error));
    enum ps_status status =
        ps_staging_add(&service->staging, &part, ps_now_ms(service->clock), &added, error);
    if (added.ahead_failed != PS_OK)
        count_attempt(service, added.ahead_failed);
    whole.range = (struct ps_elements){0};
    whole.content = added.content;
    whole.hold = added.hold;
    if (status == PS_OK && added.staged != NULL)
        status = push_staged(service, parameter, &whole, added.staged, outcome, error);
    else if (status == PS_OK)
        status = note_staged(service, parameter, request, outcome, error);
    if (status == PS_OK && added.made != NULL && outcome->made != NULL &&
        (outcome->reply.staged || outcome->reply.version == added.version))
        give_made(service, &added, request->range, outcome->made);
    ps_blocks_release(added.made);
    ps_service_count_ranges(service);
    return status;
}

/* Was the push applied that this range is of? The content of all of it is not known here. */
static enum ps_status was_applied(struct ps_service *service, const struct ps_push_request *range,
                                  bool *is_repeat, struct ps_error *error)
{
    return ps_sessions_look(&service->sessions, &range->request,
                            ps_fingerprint_of_push(range, (struct ps_view){0}),
                            ps_service_unix_us(service), is_repeat, error);
}

/* What can be said of a range before the others are there. */
static enum ps_status look_at_part(struct ps_service *service, struct ps_parameter *parameter,
                                   struct ps_part *part, struct ps_error *error)
{
    const struct ps_gradient gradient = {.content = part->content, .encoding = part->encoding};
    PS_TRY(ps_staged_part_check(part, error));
    PS_TRY(ps_gradient_check_range(parameter->spec, gradient, part->range, error));
    part->is_plain = !is_ahead(service, parameter, part) &&
                     ps_gradient_range_is_plain(parameter->spec, gradient, part->range.count);
    return PS_OK;
}

static void give_made(struct ps_service *service, const struct ps_added *added,
                      struct ps_elements range, struct ps_pull *made)
{
    if (!ps_pull_made(added->made, added->version, range, made->reply.encoding, made))
        return;
    made->reply.life = service->chain.life;
    ps_counter_add(service->metrics.pull_bytes, made->reply.content.size);
    if (made->encoded != NULL)
        ps_counter_add(service->metrics.pull_encoded_bytes, made->reply.content.size);
}

/* All ranges are there. */
static enum ps_status push_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  struct ps_push_request *whole, struct ps_staged *staged,
                                  struct outcome *outcome, struct ps_error *error)
{
    struct ps_ahead *ahead = ps_staged_ahead(staged);
    whole->is_plain = ps_staged_is_plain(staged);
    enum ps_status status = push_once(service, parameter, whole, ahead, outcome, error);
    ps_staging_end(&service->staging, staged, status);
    if (ahead == NULL || status != PS_ERR_CONFLICT)
        return status;
    outcome->reply.staged = true; /* forgotten: all of it is to come again */
    return PS_OK;
}

/* The push may have been applied between our looking and our adding: then what we added to is a
 * second beginning of it, which nobody will complete. */
static enum ps_status note_staged(struct ps_service *service, struct ps_parameter *parameter,
                                  const struct ps_push_request *request, struct outcome *outcome,
                                  struct ps_error *error)
{
    bool is_repeat = false;
    PS_TRY(was_applied(service, request, &is_repeat, error));
    outcome->reply.staged = !is_repeat;
    if (!is_repeat)
        return PS_OK;
    ps_staging_forget(&service->staging, &request->request);
    return push_once(service, parameter, request, NULL, outcome, error);
}

/* Is the part to be applied as it comes? Begins an attempt with the first one. Not with pairs,
 * which leave most blocks alone: an attempt makes all of them anew. */
static bool is_ahead(struct ps_service *service, struct ps_parameter *parameter,
                     const struct ps_part *part)
{
    if (!part->id->present)
        return false;
    enum ps_staging_way way = ps_staging_way(&service->staging, part->id);
    if (way != PS_STAGING_UNKNOWN)
        return way == PS_STAGING_AHEAD;
    struct ps_ahead *ahead = part->encoding != PS_ENCODING_TOP_K ? ps_ahead_begin(parameter) : NULL;
    if (ahead == NULL)
        return false;
    if (ps_staging_offer(&service->staging, part, ahead, service->queue.journals,
                         ps_now_ms(service->clock)))
        return true;
    ps_ahead_release(ahead);
    return false;
}

/* A repeat is answered as it was the first time. Of a repeat that is a range, the content is not
 * that of the push: only the subject is compared. */
static enum ps_status push_once(struct ps_service *service, struct ps_parameter *parameter,
                                const struct ps_push_request *request, struct ps_ahead *ahead,
                                struct outcome *outcome, struct ps_error *error)
{
    if (!request->request.present)
        return apply(service, parameter, request, 0, NULL, outcome, error);
    struct ps_sessions *sessions = &service->sessions;
    struct ps_session_call call;
    bool is_range = ps_staging_is_part(request->range, parameter->spec->count);
    uint32_t fingerprint =
        ps_fingerprint_of_push(request, is_range ? (struct ps_view){0} : request->content);
    PS_TRY(ps_sessions_begin(sessions, &request->request, fingerprint, ps_service_unix_us(service),
                             &call, error));
    if (call.is_repeat) {
        outcome->reply = (struct ps_push_reply){
            .version = call.answer.version, .duplicate = true, .position = call.answer.position};
        return PS_OK;
    }
    enum ps_status status = apply(service, parameter, request, fingerprint, ahead, outcome, error);
    if (status != PS_OK) {
        ps_sessions_abort(sessions, &call);
        return status;
    }
    ps_sessions_commit(sessions, &call,
                       (struct ps_session_answer){.version = outcome->reply.version,
                                                  .position = outcome->reply.position});
    if (call.is_new_client)
        ps_service_count_clients(service);
    return PS_OK;
}

static enum ps_status apply(struct ps_service *service, struct ps_parameter *parameter,
                            const struct ps_push_request *request, uint32_t fingerprint,
                            struct ps_ahead *ahead, struct outcome *outcome, struct ps_error *error)
{
    struct ps_journal_place place;
    PS_TRY(ps_journal_place_init(&place, &service->queue, request, fingerprint, service->epoch,
                                 error));
    uint64_t version = 0;
    enum ps_status status = update(service, parameter, request, ahead, &place, &version, error);
    ps_journal_place_release(&place);
    if (status != PS_OK)
        return status;
    atomic_fetch_add(&service->push_count, 1);
    ps_counter_add(service->metrics.push_bytes, request->content.size);
    ps_counter_add(service->metrics.push_copied_bytes, place.copied_bytes);
    ps_gauge_set(service->metrics.position, (double)place.position);
    outcome->reply = (struct ps_push_reply){.version = version, .position = place.position};
    outcome->wakes_writer = place.is_first;
    return PS_OK;
}

/* The attempt, if there is one; a gradient whose attempt was overtaken in the ordinary way, if it
 * was kept. */
static enum ps_status update(const struct ps_service *service, struct ps_parameter *parameter,
                             const struct ps_push_request *request, struct ps_ahead *ahead,
                             struct ps_journal_place *place, uint64_t *version,
                             struct ps_error *error)
{
    const struct ps_gradient gradient = {request->content, request->encoding, request->is_plain};
    if (ahead != NULL) {
        enum ps_status status = ps_ahead_commit(ahead, place, version, error);
        bool was_kept = gradient.content.piece_count > 0;
        count_attempt(service, status);
        if (status != PS_ERR_CONFLICT || !was_kept)
            return status;
    }
    return ps_parameter_push(parameter, gradient, place, version, error);
}

/* With the cut held, so that the generation is that in which the push was applied. */
static void begin_wait(struct ps_service *service, enum ps_ack ack, struct outcome *outcome,
                       struct ps_push_wait *wait)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    bool logged = (ack == PS_ACK_DEFAULT ? service->ack : ack) == PS_ACK_LOGGED;
    *wait = (struct ps_push_wait){.position = logged ? outcome->reply.position : 0,
                                  .lagging = state.lags ? outcome->reply.position : 0,
                                  .generation = state.generation,
                                  .due = outcome->due};
    outcome->reply.durable_position = state.durable;
}

static void count(const struct ps_service *service, const struct ps_push_request *request,
                  const struct ps_push_reply *reply, uint64_t start_unix_ns)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    if (reply->staged)
        return;
    if (reply->duplicate) {
        ps_counter_add(metrics->pushes_duplicate, 1);
        return;
    }
    uint64_t now = ps_unix_ns(service->clock);
    ps_counter_add(metrics->pushes, 1);
    if (!request->request.present)
        ps_counter_add(metrics->pushes_without_id, 1);
    ps_histogram_observe(metrics->push_seconds,
                         now > start_unix_ns ? (double)(now - start_unix_ns) / 1e9 : 0);
}

/* What became of an attempt; one that may be made again is not over. */
static void count_attempt(const struct ps_service *service, enum ps_status status)
{
    const struct ps_core_metrics *metrics = &service->metrics;
    if (status == PS_OK)
        ps_counter_add(metrics->pushes_ahead, 1);
    else if (status == PS_ERR_CONFLICT)
        ps_counter_add(metrics->ahead_overtaken, 1);
    else if (status == PS_ERR_BAD_INPUT)
        ps_counter_add(metrics->ahead_not_finite, 1);
    else if (status == PS_ERR_NO_MEMORY)
        ps_counter_add(metrics->ahead_without_memory, 1);
}
