/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of FlexPS (2018) under their names, for programs that were written for it: what they
 * do is what a psclient_table and its clocks do. New programs use psclient.h.
 *
 *     FlexPS                                               here
 *     engine.CreateTable<float>(id, ranges, SSP, Map, 2)   ps_kv_table_define(client, &options, ..)
 *     engine.CreateSparseSSPTable<float>(...)              the same, with PSCLIENT_SPARSE_SSP
 *     engine.Run(task), each time                          the same, with the next task
 *     info.CreateKVClientTable<float>(id)                  ps_kv_client_table_create(client, ..)
 *     table.Get(keys, &vals)                               ps_kv_client_table_get(table, ..)
 *     table.Add(keys, vals)                                ps_kv_client_table_add(table, ..)
 *     table.Clock()                                        ps_kv_client_table_clock(table, ..)
 *     GetChunk, AddChunk                                   ..._get_chunk, ..._add_chunk
 *     info.CreateSparseKVClientTable<float>(id, k, sets)   ps_sparse_kv_table_create(client, ..)
 *
 * Better than there: keys have 64 bits, come in any order and more than once; an Add is
 * acknowledged, and applied once; a speculation of 0 works; nothing ends the process. Under BSP
 * updates are kept here until their worker's Clock, and count when all have come: every Get of an
 * iteration reads the sums of all iterations before it, with the same bits in every run, since they
 * are added in the order of workers (rounds, docs/rounds.md). A server without keys of a worker is
 * told of its Clock as any other is.
 *
 * Threads:  a table belongs to one worker, which is one thread at a time.
 * Blocking: each call at most the table's `timeout_ms`.
 * Errors:   enum psclient_status, as psclient_table.h and psclient_clocks.h say.
 * Memory:   everything is borrowed for the call. The client outlives its tables.
 */
#ifndef FLEXPS_COMPAT_H
#define FLEXPS_COMPAT_H

#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise. */
struct ps_kv_table_options {
    const char *name;    /* of the table, and of its clocks: at most 64 bytes */
    uint32_t chunk_size; /* elements of a chunk; 0: 1, and keys are of elements */
    uint32_t workers;    /* of the task: their ranks are below */
    enum psclient_consistency model;
    uint32_t staleness;
    uint32_t speculation; /* of PSCLIENT_SPARSE_SSP */
    uint64_t task;        /* 1 for the first, and one more for each that follows */
    uint64_t timeout_ms;  /* 0: ten minutes */
};

struct ps_kv_table;
struct ps_sparse_kv_table;

/* The table is there at every server, with zeros for every key, and adding is its rule; its task
 * has begun, with all workers at clock 0. Every worker may call it with the same options. Before
 * the job is initialised as psclient_table_define says. */
int ps_kv_table_define(struct psclient *client, const struct ps_kv_table_options *options,
                       struct psclient_error *error);

/* One worker's handle, of the rank `worker` from 0; it stands at clock 0. Ended with destroy, which
 * accepts NULL. */
int ps_kv_table_create(struct psclient *client, const struct ps_kv_table_options *options,
                       uint32_t worker, struct ps_kv_table **table, struct psclient_error *error);
void ps_kv_table_destroy(struct ps_kv_table *table);

/* Keys of elements, or of chunks in a table of chunks: the values of a chunk stand together. */
int ps_kv_table_get(struct ps_kv_table *table, const uint64_t *keys, size_t count, float *values,
                    struct psclient_error *error);
int ps_kv_table_add(struct ps_kv_table *table, const uint64_t *keys, size_t count,
                    const float *values, struct psclient_error *error);

/* The same with each chunk's values by themselves. */
int ps_kv_table_get_chunk(struct ps_kv_table *table, const uint64_t *chunks, size_t count,
                          float *const *values, struct psclient_error *error);
int ps_kv_table_add_chunk(struct ps_kv_table *table, const uint64_t *chunks, size_t count,
                          const float *const *values, struct psclient_error *error);

/* The worker has ended an iteration. */
int ps_kv_table_clock(struct ps_kv_table *table, struct psclient_error *error);

/* FlexPS has two of them, which differ in the thread that takes the answers. */
#define ps_kv_client_table ps_kv_table
#define ps_kv_client_table_create ps_kv_table_create
#define ps_kv_client_table_destroy ps_kv_table_destroy
#define ps_kv_client_table_get ps_kv_table_get
#define ps_kv_client_table_add ps_kv_table_add
#define ps_kv_client_table_get_chunk ps_kv_table_get_chunk
#define ps_kv_client_table_add_chunk ps_kv_table_add_chunk
#define ps_kv_client_table_clock ps_kv_table_clock

/* The keys of one iteration. */
struct ps_kv_keys {
    const uint64_t *keys;
    size_t count;
};

/* A worker that knows the keys of all its iterations: `sets` has one for each, and for each clock
 * that is announced beyond the last one more, as many as `options->speculation`. Borrowed until
 * destroy. */
int ps_sparse_kv_table_create(struct psclient *client, const struct ps_kv_table_options *options,
                              uint32_t worker, const struct ps_kv_keys *sets, size_t count,
                              struct ps_sparse_kv_table **table, struct psclient_error *error);
void ps_sparse_kv_table_destroy(struct ps_sparse_kv_table *table);

/* Get, Add, Get, Add and so on: the values of the next set, and what is added to those of the set
 * that was read last. The clock moves with each Get but the first. PSCLIENT_INVALID: out of turn,
 * or there are no more sets. */
int ps_sparse_kv_table_get(struct ps_sparse_kv_table *table, float *values,
                           struct psclient_error *error);
int ps_sparse_kv_table_add(struct ps_sparse_kv_table *table, const float *values,
                           struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
