/* SPDX-License-Identifier: Apache-2.0 */
/* A real etcd of a test's own: one member, its own folder, ports of its own on 127.0.0.1.
 *
 * The program is the one that PSERVER_TEST_ETCD names, or "etcd" on the PATH. It dies with the
 * test that started it.
 *
 * Threads:  one.
 * Blocking: until etcd says that it is ready, at most two minutes.
 * Errors:   whatever fails ends the test.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SUPPORT_ETCD_ETCD_PROCESS_H
#define PS_TESTS_SUPPORT_ETCD_ETCD_PROCESS_H

#include "tests/support/temp_folder.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct etcd_process {
    struct temp_folder folder;
    pid_t pid; /* 0: not running */
    uint16_t client_port;
    uint16_t peer_port;
    char url[64];         /* "http://127.0.0.1:PORT" */
    const char *extra[8]; /* more arguments, borrowed; ends with NULL */
    unsigned int starts;  /* so far */
};

/* Whether there is an etcd to start. A test program without one exits with 77: skipped. */
bool etcd_process_available(void);

/* `extra` is NULL or a list of more arguments that ends with NULL. */
void etcd_process_start(struct etcd_process *process, const char *const *extra);

/* Starts it again on the same ports and folder. */
void etcd_process_restart(struct etcd_process *process);

void etcd_process_kill(struct etcd_process *process);   /* SIGKILL, and waits for its end */
void etcd_process_freeze(struct etcd_process *process); /* SIGSTOP */
void etcd_process_thaw(struct etcd_process *process);   /* SIGCONT */

/* Kills it and removes its folder. Accepts a zeroed struct. */
void etcd_process_fini(struct etcd_process *process);

/* Runs etcdctl with these arguments (they end with NULL) and returns its exit status. */
int etcd_process_ctl(const struct etcd_process *process, const char *const *arguments);

/* A port on 127.0.0.1 that nobody listens on, outside the range that the kernel hands out. */
uint16_t free_port(void);

#endif
