/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: pushes and pulls without waiting, many at once from one
 * thread, and for programs with a loop of their own.
 *
 *     psclient_push_begin(client, gradients, count, 30000, mine, &operation, &error);
 *     compute something else
 *     while ((operation = psclient_next(client, 1000)) != NULL)
 *         psclient_end(operation, results, &error);
 *
 * Threads:  as psclient.h says; an operation may be waited for by any thread, and is ended once.
 * Blocking: psclient_next and psclient_wait for at most their `timeout_ms`, psclient_end for the
 *           rest of the operation's; no other call.
 * Errors:   as psclient.h says: of an operation at its end.
 * Memory:   all arguments of a beginning are borrowed until psclient_end.
 */
#ifndef PSCLIENT_OPERATIONS_H
#define PSCLIENT_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct psclient_gradient;
struct psclient_parameter;
struct psclient_result;

/* A push or a pull under way. `user` is the caller's, to know it again. */
struct psclient_operation;

/* As psclient_push and psclient_pull, but return at once. All arguments are borrowed until
 * psclient_end. After a failure there is no operation. */
int psclient_push_begin(struct psclient *client, const struct psclient_gradient *gradients,
                        size_t count, uint64_t timeout_ms, void *user,
                        struct psclient_operation **operation, struct psclient_error *error);
int psclient_pull_begin(struct psclient *client, struct psclient_parameter *parameters,
                        size_t count, uint64_t timeout_ms, void *user,
                        struct psclient_operation **operation, struct psclient_error *error);

/* As psclient_push_pull; from a server that has no such call: PSCLIENT_INVALID. Contributions must
 * say their round, and at most 96 of one client may be under way so: PSCLIENT_EXHAUSTED. */
int psclient_push_pull_begin(struct psclient *client, const struct psclient_gradient *gradients,
                             struct psclient_parameter *parameters, size_t count,
                             uint64_t timeout_ms, void *user, struct psclient_operation **operation,
                             struct psclient_error *error);

/* Waits at most `timeout_ms` for an operation of this client to be finished that no other call
 * of psclient_next was told of. NULL when none was. Operations make progress only while some
 * thread waits for something of this client, here or elsewhere. Small ones (16 KiB) that are begun
 * while finished ones are still to be fetched leave together: when the last of these has been
 * fetched, or, should the caller stay away, within a quarter of a second. After that none waits so
 * for a while. */
struct psclient_operation *psclient_next(struct psclient *client, uint64_t timeout_ms);
void *psclient_operation_user(const struct psclient_operation *operation);

/* Waits at most `timeout_ms` for this one operation. 1: it is finished, and still to be ended; 0:
 * it goes on. Whoever waits for an operation by itself has it for good: from then on psclient_next
 * is not told of it, so that it may be waited for in slices beside threads in psclient_next. With
 * 0 ms this only looks, which does what there is to do for all operations and changes nothing else.
 * Several threads may wait, each for its own operation or for the same. */
int psclient_wait(struct psclient_operation *operation, uint64_t timeout_ms);

/* Ends the operation as if its timeout were over: a push that was sent and not answered is
 * PSCLIENT_UNKNOWN, what was not sent and what only reads is PSCLIENT_UNAVAILABLE, what was
 * answered stays what it is. Returns at once, from any thread; the operation is finished soon
 * afterwards (within two seconds at worst, when a server stops reading in the middle of large
 * content), and is to be ended as ever: its arguments are in use until then. */
void psclient_cancel(struct psclient_operation *operation);

/* For programs with a loop of their own (epoll, asyncio): a descriptor that is readable while
 * psclient_next(client, 0) has something to tell. It belongs to the client, need not be read, and
 * ends with psclient_close; -1: the system has none left. From the first call on, operations make
 * progress also while no thread waits: a thread of the client does the work. psclient_next with a
 * timeout of 0 then only fetches. A client whose descriptor nobody asks for works as ever. */
int psclient_event_fd(struct psclient *client);

/* For interpreters, whose users press ctrl-C: while a call of this client waits for servers,
 * `interrupted` is asked on the waiting thread, some twenty times a second, and the call ends as if
 * its time were over once it says anything but 0: what psclient_cancel says of a push holds for it.
 * It is asked without a lock, so that it may call the client, and on threads of the library, too.
 * psclient_next and psclient_wait, which take any time to wait, do not ask. To be set before other
 * threads use the client. NULL: nobody is asked, as in the beginning. */
void psclient_set_interrupted(struct psclient *client, int (*interrupted)(void *user), void *user);

/* Waits until the operation is finished, which the timeout of its beginning bounds, says what
 * psclient_push or psclient_pull would have, and forgets it. */
int psclient_end(struct psclient_operation *operation, struct psclient_result *results,
                 struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
