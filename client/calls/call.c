/* SPDX-License-Identifier: Apache-2.0 */
/* The halves of a request and of a reply: a push and a pull go alone or together, and most code
 * asks for one of them without caring which. */
#include "client/calls/call.h"

#include <stddef.h>

/* A definition is the message of an initialisation, later. */
const struct ps_init_request *ps_call_init_of(const struct ps_call_request *request)
{
    bool gives = request->method == PS_METHOD_INIT || request->method == PS_METHOD_DEFINE;
    return gives ? &request->init : NULL;
}

/* NULL for every other method, so that a caller need not know which methods push. */
const struct ps_push_request *ps_call_push_of(const struct ps_call_request *request)
{
    if (request->method == PS_METHOD_PUSH)
        return &request->push;
    return request->method == PS_METHOD_PUSH_PULL ? &request->push_pull.push : NULL;
}

const struct ps_pull_request *ps_call_pull_of(const struct ps_call_request *request)
{
    if (request->method == PS_METHOD_PULL)
        return &request->pull;
    return request->method == PS_METHOD_PUSH_PULL ? &request->push_pull.pull : NULL;
}

/* Also of a reply whose pull failed: the push of it was done. */
const struct ps_push_reply *ps_call_pushed(const struct ps_call_reply *reply)
{
    if (reply->method == PS_METHOD_PUSH)
        return &reply->push;
    return reply->method == PS_METHOD_PUSH_PULL ? &reply->push_pull.push : NULL;
}

const struct ps_pull_reply *ps_call_pulled(const struct ps_call_reply *reply)
{
    if (reply->method == PS_METHOD_PULL)
        return &reply->pull;
    return reply->method == PS_METHOD_PUSH_PULL ? &reply->push_pull.pull : NULL;
}
