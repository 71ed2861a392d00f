/* SPDX-License-Identifier: Apache-2.0 */
/* A job of two real servers in a test of the rendezvous: a client in this process, and others in
 * children of it. Nothing depends on when something happens: where one side waits, the other side's
 * act comes before or during the wait, and both are right.
 *
 * Threads:  the test's.
 * Blocking: as the calls that it makes, LONG_MS at most.
 * Errors:   asserts, unless it returns a status.
 * Memory:   all of it ends with job_end.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_RENDEZVOUS_JOB_H
#define PS_TESTS_INTEGRATION_CLIENT_RENDEZVOUS_JOB_H

#include "client/psclient.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <sys/types.h>

#define LONG_MS 60000

extern struct temp_folder job_folder;
extern struct pserver_process job_servers[2];
extern char job_list[2 * sizeof((struct pserver_process *)0)->address];
extern struct psclient *job_client;
extern struct psclient_rendezvous *job_step; /* number 123 */
extern struct psclient_error job_error;

/* As fixtures. */
void job_begin(void);
void job_end(void);

void job_expect_ok(int status);
struct psclient *job_open_client(void);
struct psclient_rendezvous *job_open_step(struct psclient *of, uint64_t number);

/* Texts as values, of type 7. */
int job_send_text(struct psclient_rendezvous *to, const char *key, const char *text);
void job_expect_text(struct psclient_rendezvous *from, const char *key, const char *text);

/* Another process that does this, and ends with 0 if all of it went well: this program once more,
 * since a client does not outlive a fork. */
pid_t job_in_child(const char *act);
void job_expect_end(pid_t child);

/* The child's side: opens client and step over these servers, and does that. The exit status. */
int job_run_child(const char *servers, void (*act)(struct psclient_rendezvous *own));

#endif
