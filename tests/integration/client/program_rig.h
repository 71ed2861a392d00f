/* SPDX-License-Identifier: Apache-2.0 */
/* A job of server programs: servers, beside each a program in a process of its own, and workers
 * that are processes, too. All of them are this test once more, with words of what to do.
 *
 * Threads:  one test at a time.
 * Blocking: until servers listen and children have ended.
 * Errors:   whatever fails ends the test, or the child with another status than 0.
 * Memory:   given back by program_rig_end.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_PROGRAM_RIG_H
#define PS_TESTS_INTEGRATION_CLIENT_PROGRAM_RIG_H

#include "client/psclient.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <stdbool.h>
#include <sys/types.h>

enum { RIG_SERVERS_MAX = 4, RIG_LONG_MS = 60000, RIG_STOP = 99 };

struct program_rig {
    struct temp_folder folder;
    struct pserver_process servers[RIG_SERVERS_MAX];
    pid_t programs[RIG_SERVERS_MAX];
    uint32_t server_count, worker_count;
    char list[RIG_SERVERS_MAX * 64];
};

/* Starts servers, and beside each the program of that name unless it is NULL. */
void program_rig_begin(struct program_rig *rig, uint32_t servers, uint32_t workers,
                       const char *program);
void program_rig_end(struct program_rig *rig);

/* A child: this test with the words ACT LIST RANK SERVERS WORKERS. */
pid_t program_rig_child(const struct program_rig *rig, const char *act, uint32_t rank);
void program_rig_expect_end(pid_t child);

/* Tells the programs to end, and waits for them. */
void program_rig_stop_programs(struct program_rig *rig);

/* In a child, or in the test itself: fails with the error's text. */
struct psclient *program_rig_open(const char *list);
void program_rig_must(int status, const struct psclient_error *error, const char *what);

/* What a child was told. */
struct program_words {
    const char *act, *list;
    uint32_t rank, servers, workers;
};
/* False: these are no words of a child. */
bool program_rig_words(int argc, char **argv, struct program_words *words);

/* ps-lite's default handler as a program: store[key] += value, answers the store; simple requests
 * are answered with their body, RIG_STOP ends it. */
void program_rig_serve_keys(const struct program_words *words);

#endif
