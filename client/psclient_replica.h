/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: keeping parameters up to date, by what has changed only
 * (docs/delta-pull.md).
 *
 * Threads:  as psclient.h says; one call at a time for a replica.
 * Blocking: psclient_pull_since waits at most its `timeout_ms`.
 * Errors:   as psclient.h says.
 * Memory:   parameters and their contents are borrowed until psclient_replica_close.
 */
#ifndef PSCLIENT_REPLICA_H
#define PSCLIENT_REPLICA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct psclient_parameter;
struct psclient_result;

/* Copies of parameters in the caller's memory. */
struct psclient_replica;

/* `parameters` (name, type, content and its size, as for psclient_pull) and their contents are
 * borrowed until psclient_replica_close; nothing is pulled yet. PSCLIENT_INVALID for a parameter
 * that is wrong in itself. The client outlives the replica. */
int psclient_replica_open(struct psclient *client, struct psclient_parameter *parameters,
                          size_t count, struct psclient_replica **replica,
                          struct psclient_error *error);
void psclient_replica_close(struct psclient_replica *replica);

/* Brings every parameter to the version that the servers have now: the first time, and after a
 * server has lost its memory, by a full copy, otherwise by what has changed. Contents are written
 * during this call only, each parameter (of a cut one, each range) once all of its new version is
 * there and its digest is right. So whatever happens, kill -9 of servers included, a parameter
 * whose result was PSCLIENT_OK once has one version, whole: the new one when its result is
 * PSCLIENT_OK now, otherwise the one it had. Only a first copy that failed, and one after a wrong
 * digest, leave its content undefined.
 *
 * `version` of the parameters is set, and that of the results, which may be NULL. The caller must
 * not change contents between two calls; if that may have happened, psclient_replica_verify
 * finds out. One call at a time for a replica; several replicas and all other calls may go on
 * beside it. PSCLIENT_DATA_LOSS: digests were wrong, three times in a row. */
int psclient_pull_since(struct psclient_replica *replica, uint64_t timeout_ms,
                        struct psclient_result *results, struct psclient_error *error);

/* Reads all contents. PSCLIENT_DATA_LOSS when one is not what it was; the next psclient_pull_since
 * then brings it whole. */
int psclient_replica_verify(struct psclient_replica *replica, struct psclient_error *error);

/* Since the replica was opened. */
struct psclient_replica_counters {
    uint64_t received_bytes; /* of content */
    uint64_t saved_bytes;    /* that did not have to come */
    uint64_t copies;         /* first copies; of a cut parameter, each range counts */
    uint64_t anchors;        /* full copies since what was there could not be the base */
    uint64_t mismatches;     /* digests that were wrong */
};
void psclient_replica_get_counters(const struct psclient_replica *replica,
                                   struct psclient_replica_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
