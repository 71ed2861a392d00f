/* SPDX-License-Identifier: Apache-2.0 */
/* A client against servers that do as they are told.
 *
 * Threads:  one test at a time.
 * Blocking: opening a client waits for its servers.
 * Errors:   any failure ends the test.
 * Memory:   everything is given back by close_client.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_PSCLIENT_RIG_H
#define PS_TESTS_INTEGRATION_CLIENT_PSCLIENT_RIG_H

#include "client/psclient.h"
#include "tests/support/client/fake_server.h"

#define LONG_MS 120000

/* The servers of open_client, the client, and the last error. */
extern struct fake_server *servers[2];
extern struct psclient *client;
extern struct psclient_error error;
extern const float ones[4];

/* An answer that refuses with this status. */
struct fake_answer refuse(enum ps_status status);

/* Opens a client of one or two servers in that state, with four float32 ones under every name, at
 * version 6 and 7. */
void open_client(uint32_t server_count, const char *state);
void close_client(void);

struct psclient_gradient gradient(const char *name);

/* Four floats at `content`. */
struct psclient_parameter parameter(const char *name, float *content);

#endif
