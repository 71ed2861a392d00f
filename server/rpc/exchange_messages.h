/* The messages of one stream of bundles that have come and are not answered yet: a few, worked on
 * side by side, so that one that waits (for the disk, say) does not keep the others.
 *
 * They begin in the order in which they came, each as soon as the earlier ones allow it
 * (ps_bundle_run_may_follow), and are answered as they are done. What is new is not read when
 * PS_EXCHANGE_MESSAGES_MAX are open or they hold PS_EXCHANGE_BYTES_MAX; what was read is not begun
 * while answers of so many bytes wait for the client to take them.
 *
 * Threads:  the lane's.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, PS_ERR_UNSUPPORTED, PS_ERR_NO_MEMORY.
 * Memory:   in place; requests and answers are bounded as said.
 */
#ifndef PS_SERVER_RPC_EXCHANGE_MESSAGES_H
#define PS_SERVER_RPC_EXCHANGE_MESSAGES_H

#include "server/rpc/bundle_run.h"
#include "server/rpc/rpc_call.h"

#define PS_EXCHANGE_MESSAGES_MAX 8
#define PS_EXCHANGE_BYTES_MAX ((size_t)64 << 20)

enum ps_exchange_state { PS_EXCHANGE_NEW, PS_EXCHANGE_WORKING, PS_EXCHANGE_DONE, PS_EXCHANGE_SENT };

struct ps_exchange_messages;

struct ps_exchange_message {
    struct ps_exchange_messages *list;
    enum ps_exchange_state state;
    struct ps_rpc_call request; /* only what it says of a request */
    size_t request_bytes;
    size_t reply_bytes;
    struct ps_bundle_run *run; /* owned; NULL once its answer is on its way */
    struct ps_waiter turn;     /* while there is more to do */
};

struct ps_exchange_messages {
    struct ps_lane *lane; /* borrowed; outlives this */
    void (*changed)(void *owner);
    void *owner;
    struct ps_exchange_message places[PS_EXCHANGE_MESSAGES_MAX];
    struct ps_exchange_message *order[PS_EXCHANGE_MESSAGES_MAX]; /* the first to come first */
    size_t count;
};

/* `changed` is called when a message has got on by itself, outside of any call to here. */
void ps_exchange_messages_init(struct ps_exchange_messages *messages, struct ps_lane *lane,
                               void (*changed)(void *owner), void *owner);

/* May another one be read? */
bool ps_exchange_messages_have_room(const struct ps_exchange_messages *messages);

/* Takes the request of `call` in any case. */
PS_MUST_USE enum ps_status ps_exchange_messages_take(struct ps_exchange_messages *messages,
                                                     struct ps_rpc_call *call,
                                                     struct ps_error *error);

/* Begins what may begin now. */
void ps_exchange_messages_work(struct ps_exchange_messages *messages);

/* The bell has rung: those that wait try again. */
void ps_exchange_messages_woken(struct ps_exchange_messages *messages);

/* Returns the next answer that is done, or NULL; it counts until ps_exchange_messages_sent. On a
 * failure the message is gone without an answer. */
PS_MUST_USE enum ps_status ps_exchange_messages_answer(struct ps_exchange_messages *messages,
                                                       grpc_byte_buffer **answer,
                                                       struct ps_error *error);
void ps_exchange_messages_sent(struct ps_exchange_messages *messages);

/* Forgets all of them but one whose answer is on its way. */
void ps_exchange_messages_drop(struct ps_exchange_messages *messages);

#endif
