/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: values from process to process, by step and key, through
 * the servers of the job. One process sends under a key, another receives under it, in any order.
 *
 *     struct psclient_rendezvous *step;
 *     psclient_rendezvous_open(client, 7, NULL, 30000, &step, &error);
 *     struct psclient_tensor sent = {.dtype = PSCLIENT_FLOAT32, .element_size = 4, .rank = 1,
 *                                    .shape = {1000}, .content = floats, .size = 4000};
 *     psclient_rendezvous_send(step, "a;b", &sent, 30000, &error);
 *     ... in another process:
 *     struct psclient_tensor got = {0};
 *     psclient_rendezvous_recv(step, "a;b", &got, 30000, &error);
 *     psclient_tensor_release(&got);
 *     ... at the end, by one of them:
 *     psclient_rendezvous_cleanup(step, 30000, &error);
 *
 * Of one key, values are received in the order in which they were sent, each once, whatever answers
 * are lost. Nothing is kept on disk: when a server is lost, its part of the step is, and calls of
 * the step are PSCLIENT_ABORTED. Begin the step again then, under another number.
 *
 * Threads:  every function is safe from any thread; close when no other call is under way.
 * Blocking: at most `timeout_ms`, and some seconds more where an answer is on its way.
 * Errors:   PSCLIENT_ABORTED: the step was aborted or cleaned up, or its server was lost, or the
 *           receive was cancelled ("[_Derived_]RecvAsync is cancelled."), or a strict step has had
 *           this key ("Duplicated send: KEY", "Duplicated recv: KEY"). PSCLIENT_EXHAUSTED: too much
 *           waits to be received, and did all the time. PSCLIENT_UNKNOWN: of a receive, that
 *           nothing was sent in time: nothing is lost; of a send, as of a push.
 * Memory:   everything is borrowed for the call, unless it says otherwise.
 */
#ifndef PSCLIENT_RENDEZVOUS_H
#define PSCLIENT_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct psclient_rendezvous;

#define PSCLIENT_TENSOR_RANK_MAX 8

/* A value. What `dtype` means is the programs' own: servers pass it on. */
struct psclient_tensor {
    uint32_t dtype;
    uint32_t element_size; /* bytes; 0: elements have no one size. Else `size` is this times the
                              shape's product */
    uint32_t rank;
    uint64_t shape[PSCLIENT_TENSOR_RANK_MAX];
    int dead;      /* made by a branch that was not taken; content may be empty then */
    void *content; /* received into, when it is not NULL; else the library's, to be released */
    size_t size;   /* bytes; before a receive, for which there is room at `content` */
    int is_owned;  /* by the library: not 0 when a receive has set it, and to be left as it is */
};

/* Zeroed members are the usual ones. */
struct psclient_rendezvous_options {
    const char *session;  /* the same for all who share the step; NULL: "step" */
    int strict;           /* a key is good for one send and one receive */
    uint64_t lifetime_ms; /* the step ends when nobody uses it for so long; 0: the servers' 10
                             minutes */
    int deferred;         /* another process begins the step: this one sends and receives only */
};

/* Begins step `step` at every server of the job, or takes part in it. `options` may be NULL. On
 * PSCLIENT_OK `*rendezvous` is to be closed, before the client is.
 *
 * PSCLIENT_FAILED   another session has begun this step ("Double init"), or this one in another
 *                   mode, or it is to be strict and something was sent already
 */
int psclient_rendezvous_open(struct psclient *client, uint64_t step,
                             const struct psclient_rendezvous_options *options, uint64_t timeout_ms,
                             struct psclient_rendezvous **rendezvous, struct psclient_error *error);

/* The step goes on, for others. NULL is allowed. */
void psclient_rendezvous_close(struct psclient_rendezvous *rendezvous);

/* When it returns the value is in a server's memory: nobody need receive it first. Of any size that
 * the servers have room for (--rendezvous-bytes); PSCLIENT_EXHAUSTED otherwise. Sends of one key
 * that do not overlap in time are received in their order. */
int psclient_rendezvous_send(struct psclient_rendezvous *rendezvous, const char *key,
                             const struct psclient_tensor *tensor, uint64_t timeout_ms,
                             struct psclient_error *error);

/* Waits for a value of this key.
 *
 * tensor   zeroed, or with `content` and `size` of memory to receive into: a value that is larger
 *          is PSCLIENT_INVALID, and stays to be received
 */
int psclient_rendezvous_recv(struct psclient_rendezvous *rendezvous, const char *key,
                             struct psclient_tensor *tensor, uint64_t timeout_ms,
                             struct psclient_error *error);

/* Waits for a value of each key, of thousands at once in a few calls. All of them are there on
 * PSCLIENT_OK, in the order of the keys; otherwise none is, and those that came wait again, to be
 * received by whoever asks next. A key may be named several times. */
int psclient_rendezvous_recv_many(struct psclient_rendezvous *rendezvous, const char *const *keys,
                                  struct psclient_tensor *tensors, size_t count,
                                  uint64_t timeout_ms, struct psclient_error *error);

/* The same without waiting. `keys` and `tensors` are borrowed until the end; what a tensor has may
 * be read once poll has said that it is over, with PSCLIENT_OK. A wish takes one thread, however
 * many its keys are. */
struct psclient_receive;
int psclient_rendezvous_recv_begin(struct psclient_rendezvous *rendezvous, const char *const *keys,
                                   struct psclient_tensor *tensors, size_t count,
                                   uint64_t timeout_ms, struct psclient_receive **receive,
                                   struct psclient_error *error);

/* Is it over? Waits for that for `wait_ms` at most; 0: not at all. PSCLIENT_OK while it is not, or
 * what recv_many would have returned. */
int psclient_rendezvous_recv_poll(struct psclient_receive *receive, uint64_t wait_ms, int *is_over,
                                  struct psclient_error *error);

/* Ends it, and cancels it before if it is not over: a value that came first is in its tensor then.
 * Before the step is closed. NULL is allowed. */
void psclient_rendezvous_recv_end(struct psclient_receive *receive);

/* Receives of this handle that wait in other threads end with PSCLIENT_ABORTED,
 * "[_Derived_]RecvAsync is cancelled."; a value that came first is received. */
int psclient_rendezvous_cancel(struct psclient_rendezvous *rendezvous, uint64_t timeout_ms,
                               struct psclient_error *error);

/* Whoever waits in the step, or comes later, fails with this reason (PSCLIENT_ABORTED). The first
 * abort stays. */
int psclient_rendezvous_abort(struct psclient_rendezvous *rendezvous, const char *reason,
                              uint64_t timeout_ms, struct psclient_error *error);

/* The step ends at every server: values are dropped, and whoever waits is told "Cleanup N". */
int psclient_rendezvous_cleanup(struct psclient_rendezvous *rendezvous, uint64_t timeout_ms,
                                struct psclient_error *error);

/* Every step of the job ends, "Shutdown". */
int psclient_rendezvous_cleanup_all(struct psclient *client, uint64_t timeout_ms,
                                    struct psclient_error *error);

/* Gives back what a receive has allocated. The content is NULL afterwards. */
void psclient_tensor_release(struct psclient_tensor *tensor);

/* A key in TensorFlow's grammar, "SOURCE;INCARNATION;TARGET;EDGE;FRAME:ITERATION", with its NUL.
 * PSCLIENT_INVALID: a part has a ';' in it, or `size` is too small. */
int psclient_rendezvous_create_key(const char *source, uint64_t source_incarnation,
                                   const char *destination, const char *edge, uint64_t frame,
                                   uint64_t iteration, char *key, size_t size,
                                   struct psclient_error *error);

/* A part of a key: borrowed from it, without a NUL. */
struct psclient_key_part {
    const char *text;
    size_t size;
};

struct psclient_parsed_key {
    struct psclient_key_part source, destination; /* full names of devices */
    struct psclient_key_part source_type, destination_type;
    struct psclient_key_part edge, frame;
    uint64_t source_incarnation;
};

/* PSCLIENT_INVALID "Invalid rendezvous key: ..." for what is no such key. */
int psclient_rendezvous_parse_key(const char *key, struct psclient_parsed_key *parsed,
                                  struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
