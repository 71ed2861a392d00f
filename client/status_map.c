/* SPDX-License-Identifier: Apache-2.0 */
/* Public statuses: fewer than ours, and each with one thing to do about it. A program that uses the
 * library has to decide among these; what is behind them stands in the text, for people. */
#include "client/status_map.h"

#include "base/attributes.h"

#include <stdio.h>

/* A switch over all statuses and without a default: a new status of ours does not compile before
 * somebody has decided what it means outside. */
enum psclient_status ps_client_status_of(enum ps_status status)
{
    switch (status) {
    case PS_OK:
        return PSCLIENT_OK;
    /* By the time a status comes here the engine has repeated what can be repeated: these three
     * mean that no server took the request until the deadline. */
    case PS_ERR_UNAVAILABLE:
    case PS_ERR_NOT_OWNER:
    case PS_ERR_CONFLICT:
        return PSCLIENT_UNAVAILABLE;
    /* UNKNOWN means that the request may have been applied, and nothing else is called so: after
     * the statuses above a trainer may push its gradient again as a new one, after this one it must
     * not. */
    case PS_ERR_TIMEOUT:
    case PS_ERR_CANCELLED:
        return PSCLIENT_UNKNOWN;
    case PS_ERR_BAD_INPUT:
    case PS_ERR_OUT_OF_RANGE:
    case PS_ERR_UNSUPPORTED:
        return PSCLIENT_INVALID;
    case PS_ERR_NOT_FOUND:
        return PSCLIENT_NOT_FOUND;
    case PS_ERR_EXISTS:
        return PSCLIENT_ALREADY;
    case PS_ERR_NOT_READY:
    case PS_ERR_STALE_EPOCH: /* the lock is lost, or what a server was given: begin again */
        return PSCLIENT_NOT_INITIALIZED;
    /* Memory may have been refused here or on the server; either way nothing was done. */
    case PS_ERR_NO_MEMORY:
    case PS_ERR_BUSY:
        return PSCLIENT_EXHAUSTED;
    /* Told apart from other limits, since waiting does not help by itself. */
    case PS_ERR_TABLE_FULL:
        return PSCLIENT_TABLE_FULL;
    case PS_ERR_CORRUPT:
        return PSCLIENT_DATA_LOSS;
    case PS_ERR_UNAUTHENTICATED:
        return PSCLIENT_UNAUTHENTICATED;
    case PS_ERR_DENIED:
        return PSCLIENT_DENIED;
    case PS_ERR_ABORTED:
        return PSCLIENT_ABORTED;
    /* These are told apart by their text only: nothing that a program could do about them
     * differs. */
    case PS_ERR_LEASE_LOST:
    case PS_ERR_STALE_SESSION: /* its text says that nobody can tell */
    case PS_ERR_ID_REUSED:
    case PS_ERR_MISMATCH:
    case PS_ERR_IO:
    case PS_ERR_INTERNAL:
    case PS_STATUS_COUNT:
        break;
    }
    return PSCLIENT_FAILED;
}

/* The text is cut where the caller's field ends; `text` may be longer. */
int ps_client_fail(struct psclient_error *error, enum ps_status status, const char *text)
{
    enum psclient_status outside = ps_client_status_of(status);
    if (error != NULL) {
        error->status = outside;
        snprintf(error->text, sizeof error->text, "%s", text);
    }
    return (int)outside;
}

/* The caller's struct is written in any case: a text of an earlier call must not stand beside an
 * OK. */
int ps_client_succeed(struct psclient_error *error)
{
    if (error != NULL)
        *error = (struct psclient_error){PSCLIENT_OK, ""};
    return PSCLIENT_OK;
}

/* The name is asked for with numbers from outside, old ones of a newer library for example. */
PS_EXPORT const char *psclient_status_name(enum psclient_status status)
{
    static const char *const names[] = {"ok",         "unavailable", "unknown",         "invalid",
                                        "not_found",  "already",     "not_initialized", "exhausted",
                                        "data_loss",  "failed",      "unauthenticated", "denied",
                                        "table_full", "aborted"};
    if ((unsigned)status >= PS_ARRAY_COUNT(names))
        return "failed";
    return names[status];
}
