/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers in this process: a taker without calls, of one app, whose requests are given out one at
 * a time. Whoever brings a request looks whether it is its turn; if another thread is about one
 * already, the request waits for that thread, or for the look of whoever is told of the end. */
#include "server/core/programs/mailbox.h"

#include "base/assert.h"
#include "server/core/programs/mailbox_parts.h"

#include <inttypes.h>
#include <utlist.h>

/* One or the other: an app whose requests went to takers and to a handler by turns would be
 * nobody's to understand. */
enum ps_status ps_mailbox_register(struct ps_mailbox *mailbox, uint32_t id, struct ps_error *error)
{
    struct ps_app *app;
    ps_mutex_lock(&mailbox->lock);
    enum ps_status status = ps_mailbox_find_or_add_app(mailbox, id, &app, error);
    if (status == PS_OK && (app->has_handler || app->takers != NULL))
        status = ps_fail(error, PS_ERR_EXISTS, "app %" PRIu32 " has a program already", id);
    if (status == PS_OK)
        app->has_handler = true;
    PS_ASSERT(status != PS_OK || app->takers == NULL);
    ps_mutex_unlock(&mailbox->lock);
    return status;
}

/* The first of all workers, by priority and order. The reference is the handler's caller's; a
 * handler that answers later has one of its own. */
struct ps_program_request *ps_mailbox_next(struct ps_mailbox *mailbox, uint32_t id,
                                           struct ps_mailbox_now now)
{
    struct ps_program_request *request = NULL;
    ps_mutex_lock(&mailbox->lock);
    struct ps_app *app = ps_mailbox_find_app(mailbox, id);
    if (app != NULL && app->has_handler && !app->is_running)
        request = app->waiting;
    if (request != NULL) {
        PS_ASSERT(request->state == PS_PROGRAM_WAITING);
        app->is_running = true;
        ps_mailbox_pull_out(request);
        request->state = PS_PROGRAM_TAKEN;
        request->taker = 0;
        request->taken_ns = now.unix_ns;
        request->references++;
        DL_APPEND(app->handled, request);
        app->handled_count++;
    }
    ps_mutex_unlock(&mailbox->lock);
    return request;
}

/* What waits is looked at under the lock that ends the run: a request that comes later finds nobody
 * about the app, and is run by whoever brings it. */
bool ps_mailbox_handled(struct ps_mailbox *mailbox, uint32_t id, uint64_t *next)
{
    ps_mutex_lock(&mailbox->lock);
    struct ps_app *app = ps_mailbox_find_app(mailbox, id);
    /* An app with a handler stays. */
    PS_ASSERT(app != NULL && app->is_running);
    app->is_running = false;
    *next = app->waiting != NULL ? app->waiting->handle : 0;
    bool is_awaited = app->waiting != NULL && app->waiting->calls > 0;
    ps_mutex_unlock(&mailbox->lock);
    return is_awaited;
}
