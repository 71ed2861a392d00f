/* SPDX-License-Identifier: Apache-2.0 */
/* A batch under way: begun, waited for in slices between which ctrl-C is heard, and ended.
 *
 * A flight that nobody waits for any more (its Operation was dropped, or ctrl-C came) goes on, and
 * its client keeps it, and with it the caller's arrays, until it is over: libpsclient still reads
 * and writes that memory.
 *
 * Threads:  with Python's lock, which is released while the library waits.
 * Blocking: ps_python_flight_wait as it says, ps_python_flights_end until all are over.
 * Errors:   exceptions.
 * Memory:   a flight owns its batch; the client owns flights that were left to it.
 */
#ifndef PS_PYTHON_FLIGHT_H
#define PS_PYTHON_FLIGHT_H

#include "python_batch.h"

struct ps_python_client;

struct ps_python_flight {
    struct ps_python_batch *batch;
    struct psclient_operation *operation; /* NULL: ended, and `status` says how */
    int status;
    size_t waiting;                           /* threads in the library for it */
    bool finished;                            /* the library has said so: ending it does not wait */
    bool left;                                /* to the client: nobody asks for its result */
    struct ps_python_flight *next, *previous; /* in the client's list while it is under way */
};

/* Takes `batch`, in any case. Returns the flight, to be left or destroyed; NULL with an
 * exception. */
struct ps_python_flight *ps_python_flight_begin(struct ps_python_client *client,
                                                struct ps_python_batch *batch, uint64_t timeout_ms);

/* 1: it is over. 0: not within `timeout_ms`, or PS_PYTHON_SLICE_MS if that is less. -1: an
 * exception, of a signal's handler for instance. */
int ps_python_flight_wait(struct ps_python_client *client, struct ps_python_flight *flight,
                          uint64_t timeout_ms);

/* Ends it as if its timeout were over; it is to be waited for as ever. */
void ps_python_flight_cancel(struct ps_python_flight *flight);

/* How long ctrl-C may go unheard. */
#define PS_PYTHON_SLICE_MS 50

/* What became of one that is over: as ps_python_batch_conclude. May be asked again. */
PyObject *ps_python_flight_conclude(struct ps_python_client *client,
                                    struct ps_python_flight *flight);

/* Ends the owner's interest: one that is over goes at once, another when it is over. */
void ps_python_flight_leave(struct ps_python_client *client, struct ps_python_flight *flight);

/* Fetches one operation that is finished, for whoever dispatches them: its user is the flight. NULL
 * when there is none within the time. */
struct ps_python_flight *ps_python_flight_next(struct ps_python_client *client,
                                               uint64_t timeout_ms);

/* Ends every flight of a client that closes, whoever owns it; `cancel`: without waiting for its
 * answers. */
void ps_python_flights_end(struct ps_python_client *client, bool cancel);

#endif
