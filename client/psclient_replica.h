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

/* ---- A table ----
 *
 * A replica of a table has its rows, all that there are at the servers, and gives them by their
 * keys without asking anybody. psclient_pull_since brings the rows that were pushed to since, and
 * takes out those that went; the first time, and when a server cannot tell what has changed, all
 * rows come. What was pushed when a pull began is there when it has ended, of later pushes perhaps
 * some rows; each row is whole. A pull that failed may have brought some rows. The version is the
 * lowest of what the servers had.
 *
 *     psclient_replica_open_table(client, "words", 30000, &replica, &error);
 *     psclient_pull_since(replica, 30000, NULL, &error);              again and again
 *     psclient_replica_get(replica, keys, count, rows, &error);       also meanwhile
 *     psclient_replica_close(replica);
 *
 * Memory: some 20 to 30 bytes for each row beside its values, and room for rows to come; twice all
 * of that while all rows come again. */

/* Nothing is pulled yet. PSCLIENT_NOT_FOUND; PSCLIENT_INVALID: a parameter of that name is no
 * table. psclient_pull_since is told PSCLIENT_INVALID when the table was dropped and another one of
 * another type or width has its name: open it anew. Its `results` have room for one. */
int psclient_replica_open_table(struct psclient *client, const char *name, uint64_t timeout_ms,
                                struct psclient_replica **replica, struct psclient_error *error);

/* The rows of `count` keys, row after row in the order of the keys, to `rows`. A key without a row
 * is answered with its first values, as by psclient_table_get. From any thread, also during
 * psclient_pull_since. PSCLIENT_NOT_INITIALIZED: no pull has ever been complete; PSCLIENT_INVALID:
 * a key that no server has. `rows` are undefined then. */
int psclient_replica_get(struct psclient_replica *replica, const uint64_t *keys, size_t count,
                         void *rows, struct psclient_error *error);

/* Which rows there are: the keys of `keys_max` of them at most, in no order, to `keys`; `*count`
 * becomes how many there are, also when that is more. With psclient_replica_get it is the whole
 * table. From any thread; beside psclient_pull_since the rows of two servers may be of two moments,
 * and there may be more than psclient_replica_rows has just said. PSCLIENT_NOT_INITIALIZED: no pull
 * has ever been complete. */
int psclient_replica_keys(struct psclient_replica *replica, uint64_t *keys, size_t keys_max,
                          uint64_t *count, struct psclient_error *error);

/* How many rows there are here, and the bytes of one; 0 of what is not of a table. From any
 * thread. */
uint64_t psclient_replica_rows(const struct psclient_replica *replica);
size_t psclient_replica_row_bytes(const struct psclient_replica *replica);

/* Reads all contents; not those of a table, which nobody else writes to. PSCLIENT_DATA_LOSS when
 * one is not what it was; the next psclient_pull_since then brings it whole. */
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
