/* SPDX-License-Identifier: Apache-2.0 */
/* libpserver: a server of the job in a program of your own, with handlers for what workers ask.
 * Link with -lpserver.
 *
 *     static void handle(void *self, struct pserver_request *request)
 *     {
 *         struct pserver_tensor tensor;
 *         pserver_request_tensor(request, 0, &tensor);
 *         ...
 *         struct pserver_answer answer = {.tensors = &tensor, .tensor_count = 1};
 *         pserver_respond(request, &answer);
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct pserver *server;
 *         struct pserver_error error;
 *         if (pserver_create(argc, argv, &server, &error) != PSERVER_OK) ...
 *         if (pserver_handle(server, 0, handle, NULL, &error) != PSERVER_OK) ...
 *         if (pserver_start(server, &error) != PSERVER_OK) ...
 *         return pserver_wait(server);
 *     }
 *
 * The program is a member of the job's cluster as pserver itself is: it takes an index, keeps its
 * lease, drains, answers probes and metrics, and serves parameters and tables beside its handlers.
 * The arguments are those of pserver (pserver --help). What is promised of requests, and across a
 * crash, says docs/programs.md.
 *
 * Threads:  create, handle, start, wait and destroy belong to the program's first thread. A handler
 *           is called on a thread of the server, for one app by one thread at a time; it should
 *           return soon, since that thread has other calls, too. A request may be answered by any
 *           thread, in the handler or at any later time. Threads that the program starts itself
 *           should be started after pserver_create, which blocks the signals that the server waits
 *           for.
 * Blocking: pserver_start until the server's address is bound; pserver_wait until it has ended.
 * Errors:   a status; the error has the text.
 * Memory:   a request is the handler's until it is answered; all that was read of it ends then.
 */
#ifndef PSERVER_PROGRAM_H
#define PSERVER_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSERVER_VERSION "0.1.0"

/* Of the library that the program runs with. Static. */
const char *pserver_version(void);

enum pserver_status {
    PSERVER_OK = 0,
    PSERVER_INVALID,   /* an argument is wrong */
    PSERVER_ALREADY,   /* the app has a handler, or the request is answered */
    PSERVER_NOT_FOUND, /* what the worker wants is not there */
    PSERVER_EXHAUSTED, /* memory, or a bound */
    PSERVER_ENDED,     /* a signal came before the server was there */
    PSERVER_GONE,      /* nobody waits for this answer any more */
    PSERVER_FAILED     /* anything else; the text says what */
};

struct pserver_error {
    int status;
    char text[256];
};

struct pserver;
struct pserver_request;

/* ---- The server ---- */

/* Reads the arguments, PSERVER_* variables and the file of --config as pserver does; starts
 * nothing. `argv` is borrowed until destroy. */
int pserver_create(int argc, char *const *argv, struct pserver **server,
                   struct pserver_error *error);

typedef void (*pserver_handler)(void *self, struct pserver_request *request);

/* From the server's start on this handler has the app's requests: none can come before it. `self`
 * is borrowed until destroy. PSERVER_ALREADY; PSERVER_EXHAUSTED beyond 64 apps. */
int pserver_handle(struct pserver *server, uint32_t app, pserver_handler handler, void *self,
                   struct pserver_error *error);

enum pserver_ready_made {
    PSERVER_ADD,   /* store[key] += value; a pull gets what is there, or zeros */
    PSERVER_ASSIGN /* store[key] = value */
};

enum pserver_element { PSERVER_FLOAT32, PSERVER_FLOAT64, PSERVER_INT32, PSERVER_INT64 };

/* A handler that is there already, over values in memory: of keys with lengths, or of tensors by
 * their keys. A value has its length from its first push on. A push and pull of one key gets the
 * value that its push has made. */
int pserver_handle_ready_made(struct pserver *server, uint32_t app, enum pserver_ready_made which,
                              enum pserver_element element, struct pserver_error *error);

int pserver_start(struct pserver *server, struct pserver_error *error);

/* As clients are told, after the start; lives as long as the server. */
const char *pserver_address(const struct pserver *server);

/* Begins the clean end, as SIGTERM does. From any thread, once. */
void pserver_stop(struct pserver *server);

/* Until the server has ended, by a signal or by stop. The exit status of the program: 0 for a clean
 * end. Takes the server apart: no handler runs any more. After a second signal, and when a device
 * has failed, the server is left as it is: the program is to end soon. */
int pserver_wait(struct pserver *server);

/* Behind wait, or of a server that was not started. NULL is allowed. */
void pserver_destroy(struct pserver *server);

/* ---- Requests ---- */

enum pserver_kind { /* what the worker called */
                    PSERVER_PUSH,
                    PSERVER_PULL,
                    PSERVER_PUSH_PULL,
                    PSERVER_SIMPLE,
                    PSERVER_BATCH
};

/* What a worker asks, but for its tensors. */
struct pserver_question {
    uint64_t handle; /* of this request, and of no other */
    uint32_t app, worker, customer;
    int kind;    /* enum pserver_kind */
    int command; /* the worker's own number */
    int priority;
    uint64_t timestamp;   /* the customer's number of this request */
    const uint64_t *keys; /* NULL: none */
    size_t key_count;
    const uint32_t *lens; /* elements of each key; NULL: all alike */
    size_t len_count;
    const void *body;
    size_t body_size;
    size_t tensor_count, output_count;
};
void pserver_request_question(const struct pserver_request *request,
                              struct pserver_question *question);

struct pserver_tensor {
    uint64_t key;
    uint32_t dtype;        /* the clients' number of an element type */
    uint32_t element_size; /* bytes; 0: elements have no one size */
    uint32_t rank;         /* dimensions, at most 8 */
    uint64_t shape[8];
    const void *data; /* aligned for any element */
    uint64_t size;    /* bytes */
};

/* A tensor that the worker has sent. PSERVER_EXHAUSTED: no memory for one that came in pieces. */
int pserver_request_tensor(struct pserver_request *request, size_t index,
                           struct pserver_tensor *tensor);

/* One that the worker wants; `size` is what it has room for, 0: any; `data` is NULL. */
void pserver_request_output(const struct pserver_request *request, size_t index,
                            struct pserver_tensor *tensor);

/* Memory for the content of the answer, where it need not be copied again: where the worker reads
 * it, if that is on this host. Once for each request; the tensors of the answer then lie in it, one
 * behind another from its beginning. NULL: no memory. Aligned to 64 bytes. */
void *pserver_request_room(struct pserver_request *request, uint64_t size);

struct pserver_answer {
    const struct pserver_tensor *tensors;
    size_t tensor_count;
    const uint32_t *lens; /* NULL: none */
    size_t len_count;
    const void *body;
    size_t body_size;
};

/* Answers the request, which is gone with that whatever is returned. Everything is borrowed for the
 * call. `answer` may be NULL: there is nothing to say.
 *
 * PSERVER_GONE       the worker has given up, or the shard is lost
 * PSERVER_INVALID    the tensors do not lie in the room that was asked for, or contradict
 *                    themselves; the worker is told that the program failed
 * PSERVER_EXHAUSTED  no memory; the worker is told so
 */
int pserver_respond(struct pserver_request *request, const struct pserver_answer *answer);

/* The request fails: `status` (not PSERVER_OK) and the text are what the worker is told. */
int pserver_refuse(struct pserver_request *request, int status, const char *text);

#ifdef __cplusplus
}
#endif

#endif
