/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of the calls, from the table. The strings are joined by the compiler: a path never has
 * to be put together, allocated or compared in parts. */
#include "proto/methods.h"

#include "base/assert.h"

#include <stdbool.h>

const char *ps_method_path(enum ps_method method)
{
    /* A switch without a default: a method that the table lacks does not compile. */
    switch (method) {
#define PS_METHOD_CASE(TAG, service, name) \
    case TAG:                              \
        return "/" service "/" name;
        PS_METHOD_TABLE(PS_METHOD_CASE)
#undef PS_METHOD_CASE
    case PS_METHOD_COUNT:
        break;
    }
    PS_ASSERT(false && "no such method");
}
