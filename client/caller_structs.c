/* SPDX-License-Identifier: Apache-2.0 */
/* How long the structs of a program may be. A struct that is shorter than its first form is a
 * mistake (a binding that declares it wrongly), and would have fields read behind its end. A longer
 * one than ours is that of a newer header. */
#include "client/caller_structs.h"

#include "base/assert.h"

#include <stddef.h>
#include <stdio.h>

/* The size that a struct had when this was its last field. */
#define SIZE_UP_TO(type, field)                                                     \
    ((offsetof(type, field) + sizeof(((type *)NULL)->field) + _Alignof(type) - 1) / \
     _Alignof(type) * _Alignof(type))

/* Bytes behind our options count as options that are set, unless they are zero. Padding at the end,
 * which no program sets, would be such bytes for an older library: so the last field ends the
 * struct. Whoever adds a field names it here. */
_Static_assert(offsetof(struct psclient_options, placement) +
                       sizeof(((struct psclient_options *)NULL)->placement) ==
                   sizeof(struct psclient_options),
               "options end with their last field");

/* Written down by last fields and not by numbers, so that they hold for 32-bit machines as well. */
struct psclient_sizes ps_caller_sizes_first(void)
{
    return (struct psclient_sizes){
        .sizes = SIZE_UP_TO(struct psclient_sizes, saved),
        .options = SIZE_UP_TO(struct psclient_options, etcd_insecure_password),
        .parameter = SIZE_UP_TO(struct psclient_parameter, version),
        .gradient = SIZE_UP_TO(struct psclient_gradient, content_size),
        .result = SIZE_UP_TO(struct psclient_result, text),
        .counters = SIZE_UP_TO(struct psclient_counters, shared_servers),
        .replica_counters = SIZE_UP_TO(struct psclient_replica_counters, mismatches),
        .server_status = SIZE_UP_TO(struct psclient_server_status, lost_push_count),
        .param_info = SIZE_UP_TO(struct psclient_param_info, learning_rate),
        .saved = SIZE_UP_TO(struct psclient_saved, bytes)};
}

/* Every member is a size_t, so that both are walked through as arrays. A struct that the program's
 * header does not have has size 0, and the program cannot pass one. */
enum ps_status ps_caller_sizes_take(const struct psclient_sizes *told, struct psclient_sizes *known,
                                    struct ps_error *error)
{
    const struct psclient_sizes first = ps_caller_sizes_first();
    if (told->sizes < first.sizes)
        return ps_fail(error, PS_ERR_BAD_INPUT, "sizes of structs in %zu bytes", told->sizes);
    ps_caller_copy(known, sizeof *known, told, told->sizes);
    PS_ASSERT(known->sizes == told->sizes);
    for (size_t i = 0; i < sizeof first / sizeof(size_t); i++) {
        size_t size, least;
        memcpy(&size, (const uint8_t *)known + i * sizeof size, sizeof size);
        memcpy(&least, (const uint8_t *)&first + i * sizeof least, sizeof least);
        if (size < least)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "struct %zu of psclient_sizes has %zu bytes, never less than %zu", i,
                           size, least);
    }
    return PS_OK;
}

/* The caller's zeros mean "as always", also for an option that nobody here has heard of. */
enum ps_status ps_caller_options(const struct psclient_options *options, size_t size,
                                 struct psclient_options *known, struct ps_error *error)
{
    for (size_t i = sizeof *known; i < size; i++)
        if (((const uint8_t *)options)[i] != 0)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "an option is set that libpsclient " PSCLIENT_VERSION " does not know");
    ps_caller_copy(known, sizeof *known, options, size);
    return PS_OK;
}
