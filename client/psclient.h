/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: the C client of pserver. Link with -lpsclient. The headers that this one includes
 * are parts of it, by what one looks for:
 *
 *     rows by a key               psclient_table.h       without waiting      psclient_operations.h
 *     workers, ranks, barriers    psclient_workers.h     clocks               psclient_clocks.h
 *     parameters that come and go psclient_change.h      copies to read from  psclient_replica.h
 *     where a trainer goes on     psclient_last_applied.h
 *     snapshots of the model      psclient_model.h       operators            psclient_operators.h
 *     values between processes    psclient_rendezvous.h
 *     code of your own            psclient_program.h, psclient_serving.h
 *
 *     struct psclient *client;
 *     struct psclient_options options = {.etcd = "http://127.0.0.1:2379"};
 *     if (psclient_open(&options, &client, &error) != PSCLIENT_OK) ...
 *     if (psclient_begin_init(client, PSCLIENT_FOREVER, &selected, &error) ...
 *     if (selected) { psclient_init(...); psclient_finish_init(...); }
 *     psclient_push(client, gradients, count, 30000, results, &error);
 *     psclient_pull(client, parameters, count, 30000, results, &error);
 *     psclient_close(client);
 *
 * Threads:  a client may be used from several threads; each call is one batch of its own. A client
 *           belongs to the process that has opened it. In a child of a fork every call says
 *           PSCLIENT_FAILED, psclient_close gives back what is the child's, and the parent goes on.
 *           A child opens a client of its own when the parent had none open at the fork; else
 *           psclient_open says PSCLIENT_FAILED there, since gRPC of the one would end the other.
 * Blocking: push, pull, init and open wait at most their `timeout_ms`.
 * Errors:   a call returns the first failure in request order, and `results` has every item's own
 *           status; what succeeded stays succeeded. Transport failures are retried with back-off
 *           within the timeout, on the same or a new address of the shard. Pushes too: each carries
 *           an id by which the server knows a repeat, so that a push that is answered with
 *           PSCLIENT_OK was applied exactly once, whatever was lost or killed on the way.
 *           PSCLIENT_UNKNOWN is left for one case: the timeout has passed while it was open whether
 *           an attempt was applied. Then the push was applied once or not at all, or will be for a
 *           moment yet. Pushing the same gradient again would be another push: give calls a timeout
 *           that is longer than a failover takes, and treat UNKNOWN as a lost step.
 *           A name that ends like "#3/8" is refused: such names are kept for ranges.
 * Speed:    glibc gives the buffers of large messages back to the kernel after each. A program that
 *           moves much sets MALLOC_MMAP_THRESHOLD_=536870912 and MALLOC_TRIM_THRESHOLD_=536870912
 *           in its environment, or calls mallopt. One client per process is faster than several:
 *           gRPC's connections are polled by whoever polls first.
 * Versions: structs grow at their end only. A program goes on working with a newer library than
 *           the header that it was compiled with, and with an older one: psclient_open tells the
 *           library how long each struct is for the program. A field that the program does not have
 *           counts as zero and is not written; one that the library does not know is not looked at,
 *           and zero where the library writes the struct. Of psclient_options such a field must be
 *           zero, or psclient_open says PSCLIENT_INVALID. All code that uses one client has to be
 *           compiled with one version of this header.
 * Memory:   all arguments are borrowed for the call. After a failed pull the contents of its
 *           parameters are undefined where their own result is not PSCLIENT_OK.
 */
#ifndef PSCLIENT_H
#define PSCLIENT_H

#include "psclient_change.h"
#include "psclient_clocks.h"
#include "psclient_last_applied.h"
#include "psclient_model.h"
#include "psclient_operations.h"
#include "psclient_operators.h"
#include "psclient_program.h"
#include "psclient_rendezvous.h"
#include "psclient_replica.h"
#include "psclient_serving.h"
#include "psclient_table.h"
#include "psclient_workers.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSCLIENT_VERSION "0.1.0"
#define PSCLIENT_FOREVER UINT64_MAX

/* Of the library that the program runs with; PSCLIENT_VERSION is that of this header. Static. */
const char *psclient_version(void);

enum psclient_status {
    PSCLIENT_OK = 0,
    PSCLIENT_UNAVAILABLE,     /* no server answered within the time */
    PSCLIENT_UNKNOWN,         /* no answer in time: it may have happened, once */
    PSCLIENT_INVALID,         /* the request is wrong: type, length, config ... */
    PSCLIENT_NOT_FOUND,       /* no parameter of that name */
    PSCLIENT_ALREADY,         /* "pserver already initialized" */
    PSCLIENT_NOT_INITIALIZED, /* "pserver not fully initialized", or its state was lost: call
                                   psclient_begin_init again */
    PSCLIENT_EXHAUSTED,       /* a limit of the server, or memory here */
    PSCLIENT_DATA_LOSS,
    PSCLIENT_FAILED,          /* anything else; the text says what */
    PSCLIENT_UNAUTHENTICATED, /* the server, or this client to the server, is not who it should be:
                                   the certificate or the token; the text says which */
    PSCLIENT_DENIED,          /* known, and not allowed to do this */
    PSCLIENT_TABLE_FULL,      /* a table has all rows that it may, or memory for no more of them:
                               * nothing was added, and coming again helps when the limit was
                               * raised or rows have gone */
    PSCLIENT_ABORTED          /* its step of a rendezvous was given up, or the server lost */
};

struct psclient_error {
    enum psclient_status status;
    char text[256];
};

/* The numbers are those of the wire. */
enum psclient_type {
    PSCLIENT_INT32 = 0,
    PSCLIENT_UINT32 = 1,
    PSCLIENT_INT64 = 2,
    PSCLIENT_UINT64 = 3,
    PSCLIENT_FLOAT32 = 4,
    PSCLIENT_FLOAT64 = 5,
    /* Of the caller's memory only: the parameter is FLOAT32, and its content travels in two bytes
     * an element, in both directions, whatever `encoding` says. What each loses is in
     * docs/encodings.md. psclient_init and _define widen, which is exact. Replicas have no such
     * type. */
    PSCLIENT_TYPE_BFLOAT16 = 32,
    PSCLIENT_TYPE_FLOAT16 = 33
};

struct psclient;

/* When a server answers a push. The numbers are those of the wire. */
enum psclient_ack {
    PSCLIENT_ACK_DEFAULT = 0, /* what the server was started with (--ack) */
    PSCLIENT_ACK_MEMORY = 1,  /* applied in memory */
    PSCLIENT_ACK_LOGGED = 2 /* survives kill -9 and power loss; PSCLIENT_INVALID from a server that
                                 has no data directory */
};

/* How gradients and pulled parameters of floats travel; whole numbers always go as they are. What
 * each loses is in docs/encodings.md. The numbers are those of the wire.
 *
 * What INT8 and TOP_K leave out of a gradient is kept here and added to the next gradient of the
 * same parameter (error feedback): the sum of what is sent follows the sum of the gradients. That
 * takes the size of one gradient for each parameter, and up to the same again for each push under
 * way. A push that failed counts for nothing, one that is PSCLIENT_UNKNOWN as one that went
 * through. INT8 refuses gradients that are not finite. */
enum psclient_encoding {
    PSCLIENT_NATIVE = 0,
    PSCLIENT_AS_FLOAT32 = 1,
    PSCLIENT_AS_FLOAT64 = 2,
    PSCLIENT_BFLOAT16 = 3,
    PSCLIENT_FLOAT16 = 4,
    PSCLIENT_INT8 = 5, /* a scale per 256 elements */
    PSCLIENT_TOP_K = 6 /* the elements of greatest magnitude; gradients only */
};

/* Large content goes to and from a server on this host through memory that both share, instead of
 * through a socket, if the server takes part and runs as the same user. What is promised does not
 * depend on it. */
enum psclient_shared_memory {
    PSCLIENT_SHARED_MEMORY_AUTO = 0, /* where it is possible */
    PSCLIENT_SHARED_MEMORY_OFF = 1
};

/* Zero-initialise; name either etcd or servers. */
struct psclient_options {
    const char *etcd;      /* URL[,URL]: find the servers and follow them when they move */
    const char *etcd_user; /* NULL: no authentication */
    const char *etcd_password;
    const char *servers;      /* HOST:PORT[,HOST:PORT]: some servers of the job, which tell of the
                                   others. Without etcd: all of them, position = index of the shard.
                                   unix:PATH is a socket of a server on this host */
    const char *job;          /* NULL or "": none */
    uint64_t open_timeout_ms; /* wait this long for the number of shards; 0: 30000 */
    uint64_t split_bytes;     /* larger parameters are cut over all shards; 0: 16 MiB. The same for
                                 all clients of a job: docs/placement.md */
    uint64_t lock_ttl_ms;     /* lease of the initialisation lock; 0: 10000 */
    enum psclient_ack ack;    /* of every push */
    const char *busy_poll;    /* how long a caller looks for its answer before it sleeps: "50us",
                                 "off", "auto" where a processor is free; NULL: PSCLIENT_BUSY_POLL
                                 of the environment, else "auto" */
    enum psclient_encoding encoding;       /* of every push */
    enum psclient_encoding reply_encoding; /* of every pull */
    double top_k_share;                    /* of the elements that PSCLIENT_TOP_K sends; 0: 0.01 */
    uint64_t feedback_bytes_max;           /* of what is left out and kept; 0: 1 GiB. Beyond it:
                                    PSCLIENT_EXHAUSTED */
    enum psclient_shared_memory shared_memory;
    /* Who is who: paths of files, PEM but for the token. One that is NULL is taken from the
     * environment (PSCLIENT_TLS_CA, PSCLIENT_TLS_CERT, PSCLIENT_TLS_KEY, PSCLIENT_TLS_SERVER_NAME,
     * PSCLIENT_TOKEN_FILE); "" is none in any case. They are read again when they change. A unix
     * socket has neither TLS nor a need of it. */
    const char *tls_ca;          /* whom to believe that a server is one; none: no TLS */
    const char *tls_cert;        /* what this client shows the servers, with its chain */
    const char *tls_key;         /* of that certificate */
    const char *tls_server_name; /* the name in the servers' certificates; none: their host */
    const char *token_file;      /* one line that says who this client is. It goes over TLS, and to
                                      servers of this host; without TLS nowhere else */
    /* The same for an etcd at https://, with PSCLIENT_ETCD_CA and so on in the environment. */
    const char *etcd_ca; /* none: those that the system trusts */
    const char *etcd_cert;
    const char *etcd_key;
    const char *etcd_password_file; /* instead of etcd_password */
    int etcd_insecure_password;     /* 1: a password goes over http:// too, which is otherwise
                                         PSCLIENT_INVALID */
    int reserved;                   /* 0 */
    /* Who this is (psclient_last_applied.h); NULL: somebody new. */
    const char *client_id;
    /* How a job's parameters are spread that this client is the first to initialise; every other
     * job stays as it is. NULL: evenly, by their sizes. "classic": by their names alone, which is
     * what older clients find. docs/placement.md */
    const char *placement;
};

/* Inline, at the end of this header. */
static inline int psclient_open(const struct psclient_options *options, struct psclient **client,
                                struct psclient_error *error);

/* Calls of other threads must have returned, and operations must have been ended. A lock that is
 * held is given up, for which this may wait a few seconds when etcd does not answer. NULL is
 * allowed. */
void psclient_close(struct psclient *client);

/* How many shards the job has. */
uint32_t psclient_shard_count(const struct psclient *client);

/* ---- Initialisation: exactly one trainer of the job is selected, whatever dies meanwhile ---- */

/* Waits until this trainer is selected (*selected = 1: call psclient_init for every parameter, then
 * psclient_finish_init) or the job is initialised (*selected = 0: pull the parameters). Older
 * servers in a list have no lock: there only one trainer should call this; the others pull. */
int psclient_begin_init(struct psclient *client, uint64_t timeout_ms, int *selected,
                        struct psclient_error *error);

/* Most dimensions of a parameter. */
#define PSCLIENT_RANK_MAX 16

struct psclient_parameter {
    const char *name;
    enum psclient_type type;
    void *content;       /* little-endian elements; read by init and define, written by pull */
    size_t content_size; /* bytes; for a pull exactly the parameter's size */
    const void *config;  /* init and define: a serialized OptimizerConfig; NULL: SGD,
                              rate 1 */
    size_t config_size;
    uint64_t version; /* set by pull: pushes applied (of a cut parameter: the lowest) */
    /* init and define: the lengths of its dimensions, the outermost first; their product is the
     * number of elements. NULL: one dimension. Not NULL with rank 0: one element and no dimension.
     * Servers keep it for psclient_list, checkpoints and what psckpt exports. */
    const uint64_t *shape;
    size_t rank; /* at most PSCLIENT_RANK_MAX */
    /* pull: what it waits for, at most for its timeout; zeros: the values as they are. A version
     * (docs/rounds.md), and that the named clocks let the worker read at its clock
     * (psclient_clocks.h; of a cut parameter those of every shard). */
    uint64_t at_least_version;
    const char *clocks;
    uint64_t clock;
    uint32_t worker;   /* 1 + its rank; 0: nobody reads at a clock */
    uint32_t reserved; /* 0 */
};

struct psclient_gradient {
    const char *name;
    enum psclient_type type;
    const void *content;
    size_t content_size;
    /* Of a parameter that is trained in rounds, and ignored by others: a contribution. */
    uint32_t worker; /* 1 + its rank; 0: nobody's, and a parameter with rounds refuses it */
    float weight;    /* counts where contributions are combined by weight; 0: 1 */
    uint64_t round;  /* the version that it shall help to make: 1 + the version that was pulled. 0:
                        the one that is made now */
};

/* What became of one item of a batch. */
struct psclient_result {
    enum psclient_status status;
    uint64_t version; /* push: after this gradient (of a cut parameter: the lowest) */
    uint32_t retries;
    int duplicate;     /* push: 1 when an attempt before the last had been applied (of a cut
                          parameter: of any range). It counts once all the same */
    uint64_t position; /* push: in the life of its shard; 0 of a cut parameter */
    char text[128];    /* why it failed; empty otherwise */
    int existed;       /* psclient_define: 1 when an equal one was there */
    int reserved;
    int held; /* push: 1 when the round goes on; a pull with at_least_version = `version` waits */
    int late; /* push: 1 when its round was over: it counts in that of `version`, or nowhere */
};

/* `results` may be NULL; else it has `count` entries, in request order. An empty batch is fine.
 * Give all parameters in the first call: by their sizes it decides how the job is spread over its
 * servers, for good (docs/placement.md).
 * A server that was initialised before (by a trainer that died half-way, say) keeps what it has:
 * such an item's result is PSCLIENT_ALREADY, which is not a failure of the call. Pull it. */
int psclient_init(struct psclient *client, const struct psclient_parameter *parameters,
                  size_t count, uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error);

/* Finishes every shard (one that is finished already is fine), then marks the job initialised and
 * gives the lock up. May be repeated after a failure. PSCLIENT_NOT_INITIALIZED: the lock was lost
 * meanwhile, or a server came back without the parameters that it was given; the text says which.
 * Call psclient_begin_init again (who still holds the lock is selected at once), psclient_init for
 * every parameter, then this. */
int psclient_finish_init(struct psclient *client, uint64_t timeout_ms,
                         struct psclient_error *error);

/* Ends what other threads do in psclient_begin_init, psclient_init and psclient_finish_init, as if
 * their timeouts were over: PSCLIENT_UNAVAILABLE or PSCLIENT_UNKNOWN. Each of them may be called
 * again. A trainer that waited for its turn gives its place up. Returns at once. */
void psclient_cancel_init(struct psclient *client);

/* ---- Training ---- */

int psclient_push(struct psclient *client, const struct psclient_gradient *gradients, size_t count,
                  uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error);

int psclient_pull(struct psclient *client, struct psclient_parameter *parameters, size_t count,
                  uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error);

/* A step of training in one round trip: pushes every gradient, and reads the parameter that it is
 * of once it was applied, into `parameters[i].content`, which must not be the gradient's memory.
 * Names, types and sizes are those of the gradients; of `parameters` only content is read, and
 * version is set. results[i].version is that of the push. A failed item's gradient may have been
 * applied as with psclient_push; its content is undefined.
 *
 * A synchronous step: where gradients have a worker, this waits until their rounds are over and
 * brings what these have made. A worker that contributes to a round for the second time gets the
 * values with `duplicate`. A client of one worker does a step in one round trip; more than 64
 * parameters, or several workers in one client, take two. */
int psclient_push_pull(struct psclient *client, const struct psclient_gradient *gradients,
                       struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                       struct psclient_result *results, struct psclient_error *error);

/* Calls that were sent again since the client was opened. */
uint64_t psclient_retries(const struct psclient *client);

/* Since the client was opened. */
struct psclient_counters {
    uint64_t retries;        /* as psclient_retries */
    uint64_t resends;        /* those that were pushes which may have been applied already */
    uint64_t duplicates;     /* pushes that turned out to have been applied by an earlier attempt */
    uint64_t feedback_bytes; /* kept at the moment: what encodings have left out */
    uint64_t shared_calls;   /* whose content went through shared memory; 0: none did */
    uint64_t shared_bytes;   /* of that content */
    /* Shards whose server is reached so at the moment. */
    uint32_t tcp_servers;
    uint32_t unix_servers;   /* whose address is unix:PATH */
    uint32_t shared_servers; /* of both: content goes through shared memory */
};
void psclient_get_counters(const struct psclient *client, struct psclient_counters *counters);

/* "ok", "unavailable" ... Static. */
const char *psclient_status_name(enum psclient_status status);

/* ---- What there is ---- */

struct psclient_param_info {
    char name[513];
    enum psclient_type type;
    uint64_t element_count, version, state_bytes;
    char rule[32];
    double learning_rate;
    /* The lengths of its dimensions; of one that was initialised without a shape, or is listed by a
     * server that knows none, the number of elements alone. A row of a cut parameter, "w#1/3", has
     * the shape of the whole. */
    uint64_t shape[PSCLIENT_RANK_MAX];
    size_t rank;
    /* Of one that is trained in rounds (docs/rounds.md), else 0: how many contribute, how many have
     * to the open round, and the first few ranks that it waits for, " 1 3 ...". */
    uint32_t round_workers, round_counted;
    char round_missing[96];
};

/* Fills up to `count_max` rows with names after `after` (NULL: from the start), sorted. */
int psclient_list(struct psclient *client, uint32_t index, const char *after,
                  struct psclient_param_info *rows, size_t count_max, size_t *count, int *more,
                  uint64_t timeout_ms, struct psclient_error *error);

/* ---- Programs of other versions ---- */

/* How long the structs of a program are, each in bytes: `sizes` is the first, its own. */
struct psclient_sizes {
    size_t sizes;
    size_t options;
    size_t parameter;
    size_t gradient;
    size_t result;
    size_t counters;
    size_t replica_counters;
    size_t server_status;
    size_t param_info;
    size_t saved;
};

/* As psclient_open, for programs that do not compile this header but declare its structs by
 * themselves (ctypes, cffi, JNA): the sizes of their declarations. Without them, by the symbol
 * psclient_open, structs are taken for those of version 0.1.0. */
int psclient_open_sized(const struct psclient_options *options, const struct psclient_sizes *sizes,
                        struct psclient **client, struct psclient_error *error);

/* The sizes that this header gives them. */
static inline struct psclient_sizes psclient_header_sizes(void)
{
    const struct psclient_sizes sizes = {sizeof(struct psclient_sizes),
                                         sizeof(struct psclient_options),
                                         sizeof(struct psclient_parameter),
                                         sizeof(struct psclient_gradient),
                                         sizeof(struct psclient_result),
                                         sizeof(struct psclient_counters),
                                         sizeof(struct psclient_replica_counters),
                                         sizeof(struct psclient_server_status),
                                         sizeof(struct psclient_param_info),
                                         sizeof(struct psclient_saved)};
    return sizes;
}

static inline int psclient_open(const struct psclient_options *options, struct psclient **client,
                                struct psclient_error *error)
{
    const struct psclient_sizes sizes = psclient_header_sizes();
    return psclient_open_sized(options, &sizes, client, error);
}

#ifdef __cplusplus
}
#endif

#endif
