/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of psclient.h as the caller's compiler laid them out. A program may have been
 * compiled with an older header than this library, or with a newer one, so that its structs are
 * shorter or longer than ours. They grow at their ends only: what both sides know is at the same
 * place.
 *
 * No code indexes an array of the caller's by itself. Entries are found with ps_caller_at; what is
 * read from an entry is copied by ps_caller_parameter or ps_caller_gradient, what is written to one
 * by ps_caller_copy. Only fields that the first header had may be used in place.
 *
 * Threads:  any; sizes do not change after open.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, where a function says so.
 * Memory:   none; the caller's is borrowed for the call.
 */
#ifndef PS_CLIENT_CALLER_STRUCTS_H
#define PS_CLIENT_CALLER_STRUCTS_H

#include "base/status.h"
#include "client/psclient.h"

#include <stddef.h>
#include <string.h>

/* The structs of the first header whose psclient_open said nothing of them: version 0.1.0 as
 * programs know it that look the symbol psclient_open up by themselves. These never change. */
struct psclient_sizes ps_caller_sizes_first(void);

/* What a program said of its structs, `known` in our own words. PS_ERR_BAD_INPUT: one is shorter
 * than it ever was. */
PS_MUST_USE enum ps_status ps_caller_sizes_take(const struct psclient_sizes *told,
                                                struct psclient_sizes *known,
                                                struct ps_error *error);

/* The caller's options in our own words. PS_ERR_BAD_INPUT: one is set that this library does not
 * know; to ignore it could mean to go without a password. */
PS_MUST_USE enum ps_status ps_caller_options(const struct psclient_options *options, size_t size,
                                             struct psclient_options *known,
                                             struct ps_error *error);

/* Copies what both structs have; what only `to` has becomes zero. */
static inline void ps_caller_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
    size_t both = to_size < from_size ? to_size : from_size;
    memcpy(to, from, both);
    if (both < to_size)
        memset((uint8_t *)to + both, 0, to_size - both);
}

/* Entry `i` of an array whose entries have `size` bytes. */
static inline void *ps_caller_at(const void *array, size_t size, size_t i)
{
    return (uint8_t *)(uintptr_t)array + i * size;
}

/* Entry `i` as our own struct: fields that the caller's header did not have are zero. */
static inline struct psclient_parameter
ps_caller_parameter(const struct psclient_sizes *sizes, const struct psclient_parameter *parameters,
                    size_t i)
{
    struct psclient_parameter parameter;
    ps_caller_copy(&parameter, sizeof parameter, ps_caller_at(parameters, sizes->parameter, i),
                   sizes->parameter);
    return parameter;
}

/* A parameter of which only the content is the caller's to fill in waits for nothing, whatever its
 * other fields hold. */
static inline void ps_caller_clear_waits(const struct psclient_sizes *sizes,
                                         struct psclient_parameter *parameter)
{
    const size_t first = offsetof(struct psclient_parameter, at_least_version);
    const size_t end = sizeof *parameter < sizes->parameter ? sizeof *parameter : sizes->parameter;
    if (first < end)
        memset((uint8_t *)parameter + first, 0, end - first);
}

static inline struct psclient_gradient ps_caller_gradient(const struct psclient_sizes *sizes,
                                                          const struct psclient_gradient *gradients,
                                                          size_t i)
{
    struct psclient_gradient gradient;
    ps_caller_copy(&gradient, sizeof gradient, ps_caller_at(gradients, sizes->gradient, i),
                   sizes->gradient);
    return gradient;
}

#endif
