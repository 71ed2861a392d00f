/* SPDX-License-Identifier: Apache-2.0 */
/* What programs need of the service. Nothing of it is about parameters, so that the shard need not
 * be initialised, and nothing is journaled.
 *
 * A call that waits for an answer is told by the topic of its request, a taker by that of its app.
 * A handler runs on the thread that has brought the request: nobody is woken where nobody has to
 * wait. It runs for one app on one thread at a time; who finds another about it parks, and is told
 * when its request is next. A thread goes on with what others have brought only until its own
 * request is answered: then whoever waits for the next is told, and runs it.
 *
 * An answer is given out whoever owns the shard by then: it is what became of the request, and
 * another server would not know of it. */
#include "server/core/requests/program_calls.h"

#include "base/assert.h"
#include "base/random.h"
#include "server/core/programs/program_request.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>

/* Every topic that a request or an app may have. */
#define EVERY_NAME (~(PS_TOPIC_BIT(PS_TOPIC_NAMED) - 1))

/* Content of one reply to a taker: more waits for its next turn. */
#define REPLY_CONTENT_BYTES_MAX ((uint64_t)PS_MESSAGE_BYTES_DEFAULT)

/* What options of 0 stand for, and bounds that have no option. */
#define BYTES_DEFAULT ((uint64_t)1 << 30)
enum {
    REQUESTS_DEFAULT = 65536,
    APPS_MAX = 1024,
    PARTIES_MAX = 4096,
    KEPT_MAX = 16384,
    KEPT_MS = 30 * 1000,
    LEASE_MS = 10 * 1000,
    HOLD_MS = 1000
};

static enum ps_status look(struct ps_service *service, struct ps_ask_wait *wait,
                           struct ps_error *error);
static void run_handler(struct ps_service *service, uint32_t app,
                        const struct ps_program_request *own);
static enum ps_status make_answer(struct ps_service *service,
                                  const struct ps_answer_request *request,
                                  const struct ps_program_answered *answered,
                                  const struct ps_hold *hold, struct ps_parcel **parcel,
                                  struct ps_error *error);

static struct ps_mailbox_now now_of(const struct ps_service *service)
{
    PS_ASSERT(service->clock != NULL);
    return (struct ps_mailbox_now){ps_now_ms(service->clock), ps_unix_ns(service->clock)};
}

void ps_service_begin_programs(struct ps_service *service, const struct ps_service_options *options)
{
    PS_ASSERT(service->memory != NULL);
    uint64_t bytes = options->program_bytes != 0 ? options->program_bytes : BYTES_DEFAULT;
    const struct ps_mailbox_bounds bounds = {
        .bytes_max = bytes,
        /* What is kept is for repeats, which are rare: most of the bytes are for requests. */
        .kept_bytes_max = bytes / 8,
        /* A struct of half a kilobyte for each, at most. */
        .kept_max = KEPT_MAX,
        .kept_ms = KEPT_MS,
        .apps_max = APPS_MAX,
        .requests_max =
            options->program_requests != 0 ? options->program_requests : REQUESTS_DEFAULT,
        .parties_max = PARTIES_MAX,
        .lease_ms = LEASE_MS,
        .hold_ms = HOLD_MS};
    /* Nothing of it is taken before the first request. */
    ps_mailbox_init(&service->mailbox, service->memory, &bounds, ps_service_new_life(service));
}

/* With the cut held alone, so that no call is admitted meanwhile. Whoever waits hears of the end of
 * the shard in any case, and looks. */
void ps_service_lose_programs(struct ps_service *service)
{
    PS_ASSERT(service->mailbox.life != 0);
    ps_mailbox_lose(&service->mailbox, ps_service_new_life(service), now_of(service));
    /* The next turn would say so, too; until then people would look for bytes that are gone. */
    ps_gauge_set(service->metrics.program_bytes, 0);
}

void ps_service_sweep_programs(struct ps_service *service)
{
    /* Two numbers of one look, as old as the last turn. */
    uint64_t apps, bytes;
    PS_ASSERT(service->mailbox.life != 0);
    if (ps_mailbox_sweep(&service->mailbox, now_of(service)))
        ps_service_tell_changed(service, EVERY_NAME);
    ps_mailbox_count(&service->mailbox, &apps, &bytes);
    ps_gauge_set(service->metrics.program_apps, (double)apps);
    ps_gauge_set(service->metrics.program_bytes, (double)bytes);
}

struct ps_mailbox *ps_service_mailbox(struct ps_service *service)
{
    PS_ASSERT(service != NULL);
    return &service->mailbox;
}

/* That of large updates: a program's large sum is the same kind of work. */
struct ps_crew ps_service_program_crew(const struct ps_service *service)
{
    PS_ASSERT(service != NULL);
    return service->crew;
}

/* Topics go by names, as those of parameters and barriers do. */
static uint32_t topic_of(const char *kind, uint64_t number)
{
    char name[48];
    /* Twenty digits at most. */
    int length = snprintf(name, sizeof name, "%s/%" PRIu64, kind, number);
    PS_ASSERT(length > 0 && (size_t)length < sizeof name);
    return ps_topic_of_name((struct ps_bytes){(const uint8_t *)name, (size_t)length});
}

static uint64_t topic_bit_of_request(uint64_t handle)
{
    PS_ASSERT(handle != 0);
    return PS_TOPIC_BIT(topic_of("ask", handle));
}

static enum ps_status admit(struct ps_service *service, uint32_t shard, struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_service_admit_for(service, shard, error);
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(status == PS_OK || error == NULL || error->status == status);
    return status;
}

/* ---- Asking ---- */

/* The parcel is made before the lock of the mailbox is taken, and large content stays where it
 * is. */
enum ps_status ps_service_ask(struct ps_service *service, const struct ps_ask_request *ask,
                              const struct ps_hold *hold, const struct ps_program_room *room,
                              uint64_t wait_ms, struct ps_ask_wait *wait, struct ps_error *error)
{
    struct ps_parcel *question = NULL;
    bool wakes;
    *wait = (struct ps_ask_wait){.app = ask->asked.app};
    /* Before the request takes any memory. */
    enum ps_status status = admit(service, ask->shard, error);
    if (status == PS_OK) {
        question = ps_parcel_create(service->memory, &ask->payload, hold);
        if (question == NULL)
            status = ps_fail(error, PS_ERR_NO_MEMORY,
                             "app %" PRIu32 ": no memory for a request of %zu bytes",
                             ask->asked.app, ask->payload.content.size);
    }
    if (status != PS_OK) {
        if (room->drop != NULL)
            room->drop(room->kept);
        return status;
    }
    /* Read before the mailbox has the parcel: a repeat is released there. */
    uint64_t bytes = question->payload.content.size;
    PS_TRY(ps_mailbox_ask(&service->mailbox, ask, question, room, now_of(service), &wait->asking,
                          &wakes, error));
    ps_counter_add(service->metrics.program_asks, 1);
    ps_counter_add(service->metrics.program_ask_bytes, bytes);
    PS_ASSERT(wait->asking.request != NULL);
    wait->until_ms = ps_deadline_after(service->clock, wait_ms);
    if (wakes)
        ps_service_tell_changed(service, PS_TOPIC_BIT(topic_of("app", ask->asked.app)));
    return look(service, wait, error);
}

enum ps_status ps_service_await_answer(struct ps_service *service, struct ps_ask_wait *wait,
                                       struct ps_error *error)
{
    PS_ASSERT(wait->asking.request != NULL);
    return look(service, wait, error);
}

/* Handlers first: the answer may be there then. */
static enum ps_status look(struct ps_service *service, struct ps_ask_wait *wait,
                           struct ps_error *error)
{
    /* Also of a call that was told: its request may be the next. */
    run_handler(service, wait->app, wait->asking.request);
    PS_ASSERT(wait->until_ms != 0);
    struct ps_mailbox_now now = now_of(service);
    enum ps_status status =
        ps_mailbox_await(&service->mailbox, &wait->asking, now, now.ms >= wait->until_ms, error);
    /* Named first when it has to be waited for: most handlers have answered by now. Of a repeat it
     * is the topic of the first, so that both are told at once. */
    if (status == PS_ERR_NOT_READY)
        wait->topic = topic_of("ask", wait->asking.request->handle);
    return status;
}

bool ps_service_leave_ask(struct ps_service *service, struct ps_ask_wait *wait)
{
    PS_ASSERT(wait->asking.request == NULL || wait->until_ms != 0);
    return wait->asking.request == NULL ||
           ps_mailbox_stop_asking(&service->mailbox, &wait->asking, now_of(service));
}

/* Never 0, which would say that the call has all the time there is. */
uint64_t ps_service_programs_again_ms(const struct ps_service *service, uint64_t until_ms)
{
    uint64_t left_ms = ps_time_left_ms(service->clock, until_ms);
    PS_ASSERT(service->clock != NULL);
    return left_ms > 0 ? left_ms : 1;
}

/* ---- Handlers ---- */

enum ps_status ps_service_register_program(struct ps_service *service, uint32_t app,
                                           const struct ps_program_handler *handler,
                                           struct ps_error *error)
{
    /* In place, since a program has few. */
    if (service->program_count == PS_PROGRAM_HANDLERS_MAX)
        return ps_fail(error, PS_ERR_BUSY, "app %" PRIu32 ": there are %d programs", app,
                       PS_PROGRAM_HANDLERS_MAX);
    PS_ASSERT(handler->handle != NULL);
    PS_TRY(ps_mailbox_register(&service->mailbox, app, error));
    service->programs[service->program_count++] = (struct ps_service_program){app, *handler};
    return PS_OK;
}

/* Written before calls arrive, and read by them without a lock. */
static const struct ps_program_handler *handler_of(const struct ps_service *service, uint32_t app)
{
    PS_ASSERT(service->program_count <= PS_PROGRAM_HANDLERS_MAX);
    for (uint32_t i = 0; i < service->program_count; i++) {
        if (service->programs[i].app == app)
            return &service->programs[i].handler;
    }
    return NULL;
}

/* Requests of others that come meanwhile are run, too, until the own one was: whoever waits for the
 * next is told then. One that nobody waits for is run by whoever is about it. */
static void run_handler(struct ps_service *service, uint32_t app,
                        const struct ps_program_request *own)
{
    const struct ps_program_handler *handler = handler_of(service, app);
    struct ps_program_request *request;
    bool is_own_done = false;
    PS_ASSERT(own != NULL);
    /* Most apps of most servers. */
    if (handler == NULL)
        return;
    while ((request = ps_mailbox_next(&service->mailbox, app, now_of(service))) != NULL) {
        uint64_t next;
        /* Without any lock: it may ask, answer and wait as it likes, and holds up its own app
         * only. */
        handler->handle(handler->self, service, request);
        /* By the address, while the reference keeps it from being another's. */
        is_own_done |= request == own;
        ps_program_request_release(&service->mailbox, request);
        bool is_awaited = ps_mailbox_handled(&service->mailbox, app, &next);
        if (next == 0)
            return;
        /* Whoever waits for the next runs it, on a thread of its own call. */
        if (is_own_done && is_awaited) {
            ps_service_tell_changed(service, topic_bit_of_request(next));
            return;
        }
    }
}

/* On whichever thread answers. */
enum ps_status ps_service_answer(struct ps_service *service, const struct ps_mailbox_answer *answer)
{
    bool wakes;
    enum ps_status status = ps_mailbox_answer(&service->mailbox, answer, now_of(service), &wakes);
    PS_ASSERT(!wakes || status == PS_OK);
    /* On whichever thread waits for it. */
    if (wakes)
        ps_service_tell_changed(service, topic_bit_of_request(answer->handle));
    if (status == PS_OK)
        /* What was refused was answered before, and counted then. */
        ps_counter_add(service->metrics.program_answers, 1);
    return status;
}

/* ---- Taking ---- */

enum ps_status ps_service_take(struct ps_service *service, const struct ps_take_request *take,
                               uint64_t wait_ms, uint64_t bytes_max, struct ps_take_wait *wait,
                               struct ps_error *error)
{
    bool wakes;
    PS_ASSERT(take->worker_count <= PS_PROGRAM_WORKERS_MAX);
    *wait = (struct ps_take_wait){.topic = topic_of("app", take->app)};
    /* A taker of another shard is told so, and goes there. */
    PS_TRY(admit(service, take->shard, error));
    enum ps_status status =
        ps_mailbox_take(&service->mailbox, take, now_of(service), &wait->taking, &wakes, error);
    /* A taker that left has given something back, or failed what it had. */
    if (wakes)
        ps_service_tell_changed(service, take->leave ? EVERY_NAME : PS_TOPIC_BIT(wait->topic));
    /* A touch and a leave are done. */
    if (status != PS_OK || !wait->taking.is_in)
        return status;
    wait->until_ms = ps_deadline_after(service->clock, wait_ms);
    return ps_service_await_requests(service, bytes_max, wait, error);
}

/* A server that cannot prove that it owns the shard gives nothing out: another may be beside it. */
enum ps_status ps_service_await_requests(struct ps_service *service, uint64_t bytes_max,
                                         struct ps_take_wait *wait, struct ps_error *error)
{
    struct ps_mailbox_now now = now_of(service);
    PS_ASSERT(wait->taking.is_in);
    PS_TRY(admit(service, 0, error));
    /* The last look takes what there is. */
    return ps_mailbox_collect(&service->mailbox, &wait->taking,
                              bytes_max != 0 ? bytes_max : REPLY_CONTENT_BYTES_MAX,
                              now.ms >= wait->until_ms, now, error);
}

void ps_service_leave_take(struct ps_service *service, struct ps_take_wait *wait)
{
    PS_ASSERT(service != NULL || !wait->taking.is_in);
    if (wait->taking.is_in)
        ps_mailbox_stop_taking(&service->mailbox, &wait->taking, now_of(service));
}

/* ---- Answers of takers ---- */

/* Where a part lies in the message's content. */
static struct ps_program_tensor cut_part(const struct ps_answer_request *request,
                                         const struct ps_answer_part *part, uint64_t *begin)
{
    struct ps_program_tensor tensor = request->tensors[part->tensor];
    PS_ASSERT(part->tensor < request->tensor_count);
    *begin = 0;
    /* Contents lie one behind another, in the order of their tensors. */
    for (uint32_t i = 0; i < part->tensor; i++)
        *begin += request->tensors[i].size;
    tensor.key = part->key != 0 ? part->key : tensor.key;
    if (part->rows == 0)
        return tensor;
    /* The codec has seen that the tensor has these rows, and a size that is theirs. */
    /* Rows are all of one length, since the shape says the size. */
    uint64_t row = tensor.size / tensor.facts.extents[0];
    *begin += row * part->row_begin;
    tensor.size = row * part->rows;
    /* What is left of it has the same rows, and fewer of them. */
    tensor.facts.extents[0] = part->rows;
    return tensor;
}

/* The pieces of `size` bytes from `begin` on, behind those that are there. */
static void add_pieces(struct ps_view content, uint64_t begin, uint64_t size,
                       struct ps_bytes *pieces, size_t *count)
{
    /* Skipped by slices, not by bytes. */
    struct ps_view_cursor cursor = {.view = content};
    PS_ASSERT(begin + size <= content.size);
    ps_view_skip(&cursor, (size_t)begin);
    while (size > 0) {
        struct ps_bytes piece = ps_view_next(&cursor, (size_t)size);
        /* There is room: each part lies in no more pieces than the whole. */
        pieces[(*count)++] = piece;
        size -= piece.size;
    }
}

/* The parts of one answer as a payload of its own, whose content is by reference. */
static enum ps_status make_answer(struct ps_service *service,
                                  const struct ps_answer_request *request,
                                  const struct ps_program_answered *answered,
                                  const struct ps_hold *hold, struct ps_parcel **parcel,
                                  struct ps_error *error)
{
    /* A part lies in as many pieces at most as all of the content does. */
    size_t parts = answered->part_count;
    size_t pieces_max = parts * (request->content.piece_count + 1);
    struct ps_program_tensor *tensors =
        ps_zeroed_array(service->memory, parts + 1, sizeof *tensors);
    struct ps_bytes *pieces = ps_zeroed_array(service->memory, pieces_max + 1, sizeof *pieces);
    struct ps_program_payload payload = {.tensors = tensors,
                                         .tensor_count = parts,
                                         .body = answered->body,
                                         .lens = answered->lens,
                                         .content = {pieces, 0, 0}};
    *parcel = NULL;
    PS_ASSERT(parts <= PS_PROGRAM_TENSORS_MAX);
    if (tensors != NULL && pieces != NULL) {
        for (size_t i = 0; i < parts; i++) {
            uint64_t begin;
            tensors[i] = cut_part(request, &answered->parts[i], &begin);
            add_pieces(request->content, begin, tensors[i].size, pieces,
                       &payload.content.piece_count);
            payload.content.size += (size_t)tensors[i].size;
        }
        /* A small answer of a large message is copied, and one that is most of it is kept. */
        *parcel = ps_parcel_create(service->memory, &payload, hold);
    }
    ps_release(service->memory, tensors);
    ps_release(service->memory, pieces);
    return *parcel != NULL ? PS_OK : ps_fail(error, PS_ERR_NO_MEMORY, "no memory for an answer");
}

enum ps_status ps_service_answer_taken(struct ps_service *service,
                                       const struct ps_answer_request *request,
                                       const struct ps_hold *hold, enum ps_status *statuses,
                                       struct ps_error *error)
{
    PS_TRY(admit(service, request->shard, error));
    /* Nobody is the handler of this process, whose answers come another way. */
    if (request->taker == 0 || request->token == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "app %" PRIu32 ": an answer has a taker and a token", request->app);
    PS_ASSERT(request->answer_count <= PS_PROGRAM_TAKEN_MAX);
    for (size_t i = 0; i < request->answer_count; i++) {
        const struct ps_program_answered *answered = &request->answers[i];
        struct ps_mailbox_answer answer = {.handle = answered->handle,
                                           .taker = request->taker,
                                           .token = request->token,
                                           .status = answered->status,
                                           .text = answered->text};
        /* A failure has words, and no content. */
        if (answered->status == PS_OK)
            PS_TRY(make_answer(service, request, answered, hold, &answer.parcel, error));
        /* Its parcel is the mailbox's, or was released, whatever the status. */
        statuses[i] = ps_service_answer(service, &answer);
    }
    return PS_OK;
}
