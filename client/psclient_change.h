/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: parameters that come, go and change while a job trains.
 *
 * After psclient_finish_init, at any time, beside the pushes and pulls of all trainers. Each change
 * is done exactly once, as a push is, and survives what a push survives; PSCLIENT_UNKNOWN means
 * what it means of a push. None of them is a push: versions go on counting pushes alone.
 *
 * A parameter that is cut is changed range by range. When a client dies on the way, some ranges are
 * changed and others are not; the same call, from whichever client, finishes the work. Until then a
 * parameter that is half defined or half dropped is PSCLIENT_NOT_FOUND: a pull of it reads nothing
 * whole, and a push was applied to the ranges that are there.
 *
 * What the others see: a push or a pull of a name that was dropped is PSCLIENT_NOT_FOUND, and so is
 * a replica's update, which leaves the copy of that parameter as it is. A name that is defined
 * again is another parameter, with version 0. A change of a configuration holds from the next push
 * on.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`.
 * Errors:   results and the call's status as of psclient_push. A server that is older than these
 *           calls: PSCLIENT_INVALID, "no such method". Names are looked up in the servers' lists:
 *           a client that may not list may define, but not drop or configure (PSCLIENT_DENIED).
 * Memory:   everything is borrowed for the call.
 */
#ifndef PSCLIENT_CHANGE_H
#define PSCLIENT_CHANGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct psclient_param_info;
struct psclient_parameter;
struct psclient_result;

/* A serialized OptimizerConfig. This struct never grows. */
struct psclient_config {
    uint64_t step; /* of psclient_configure: it holds from this step of the optimizer on (of a cut
                        parameter: the lowest) */
    size_t size; /* 0: SGD with a rate of 1, or a server that does not tell. More than there is room
                        for: the bytes are not told; no configuration that a server has written is
                        so long */
    unsigned char bytes[4096];
};

/* More parameters, as psclient_init gives them: names, types, values, shapes, configurations.
 * Before psclient_finish_init it waits for that, as a pull does. results[i].existed is 1 of a
 * parameter that was there and equal in type, length, shape and configuration: its values stay what
 * they are, and are to be pulled. So every trainer may define the same parameters, and then pull
 * them. Of a parameter that is cut the first values of each range are those of whoever came first
 * there.
 *
 * PSCLIENT_ALREADY    another parameter has the name; the text says in what they differ
 */
int psclient_define(struct psclient *client, const struct psclient_parameter *parameters,
                    size_t count, uint64_t timeout_ms, struct psclient_result *results,
                    struct psclient_error *error);

/* The parameters go, with their values and what their optimizers remember.
 *
 * PSCLIENT_NOT_FOUND  it is not there, in no range: whoever only wants it to be gone takes that for
 *                     a success
 * PSCLIENT_INVALID    two of the names are the same; nothing was dropped
 */
int psclient_drop(struct psclient *client, const char *const *names, size_t count,
                  uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error);

/* Changes numbers of the parameters' configurations. `change` is a serialized OptimizerConfig that
 * has only the fields to change; the new configuration is what protobuf's merge makes of the
 * present one and `change`. Values, states, steps and versions stay: a schedule goes on at the step
 * that it finds. The rate is in another message for each kind of schedule (const_lr, linear_lr,
 * schedule); a change may set it in all three. configs[i] becomes the configuration that then
 * holds; `configs` may be NULL.
 *
 * PSCLIENT_INVALID    the change is none, or not one that a configuration can have: another rule, a
 *                     number that shapes the states, a rate below 0. Or two names are the same
 * PSCLIENT_NOT_FOUND  it is not there, or not in all its ranges
 */
int psclient_configure(struct psclient *client, const char *const *names, size_t count,
                       const void *change, size_t change_size, uint64_t timeout_ms,
                       struct psclient_result *results, struct psclient_config *configs,
                       struct psclient_error *error);

/* The same for every parameter whose name begins with `prefix`, as they are listed at this moment;
 * "" is all of them. `*found` says how many there are. After a failure some may be changed: repeat
 * it. */
int psclient_configure_prefix(struct psclient *client, const char *prefix, const void *change,
                              size_t change_size, uint64_t timeout_ms, size_t *found,
                              struct psclient_error *error);

/* As psclient_list, with the configuration of each row; its step is 0. Rows of one parameter that
 * is cut have the same one, unless a client died while it changed them. */
int psclient_list_configs(struct psclient *client, uint32_t index, const char *after,
                          struct psclient_param_info *rows, struct psclient_config *configs,
                          size_t count_max, size_t *count, int *more, uint64_t timeout_ms,
                          struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
