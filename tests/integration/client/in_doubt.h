/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes whose time is over before a server has answered.
 *
 * Threads:  any.
 * Blocking: until a timeout has passed: the first one, but on a busy machine.
 * Errors:   none of its own.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_IN_DOUBT_H
#define PS_TESTS_INTEGRATION_CLIENT_IN_DOUBT_H

#include "client/psclient.h"

#define IN_DOUBT_MS_MAX 60000

/* The status of a push that no server answers, under a timeout of `timeout_ms`. What was not even
 * sent in that time is PSCLIENT_UNAVAILABLE; it is pushed again with more time. */
static inline int push_in_doubt(struct psclient *client, const struct psclient_gradient *gradient,
                                uint64_t timeout_ms, struct psclient_error *error)
{
    int status = PSCLIENT_UNAVAILABLE;
    for (; status == PSCLIENT_UNAVAILABLE && timeout_ms <= IN_DOUBT_MS_MAX; timeout_ms *= 4)
        status = psclient_push(client, gradient, 1, timeout_ms, NULL, error);
    return status;
}

#endif
