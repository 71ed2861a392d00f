/* SPDX-License-Identifier: Apache-2.0 */
/* A real server in a process of its own, its folder, and a client.
 *
 * Threads:  one test at a time; what says so may be called from several.
 * Blocking: as the client's calls, LONG_MS at most.
 * Errors:   any failure ends the test.
 * Memory:   everything is given back by finish.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_LIVE_RIG_H
#define PS_TESTS_INTEGRATION_CLIENT_LIVE_RIG_H

#include "client/psclient.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <stdbool.h>
#include <stdint.h>

#define LONG_MS 120000

/* The folder that start_folder makes, the server, the client, and the last error. */
extern struct temp_folder folder;
extern struct pserver_process server;
extern struct psclient *client;
extern struct psclient_error error;

/* The last call went well, or its words are the test's failure. */
void expect_ok(int status);

/* Starts the server with a journal in the folder, or none. A busy machine does not outlast its
 * lease, and the next server does not wait for the lease of one that was killed. `option` and
 * `value` are one more option, or NULL. */
void start_server(const char *listen, bool journal, const char *option, const char *value);

/* Another client, with these options; of the server, unless they name others. */
struct psclient *open_one(const struct psclient_options *options);

/* Zeroes the parameters and has the server begin with them, with plain SGD of rate 1. */
void initialise(struct psclient_parameter *parameters, size_t count);

struct psclient_counters counters(void);

/* Stops all threads of the server, until it gets SIGCONT. */
void stop_server(void);

/* Reads the server's log until it says this. */
void await_log(const char *words);

/* Runs this program once more, with the server's address as its one argument, waits until it writes
 * a byte to its output, and kills it. It does not outlive the test, whatever becomes of that. */
void kill_another_client(void);

/* Ends the client, the server and the folder. */
void finish(void);

/* ---- Threads that call all the time ---- */

/* Calls `step` until end_steps, from a thread of its own each. */
void begin_steps(bool (*step)(void *argument), void *argument);

/* So many calls more went well; none has failed. */
void await_steps(unsigned count);

/* Until content goes through the memory of the present server. */
void await_shared_steps(void);

/* Joins the threads. How many calls went well: none has failed. */
unsigned end_steps(void);

#endif
