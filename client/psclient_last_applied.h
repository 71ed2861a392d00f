/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: going on where an earlier process ended.
 *
 * psclient_options.client_id says who a client is: 1 to 56 letters, digits and marks of ASCII. One
 * process at a time has it: when a second one begins with it, pushes of the first fail
 * (PSCLIENT_FAILED) until it is opened again. Without one a client is somebody new.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`.
 * Errors:   said at the function.
 * Memory:   the answer is the caller's, to be released.
 */
#ifndef PSCLIENT_LAST_APPLIED_H
#define PSCLIENT_LAST_APPLIED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;

/* Pushes of this client, under its client_id and in all processes that had it, to one parameter.
 * Neither this struct nor the next ever grows. */
struct psclient_applied {
    char name[513];
    uint64_t pushes;        /* that were applied. A trainer that pushes each batch once to each
                                 parameter goes on with this batch, counted from 0 */
    uint64_t pushes_of_any; /* more than `pushes`: the parameter is cut, and a push that its process
                                 did not see to the end was applied to some of its ranges */
    uint64_t version;       /* after the last of them (of a cut parameter: the lowest) */
};

struct psclient_last_applied {
    int known; /* 0: no server remembers this client */
    int whole; /* 1: `rows` are all. 0: a server may have forgotten pushes of this client, since it
                    was silent while very many others came */
    size_t count;
    struct psclient_applied *rows; /* sorted by name; parameters without a push have none */
};

/* What of this client's pushes is in the parameters. To be asked before the first push: pushes of
 * an earlier process that are still on their way are refused from then on, so that the answer stays
 * true. It survives crashes of servers where pushes do. The client was opened with a client_id.
 * `*applied` is set on PSCLIENT_OK, and to be released.
 *
 * PSCLIENT_DENIED     the client_id belongs to somebody else
 * PSCLIENT_INVALID    no client_id, or a server that has no such call
 */
int psclient_last_applied(struct psclient *client, uint64_t timeout_ms,
                          struct psclient_last_applied *applied, struct psclient_error *error);
void psclient_last_applied_release(struct psclient_last_applied *applied);

#ifdef __cplusplus
}
#endif

#endif
