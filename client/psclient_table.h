/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: tables, whose rows are found by a 64-bit key. A table is
 * a parameter: it has a name, a type and a rule, it is listed, dropped and saved as every other is,
 * and each server has the rows whose keys fall to it.
 *
 *     const struct psclient_table_options options = {
 *         .name = "emb", .type = PSCLIENT_FLOAT32, .width = 16,
 *         .init = PSCLIENT_ROWS_UNIFORM, .low = -0.05, .high = 0.05, .seed = 1};
 *     struct psclient_table *table;
 *     psclient_table_define(client, &options, 30000, &table, &error);
 *     psclient_table_get(table, keys, count, rows, 30000, &error);
 *     psclient_table_add(table, keys, count, gradients, 30000, &error);
 *     psclient_table_close(table);
 *
 * A row comes to be with the first gradient that is added to it. Until then its key is answered
 * with the first value that the table's settings give it, and reading creates nothing. Keys come in
 * any order. A key that is read twice is answered twice. The gradients of a key that is added twice
 * in one call are summed in their order, and the rule is applied once.
 *
 * Threads:  a table may be used from several threads; psclient_table_at is for all of them. The
 *           client outlives its tables. One table may be opened several times, for workers that are
 *           at clocks of their own.
 * Blocking: at most `timeout_ms`.
 * Errors:   as psclient.h says of pushes and pulls. Each server gets its rows by themselves, so
 *           that after a failure some rows of a call were added and others were not. The gradients
 *           of one server go in one push, and it has all of them or none, unless they are larger
 *           than a message (1 MiB, which every server of the job must take). PSCLIENT_INVALID: a
 *           key that no server has. PSCLIENT_TABLE_FULL: the table's row limit, or the server's
 *           --memory-bytes. PSCLIENT_EXHAUSTED: the machine's memory; repeated until the timeout.
 * Memory:   everything is borrowed for the call. After a failed get the rows are undefined.
 */
#ifndef PSCLIENT_TABLE_H
#define PSCLIENT_TABLE_H

#include "psclient_rows_ahead.h"
#include "psclient_table_rounds.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct psclient_table;

/* What a row begins with. The numbers are those of the wire, as are all below. */
enum psclient_rows_init {
    PSCLIENT_ROWS_ZERO = 0,
    PSCLIENT_ROWS_CONSTANT = 1, /* `low` */
    PSCLIENT_ROWS_UNIFORM = 2,  /* from `low` to below `high` */
    PSCLIENT_ROWS_NORMAL = 3    /* of the mean `low` and the deviation `high` */
};

/* What a push does that would make more rows than there may be. */
enum psclient_rows_full {
    PSCLIENT_ROWS_REFUSE = 0, /* fails with PSCLIENT_TABLE_FULL, and changes nothing */
    PSCLIENT_ROWS_OLDEST = 1  /* the rows to which nothing was added for the longest time go */
};

/* Which server has a key. */
enum psclient_rows_partition {
    PSCLIENT_ROWS_HASHED = 0,
    PSCLIENT_ROWS_RANGES = 1, /* keys from 0 to keys_max - 1, in as many equal ranges */
    PSCLIENT_ROWS_GIVEN = 2   /* ranges that begin at `bounds` */
};

/* Zero-initialise; name, type and width are needed. This struct never grows. */
struct psclient_table_options {
    const char *name;
    int type;           /* enum psclient_type: of the elements; not one of the halves */
    uint32_t width;     /* elements of a row, 1 to 4096. 0: `config` has these settings in its field
                            `table`, and those below are not looked at */
    const void *config; /* a serialized OptimizerConfig: the rule; NULL: SGD, rate 1 */
    size_t config_size;
    uint64_t rows_max; /* of one server; 0: as many as its memory holds */
    enum psclient_rows_init init;
    enum psclient_rows_full full;
    double low, high;
    uint64_t seed;
    uint32_t admission; /* a key gets its row with its n-th push; 0 and 1: with the first. Pushes
                            before that are counted and change nothing else */
    enum psclient_rows_partition partition;
    uint64_t expire_ms;     /* rows to which nothing was added for so long go; 0: none do */
    uint64_t expire_clocks; /* the same, counted by the minimum of `clocks`; 0: none do */
    const char *clocks;     /* their name; NULL: none */
    uint64_t keys_max;      /* of RANGES */
    uint64_t chunk;         /* of RANGES: they begin at multiples of it; 0: 1 */
    const uint64_t *bounds; /* of GIVEN: the first key of server 1, 2 .., rising; those below the
                                first are server 0's. One fewer than there are servers */
    size_t bound_count;
    uint64_t candidates_max; /* keys that one server counts until then; 0: 1,048,576 */
    uint64_t reserved[3];    /* 0 */
};

/* Defines the table at every server, and opens it. Before the job is initialised the table is one
 * of the parameters that it is initialised with: call this between psclient_begin_init and
 * psclient_finish_init, and after psclient_init if there are other parameters, which decide how the
 * job is spread. An equal table that is there is fine, another one PSCLIENT_ALREADY. */
int psclient_table_define(struct psclient *client, const struct psclient_table_options *options,
                          uint64_t timeout_ms, struct psclient_table **table,
                          struct psclient_error *error);

/* Opens a table that is there: width, type and partition come from the servers. PSCLIENT_NOT_FOUND;
 * PSCLIENT_INVALID: a parameter of that name is not a table. */
int psclient_table_open(struct psclient *client, const char *name, uint64_t timeout_ms,
                        struct psclient_table **table, struct psclient_error *error);

/* Calls of other threads must have returned. The rows stay where they are. NULL is allowed. */
void psclient_table_close(struct psclient_table *table);

const char *psclient_table_name(const struct psclient_table *table);
uint32_t psclient_table_width(const struct psclient_table *table);
int psclient_table_type(const struct psclient_table *table); /* enum psclient_type */
size_t psclient_table_row_bytes(const struct psclient_table *table);

/* Which server has the key: its index; the number of servers when none has it. */
uint32_t psclient_table_shard(const struct psclient_table *table, uint64_t key);

/* Reads the rows of `count` keys into `rows`, row after row in the order of the keys. */
int psclient_table_get(struct psclient_table *table, const uint64_t *keys, size_t count, void *rows,
                       uint64_t timeout_ms, struct psclient_error *error);

/* Adds gradients, row after row in the order of the keys: the table's rule makes of them what it
 * makes of any gradient. */
int psclient_table_add(struct psclient_table *table, const uint64_t *keys, size_t count,
                       const void *gradients, uint64_t timeout_ms, struct psclient_error *error);

/* Adds, then reads what that has made, in one round trip where no server gets or answers more than
 * a message (1 MiB) and reads wait for no clocks, otherwise in two. `rows` are not the gradients'
 * memory. */
int psclient_table_add_get(struct psclient_table *table, const uint64_t *add_keys, size_t add_count,
                           const void *gradients, const uint64_t *get_keys, size_t get_count,
                           void *rows, uint64_t timeout_ms, struct psclient_error *error);

/* From now on reads wait, for their timeout at most, until the named clocks let this worker (1 +
 * its rank) read at this clock (psclient_clocks.h). NULL or "": they do not wait.
 * PSCLIENT_INVALID: a name that is too long, or no worker. */
int psclient_table_at(struct psclient_table *table, const char *clocks, uint32_t worker,
                      uint64_t clock, struct psclient_error *error);

/* Keeps up to `rows_max` rows that were read at clocks (psclient_table_at), so that they need not
 * be asked for again while they may be read: a row that was read at clock c serves reads up to
 * clock c + `staleness`; the rows that were used longest ago go first. A read that may be s clocks
 * behind, by the clocks' own staleness, is up to s + `staleness` behind then. What is added through
 * this object is never read without it, and nothing is kept from one task of the clocks to another
 * one that begins lower, or from clocks of another name. 0 rows: none are kept from now on, which
 * is how a table begins. No other call of the table may run meanwhile. */
int psclient_table_cache(struct psclient_table *table, uint64_t rows_max, uint64_t staleness,
                         struct psclient_error *error);

/* This struct never grows. */
struct psclient_table_cached {
    uint64_t rows;   /* kept now */
    uint64_t found;  /* reads of a row that asked no server, since psclient_table_cache */
    uint64_t missed; /* those that did */
};
void psclient_table_get_cached(struct psclient_table *table, struct psclient_table_cached *cached);

/* ---- A vector that is cut into chunks ----
 *
 * A chunk is a row: chunk c of a table of width S has the elements c * S to c * S + S - 1, and the
 * calls above read and add chunks. Elements beyond the end of the vector, in a last chunk that is
 * short, stay what rows begin with. With PSCLIENT_ROWS_RANGES chunks from keys_max on are refused.
 *
 * These two read and add single elements, in any order and more than once. Adding brings a gradient
 * of 0 to the other elements of their chunks: with the rules add and sgd, without weight decay,
 * that changes nothing. */
int psclient_table_get_elements(struct psclient_table *table, const uint64_t *elements,
                                size_t count, void *values, uint64_t timeout_ms,
                                struct psclient_error *error);
int psclient_table_add_elements(struct psclient_table *table, const uint64_t *elements,
                                size_t count, const void *gradients, uint64_t timeout_ms,
                                struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
