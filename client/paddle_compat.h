/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of PaddlePaddle's Go parameter server client (2017), so that programs written
 * for it go on working against pserver. New programs use psclient.h.
 *
 * Names, argument types, struct layouts and return codes are that system's, and so are its
 * typedefs, which the rest of this project does without. What is better than there: an invalid
 * handle gives PSERVER_ERROR instead of a crash, a release closes the connections, an empty
 * paddle_get_params returns, calls have deadlines and are retried, and every failure writes one
 * line to standard error.
 *
 * Parameters are never cut into ranges: each lives whole on one server, as it did there.
 *
 * Threads:  any, for each handle; but release a handle only when no call uses it.
 * Blocking: paddle_begin_init_params without limit, the others at most PADDLE_TIMEOUT_MS unless
 *           their `_ex` form says how long.
 * Errors:   PSERVER_ERROR.
 * Memory:   all arguments are borrowed for the call.
 */
#ifndef PADDLE_COMPAT_H
#define PADDLE_COMPAT_H

#ifdef __cplusplus
extern "C" {
#endif

#define PSERVER_OK 0
#define PSERVER_ERROR -1

#define PADDLE_TIMEOUT_MS 600000

/* Handles that one process can ever have; they are not used again. */
#define PADDLE_CLIENTS_MAX 4096

typedef enum {
    PADDLE_ELEMENT_TYPE_INT32 = 0,
    PADDLE_ELEMENT_TYPE_UINT32 = 1,
    PADDLE_ELEMENT_TYPE_INT64 = 2,
    PADDLE_ELEMENT_TYPE_UINT64 = 3,
    PADDLE_ELEMENT_TYPE_FLOAT32 = 4,
    PADDLE_ELEMENT_TYPE_FLOAT64 = 5
} paddle_element_type;

typedef struct {
    char *name;
    paddle_element_type element_type;
    unsigned char *content;
    int content_len; /* bytes */
} paddle_parameter, paddle_gradient;

/* Counts from 0. */
typedef int paddle_pserver_client;

/* addrs: HOST:PORT[,HOST:PORT], position = index. selected: this trainer initialises, unless the
 * servers turn out to be initialised already. */
paddle_pserver_client paddle_new_pserver_client(char *addrs, long long selected);

/* Waits until the number of servers is known. */
paddle_pserver_client paddle_new_etcd_pserver_client(char *etcd_endpoints);

void paddle_pserver_client_release(paddle_pserver_client client);

/* 1: this trainer initialises; 0: it is done, or somebody else does it: get the parameters. */
int paddle_begin_init_params(paddle_pserver_client client);

/* A server that is initialised already is PSERVER_OK; it keeps what it has. */
int paddle_init_param(paddle_pserver_client client, paddle_parameter param, void *param_config,
                      int config_len);
/* PSERVER_ERROR also when a server has lost the parameters meanwhile (it was restarted): go through
 * paddle_begin_init_params, paddle_init_param and this again. */
int paddle_finish_init_params(paddle_pserver_client client);

/* total must not be 0. */
int paddle_send_grads(paddle_pserver_client client, paddle_gradient **grads, int total);
int paddle_send_grads_ex(paddle_pserver_client client, paddle_gradient **grads, int total,
                         unsigned long long timeout_ms);

/* `name` and `content` with its exact `content_len` come from the caller; the content and
 * `element_type` are filled in. */
int paddle_get_params(paddle_pserver_client client, paddle_parameter **params, int total);
int paddle_get_params_ex(paddle_pserver_client client, paddle_parameter **params, int total,
                         unsigned long long timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
