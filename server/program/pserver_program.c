/* SPDX-License-Identifier: Apache-2.0 */
/* A server in somebody's program: the same options, the same process, the same instance as
 * pserver's own main has, with handlers registered before the port is bound. */
#include "server/program/pserver_program.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "base/thread.h"
#include "server/process.h"
#include "server/program/program_parts.h"

#include <stdio.h>

struct pserver {
    struct ps_mutex lock; /* PS_RANK_LEAF; guards the two that follow */
    uint32_t stops;       /* on their way through the instance, in threads of the program */
    bool has_ended;
    struct ps_condition stopped;
    struct ps_pserver_options options;
    struct ps_process process;
    uint32_t count;
    uint32_t apps[PS_PROGRAM_HANDLERS_MAX];
    struct ps_program_entry entries[PS_PROGRAM_HANDLERS_MAX];
    struct ps_value_store *stores[PS_PROGRAM_HANDLERS_MAX]; /* owned; NULL: not ready-made */
};

PS_EXPORT const char *pserver_version(void)
{
    return PSERVER_VERSION;
}

/* The caller may not want to know why. */
static int fail(struct pserver_error *error, int status, const char *text)
{
    if (error != NULL) {
        error->status = status;
        (void)snprintf(error->text, sizeof error->text, "%s", text);
    }
    return status;
}

/* What people can do something about; the text says the rest. */
static int status_of(enum ps_status status)
{
    switch (status) {
    case PS_OK:
        return PSERVER_OK;
    case PS_ERR_BAD_INPUT:
    case PS_ERR_OUT_OF_RANGE:
        return PSERVER_INVALID;
    case PS_ERR_EXISTS:
        return PSERVER_ALREADY;
    case PS_ERR_NOT_FOUND:
        return PSERVER_NOT_FOUND;
    case PS_ERR_NO_MEMORY:
    case PS_ERR_BUSY:
        return PSERVER_EXHAUSTED;
    case PS_ERR_CANCELLED:
        return PSERVER_ENDED;
    default:
        return PSERVER_FAILED;
    }
}

/* Signals are blocked here, and not by the start: threads that the program starts in between
 * inherit that. */
PS_EXPORT int pserver_create(int argc, char *const *argv, struct pserver **out,
                             struct pserver_error *error)
{
    struct ps_error why = {0};
    struct pserver *server = ps_zeroed(ps_allocator_heap(), sizeof *server);
    if (server == NULL)
        return fail(error, PSERVER_EXHAUSTED, "no memory for the server");
    enum ps_status status =
        ps_pserver_options_init(&server->options, argc, (char **)(uintptr_t)argv, &why);
    if (status != PS_OK) {
        ps_release(ps_allocator_heap(), server);
        return fail(error, status_of(status), why.text);
    }
    ps_process_begin(&server->process, &server->options);
    ps_mutex_init(&server->lock, PS_RANK_LEAF);
    ps_condition_init(&server->stopped);
    *out = server;
    return PSERVER_OK;
}

PS_EXPORT int pserver_handle(struct pserver *server, uint32_t app, pserver_handler handler,
                             void *self, struct pserver_error *error)
{
    if (handler == NULL || server->process.instance != NULL)
        return fail(error, PSERVER_INVALID, "handlers are named before the start");
    for (uint32_t i = 0; i < server->count; i++) {
        if (server->apps[i] == app)
            return fail(error, PSERVER_ALREADY, "this app has a handler");
    }
    if (server->count == PS_PROGRAM_HANDLERS_MAX)
        return fail(error, PSERVER_EXHAUSTED, "there are as many handlers as there may be");
    server->apps[server->count] = app;
    server->entries[server->count] = (struct ps_program_entry){handler, self};
    server->count++;
    return PSERVER_OK;
}

PS_EXPORT int pserver_handle_ready_made(struct pserver *server, uint32_t app,
                                        enum pserver_ready_made which, enum pserver_element element,
                                        struct pserver_error *error)
{
    struct ps_value_store *store = ps_value_store_create(which, element);
    if (store == NULL)
        return fail(error, PSERVER_EXHAUSTED, "no memory for a store of values");
    int status = pserver_handle(server, app, ps_value_store_handle, store, error);
    if (status == PSERVER_OK)
        server->stores[server->count - 1] = store;
    else
        ps_value_store_destroy(store);
    return status;
}

/* Behind the service and before the port. */
static enum ps_status prepare(void *self, struct ps_service *service, struct ps_error *error)
{
    struct pserver *server = self;
    for (uint32_t i = 0; i < server->count; i++) {
        const struct ps_program_handler handler = {ps_program_entry_handle, &server->entries[i]};
        PS_TRY(ps_service_register_program(service, server->apps[i], &handler, error));
    }
    return PS_OK;
}

PS_EXPORT int pserver_start(struct pserver *server, struct pserver_error *error)
{
    struct ps_error why = {0};
    const struct ps_preparation preparation = {prepare, server};
    if (server->process.instance != NULL)
        return fail(error, PSERVER_ALREADY, "the server was started");
    enum ps_status status = ps_process_start(&server->process, &preparation, &why);
    return status == PS_OK ? PSERVER_OK : fail(error, status_of(status), why.text);
}

PS_EXPORT const char *pserver_address(const struct pserver *server)
{
    return server->process.instance != NULL ? ps_instance_address(server->process.instance) : "";
}

/* Another thread may be in pserver_wait, which ends the instance as soon as it has stopped. */
PS_EXPORT void pserver_stop(struct pserver *server)
{
    ps_mutex_lock(&server->lock);
    bool may_stop = server->process.instance != NULL && !server->has_ended;
    if (may_stop)
        server->stops++;
    ps_mutex_unlock(&server->lock);
    if (!may_stop)
        return;
    ps_process_stop(&server->process);
    ps_mutex_lock(&server->lock);
    server->stops--;
    ps_condition_signal_all(&server->stopped);
    ps_mutex_unlock(&server->lock);
}

/* Handlers may still answer while the server drains; once this has returned none of them runs. */
PS_EXPORT int pserver_wait(struct pserver *server)
{
    int code = ps_process_wait(&server->process);
    ps_mutex_lock(&server->lock);
    server->has_ended = true;
    while (server->stops > 0)
        (void)ps_condition_wait(&server->stopped, &server->lock, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&server->lock);
    ps_process_end(&server->process);
    return code;
}

PS_EXPORT void pserver_destroy(struct pserver *server)
{
    if (server == NULL)
        return;
    PS_ASSERT(server->process.instance == NULL);
    for (uint32_t i = 0; i < server->count; i++)
        ps_value_store_destroy(server->stores[i]);
    ps_condition_fini(&server->stopped);
    ps_mutex_fini(&server->lock);
    ps_pserver_options_fini(&server->options);
    ps_release(ps_allocator_heap(), server);
}
