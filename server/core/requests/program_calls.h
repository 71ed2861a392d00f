/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as the service offers them (../programs/): admission, the clock, whom to tell, and the
 * handlers of this process.
 *
 * Threads:  every function is safe from any thread; a wait belongs to its call. A handler runs on
 *           the thread of whoever has asked, or asks while another's request waits; for one app on
 *           one thread at a time.
 * Blocking: as long as handlers do that are run.
 * Errors:   each function lists its own. All: PS_ERR_UNAVAILABLE and PS_ERR_NOT_OWNER as for a
 *           pull, but that the shard need not be initialised.
 * Memory:   a wait keeps what it refers to until it is left.
 */
#ifndef PS_SERVER_CORE_PROGRAM_CALLS_H
#define PS_SERVER_CORE_PROGRAM_CALLS_H

#include "server/core/programs/mailbox.h"
#include "server/core/requests/service.h"

/* A call of a worker. Zeroed: none. */
struct ps_ask_wait {
    struct ps_asking asking;
    uint32_t app;
    uint32_t topic;
    uint64_t until_ms; /* on the service's clock */
};

/* A call of a taker. Zeroed: none. */
struct ps_take_wait {
    struct ps_taking taking;
    uint32_t topic;
    uint64_t until_ms;
};

/* Called with a request that is the handler's until it has answered it, once, by ps_service_answer
 * under the request's handle. The request is borrowed for the call: who answers later acquires it
 * (ps_program_request_acquire). */
struct ps_program_handler {
    void (*handle)(void *self, struct ps_service *service, struct ps_program_request *request);
    void *self; /* borrowed; outlives the service */
};

/* Most apps that have a handler in one process. */
#define PS_PROGRAM_HANDLERS_MAX 64

/* Before calls arrive: so no request comes before its handler. PS_ERR_EXISTS: the app has one.
 * PS_ERR_BUSY, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_service_register_program(struct ps_service *service, uint32_t app,
                                                       const struct ps_program_handler *handler,
                                                       struct ps_error *error);

/* Keeps the content by `hold`, or copies it; takes what `room` holds in any case. The call waits
 * for at most `wait_ms`. On PS_OK the answer is there (ps_asking_answer).
 *
 * PS_ERR_NOT_READY  it waits: ps_service_await_answer follows
 * and the statuses of ps_mailbox_ask and ps_mailbox_await. In any case ps_service_leave_ask follows
 * at the end.
 */
PS_MUST_USE enum ps_status ps_service_ask(struct ps_service *service,
                                          const struct ps_ask_request *ask,
                                          const struct ps_hold *hold,
                                          const struct ps_program_room *room, uint64_t wait_ms,
                                          struct ps_ask_wait *wait, struct ps_error *error);
PS_MUST_USE enum ps_status ps_service_await_answer(struct ps_service *service,
                                                   struct ps_ask_wait *wait,
                                                   struct ps_error *error);
/* Twice is allowed, and so is a wait that never was one. True: nobody has taken the request, and
 * nobody will. */
bool ps_service_leave_ask(struct ps_service *service, struct ps_ask_wait *wait);

/* As that, for a taker. On PS_OK wait->taking has the rows: none of a touch, of a leave, and when
 * the time is over. `bytes_max`: content of one reply; 0: as much as a message may have. */
PS_MUST_USE enum ps_status ps_service_take(struct ps_service *service,
                                           const struct ps_take_request *take, uint64_t wait_ms,
                                           uint64_t bytes_max, struct ps_take_wait *wait,
                                           struct ps_error *error);
PS_MUST_USE enum ps_status ps_service_await_requests(struct ps_service *service, uint64_t bytes_max,
                                                     struct ps_take_wait *wait,
                                                     struct ps_error *error);
void ps_service_leave_take(struct ps_service *service, struct ps_take_wait *wait);

/* When a call that waits until then wants to be asked again, in milliseconds from now, at least
 * 1. */
uint64_t ps_service_programs_again_ms(const struct ps_service *service, uint64_t until_ms);

/* Each answer of the message by itself: `statuses` has room for all.
 *
 * PS_ERR_NO_MEMORY  nothing was answered from some place on: the caller says it again
 */
PS_MUST_USE enum ps_status ps_service_answer_taken(struct ps_service *service,
                                                   const struct ps_answer_request *request,
                                                   const struct ps_hold *hold,
                                                   enum ps_status *statuses,
                                                   struct ps_error *error);

/* One answer of a handler in this process. Takes the parcel. PS_ERR_EXISTS, PS_ERR_NOT_FOUND. */
PS_MUST_USE enum ps_status ps_service_answer(struct ps_service *service,
                                             const struct ps_mailbox_answer *answer);

/* For handlers: threads that help with large work; its run may be NULL. */
struct ps_mailbox *ps_service_mailbox(struct ps_service *service);
struct ps_crew ps_service_program_crew(const struct ps_service *service);

/* For the service itself: at its begin and end, when it loses its shard, and with each turn of the
 * coordinator. */
void ps_service_begin_programs(struct ps_service *service,
                               const struct ps_service_options *options);
void ps_service_lose_programs(struct ps_service *service);
void ps_service_sweep_programs(struct ps_service *service);

#endif
