/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting as Python wants it. libpsclient makes progress while a thread waits in it; that thread
 * has released Python's lock, and comes back every PS_PYTHON_SLICE_MS to look for signals.
 *
 *     begun ──over──► finished ──end──► ended ──leave──► gone
 *       └──leave──► left ──over, sweep or close──► gone
 *
 * All fields of a flight change with Python's lock held. While it is released, for a wait, a
 * thread keeps nothing but the library's operation, which lives until it is ended; and it is not
 * ended while a thread waits for it (`waiting`). */
#include "python_flight.h"

#include "python_client.h"

static void link_flight(struct ps_python_client *client, struct ps_python_flight *flight);
static void unlink_flight(struct ps_python_client *client, struct ps_python_flight *flight);
static void end(struct ps_python_client *client, struct ps_python_flight *flight);
static void destroy(struct ps_python_flight *flight);
static void sweep(struct ps_python_client *client);

/* The flight is the operation's `user`: psclient_next gives it back when the operation is over. An
 * initialisation does not come here, since it is a plain call. */
static int begin(struct psclient *client, struct ps_python_flight *flight, uint64_t timeout_ms)
{
    struct ps_python_batch *batch = flight->batch;
    /* One call of the library for each kind; what it borrows lies in the batch. */
    switch (batch->kind) {
    case PS_PYTHON_PUSH:
        return psclient_push_begin(client, batch->gradients, batch->count, timeout_ms, flight,
                                   &flight->operation, &batch->error);
    case PS_PYTHON_PULL:
        return psclient_pull_begin(client, batch->parameters, batch->count, timeout_ms, flight,
                                   &flight->operation, &batch->error);
    case PS_PYTHON_PUSH_PULL:
    case PS_PYTHON_INIT:
    case PS_PYTHON_NAMES:
        break;
    }
    return psclient_push_pull_begin(client, batch->gradients, batch->parameters, batch->count,
                                    timeout_ms, flight, &flight->operation, &batch->error);
}

/* Beginning encodes gradients, which takes the time of reading them: without the lock. */
struct ps_python_flight *ps_python_flight_begin(struct ps_python_client *client,
                                                struct ps_python_batch *batch, uint64_t timeout_ms)
{
    sweep(client);
    struct ps_python_flight *flight = PyMem_Calloc(1, sizeof *flight);
    /* The batch is taken in any case, so that callers have one way out. */
    if (flight == NULL) {
        ps_python_batch_destroy(batch);
        return (struct ps_python_flight *)PyErr_NoMemory();
    }
    flight->batch = batch;
    PyThreadState *thread = ps_python_enter(client);
    int status = begin(client->client, flight, timeout_ms);
    ps_python_leave(client, thread);
    /* Nothing was sent, and there is no operation. */
    if (status != PSCLIENT_OK) {
        ps_python_raise(client->state, status, batch->error.text, NULL);
        destroy(flight);
        return NULL;
    }
    link_flight(client, flight);
    return flight;
}

/* The lock is released also for a timeout of 0: taking answers in copies contents. */
struct ps_python_flight *ps_python_flight_next(struct ps_python_client *client, uint64_t timeout_ms)
{
    PyThreadState *thread = ps_python_enter(client);
    struct psclient_operation *operation = psclient_next(client->client, timeout_ms);
    ps_python_leave(client, thread);
    if (operation == NULL)
        return NULL;
    /* The flight is still there: it is not destroyed before its operation is ended. */
    struct ps_python_flight *flight = psclient_operation_user(operation);
    flight->finished = true;
    return flight;
}

/* Waits for this one. Another thread may end it as soon as the lock is free: so the operation is
 * looked at before, and the flight's own marks afterwards. */
static void wait_slice(struct ps_python_client *client, struct ps_python_flight *flight,
                       uint64_t slice_ms)
{
    struct psclient_operation *operation = flight->operation;
    if (operation == NULL || flight->finished)
        return;
    flight->waiting++;
    PyThreadState *thread = ps_python_enter(client);
    int finished = psclient_wait(operation, slice_ms);
    ps_python_leave(client, thread);
    flight->waiting--;
    if (finished)
        flight->finished = true;
}

/* Signals are looked at after every slice, also after the last: a ctrl-C that came while the answer
 * did is not put off to the next call. A flight that another thread waits for is left to whichever
 * of them comes out of the library last. */
int ps_python_flight_wait(struct ps_python_client *client, struct ps_python_flight *flight,
                          uint64_t timeout_ms)
{
    wait_slice(client, flight, timeout_ms < PS_PYTHON_SLICE_MS ? timeout_ms : PS_PYTHON_SLICE_MS);
    if (PyErr_CheckSignals() != 0)
        return -1;
    if (flight->finished && flight->waiting == 0)
        end(client, flight);
    return flight->operation == NULL ? 1 : 0;
}

/* Returns at once: the operation is over a moment later, and its arrays are in use until then. */
void ps_python_flight_cancel(struct ps_python_flight *flight)
{
    if (flight->operation != NULL)
        psclient_cancel(flight->operation);
}

/* The results lie in the batch, which stays until the flight is left: so a result may be asked for
 * again. */
PyObject *ps_python_flight_conclude(struct ps_python_client *client,
                                    struct ps_python_flight *flight)
{
    return ps_python_batch_conclude(client->state, flight->batch, flight->status);
}

/* One that is under way stays in the client's list with its arrays; sweep() finds it there. */
void ps_python_flight_leave(struct ps_python_client *client, struct ps_python_flight *flight)
{
    flight->left = true;
    if (flight->finished)
        end(client, flight);
    if (flight->operation == NULL)
        destroy(flight);
}

/* The results are copied out of the operation, which goes. Of one that is finished this takes no
 * time, and the lock is kept: no other thread may see it half ended. Only close() ends others, off
 * the list first, since the lock is released meanwhile. */
static void end(struct ps_python_client *client, struct ps_python_flight *flight)
{
    struct psclient_operation *operation = flight->operation;
    if (operation == NULL)
        return;
    struct ps_python_batch *batch = flight->batch;
    unlink_flight(client, flight);
    if (flight->finished) {
        flight->status = psclient_end(operation, batch->results, &batch->error);
    } else {
        PyThreadState *thread = ps_python_enter(client);
        flight->status = psclient_end(operation, batch->results, &batch->error);
        ps_python_leave(client, thread);
    }
    flight->finished = true;
    flight->operation = NULL;
}

/* Off every list, and ended: nothing points here any more. */
static void destroy(struct ps_python_flight *flight)
{
    ps_python_batch_destroy(flight->batch);
    PyMem_Free(flight);
}

/* A list, and no table: sweep() walks over all of it, and a trainer has a few under way. */
static void link_flight(struct ps_python_client *client, struct ps_python_flight *flight)
{
    flight->next = client->flights;
    if (client->flights != NULL)
        client->flights->previous = flight;
    client->flights = flight;
}

/* Both neighbours are asked, since a flight may stand anywhere: answers come in any order. */
static void unlink_flight(struct ps_python_client *client, struct ps_python_flight *flight)
{
    if (flight->previous != NULL)
        flight->previous->next = flight->next;
    else
        client->flights = flight->next;
    if (flight->next != NULL)
        flight->next->previous = flight->previous;
    flight->next = flight->previous = NULL;
}

/* Gives the memory of flights back that were left and are over. Called when the next one begins, so
 * that a trainer that only pushes and never waits has no more of them than are under way. */
static void sweep(struct ps_python_client *client)
{
    struct ps_python_flight *next;
    for (struct ps_python_flight *flight = client->flights; flight != NULL; flight = next) {
        next = flight->next; /* before this one is destroyed */
        if (!flight->left || !(flight->finished || psclient_wait(flight->operation, 0)))
            continue;
        flight->finished = true;
        end(client, flight);
        destroy(flight);
    }
}

/* Those that are not cancelled are waited for, which their timeouts bound. */
void ps_python_flights_end(struct ps_python_client *client, bool cancel)
{
    if (cancel)
        for (struct ps_python_flight *flight = client->flights; flight != NULL;
             flight = flight->next)
            psclient_cancel(flight->operation);
    /* From the front until there is none: ending one takes it off the list. */
    while (client->flights != NULL) {
        struct ps_python_flight *flight = client->flights;
        end(client, flight);
        /* One that an Operation has keeps its results for it. */
        if (flight->left)
            destroy(flight);
    }
}
