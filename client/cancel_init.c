/* SPDX-License-Identifier: Apache-2.0 */
/* Ending an initialisation from another thread. What the initialising thread waits for is one of
 * three things: answers of servers (the engine cancels those batches), its turn in the store (its
 * way is interrupted), or a moment (the wake-up). Each ends; whoever comes back from one of them
 * looks whether it was cancelled before it waits again. */
#include "client/psclient.h"

#include "client/client_state.h"

/* Of the initialisation, and of nothing else that a trainer does meanwhile; an operator's look at a
 * server's state may be among them. EndInit is left alone: it is short, and by it a place in the
 * queue is given up. */
static bool is_of_init(enum ps_method method)
{
    return method == PS_METHOD_INIT || method == PS_METHOD_FINISH || method == PS_METHOD_STATUS ||
           method == PS_METHOD_BEGIN_INIT;
}

/* The way outlives the lock: it ends with the client. */
PS_EXPORT void psclient_cancel_init(struct psclient *client)
{
    if (ps_process_mark_is_child(&client->mark))
        return;
    ps_mutex_lock(&client->mutex);
    atomic_store(&client->init_cancelled, client->initialising);
    bool waits_for_turn = client->initialising && client->has_init_way;
    ps_engine_cancel_all(client->engine, is_of_init);
    ps_client_pump(client);
    ps_mutex_unlock(&client->mutex);
    if (waits_for_turn)
        client->initialiser.way.interrupt(client->initialiser.way.self);
    /* Also ends the poll of a leader, whose batch may be over without an outcome. */
    ps_wake_all(&client->wake);
}
