/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of psctl. Each is a file of its own, psctl_<name>.c, and a row of PSCTL_TABLE: the
 * build compiles the files that the rows name, and help, the page of each command and what a shell
 * completes are made of what the files say (docs/add-a-psctl-command.md).
 *
 * A command prints a table, or with --output json one document, on standard output and complaints
 * on standard error.
 *
 * Threads:  one.
 * Blocking: up to --timeout for each question to a server.
 * Errors:   the result is the program's exit code (sysexits.h): 0 only when every server answered
 *           and what was asked for was done.
 * Memory:   borrowed for the call.
 */
#ifndef PS_TOOLS_PSCTL_COMMANDS_H
#define PS_TOOLS_PSCTL_COMMANDS_H

#include "base/command_page.h"
#include "base/json_writer.h"
#include "base/shape.h"
#include "client/psclient.h"
#include "tools/job_place.h"

#include <stdbool.h>
#include <stdint.h>

/* X(name), in the order of the help. */
#define PSCTL_TABLE(X) \
    X(status)          \
    X(members)         \
    X(workers)         \
    X(health)          \
    X(params)          \
    X(get)             \
    X(rows)            \
    X(show)            \
    X(set)             \
    X(define)          \
    X(drop)            \
    X(client)          \
    X(clocks)          \
    X(drop_clocks)     \
    X(apps)            \
    X(checkpoint)      \
    X(drain)

struct psctl_options {
    struct ps_job_place place;
    const char *output;
    uint64_t timeout_ms;
    const char *set;
    const char *group;
    bool model, watch;
    bool yes, dry_run;
    bool help, man, version;
};

struct psctl {
    struct psctl_options options;
    struct psclient *client; /* owned by main */
    const char *argument;    /* the word behind the command; NULL: the command takes none */
    char **words;            /* all of them, `argument` first */
    size_t word_count;
    bool json;
};

struct psctl_command {
    struct ps_command_page page;
    int (*run)(const struct psctl *control); /* NULL: no server is asked, main answers */
};

#define PSCTL_DECLARE(name) extern const struct psctl_command psctl_##name;
PSCTL_TABLE(PSCTL_DECLARE)
#undef PSCTL_DECLARE

/* Opens a client as the options say; close it with psclient_close(). */
int psctl_open(const struct psctl *control, uint64_t split_bytes, struct psclient **client,
               struct psclient_error *error);

/* What one server says of itself, or why it says nothing: that is complained of, too. */
struct psctl_answer {
    int status; /* PSCLIENT_OK: `server` holds */
    struct psclient_server_status server;
    struct psclient_error error;
};
struct psctl_answer psctl_ask(const struct psctl *control, uint32_t index);

/* How a command shows what servers say of themselves. */
struct psctl_view {
    const char *heading; /* of the table, with its newline */
    void (*row)(const struct psctl_answer *answer, uint32_t index);
    void (*json)(struct ps_json_writer *json, const struct psctl_answer *answer); /* its members */
    bool (*good)(const struct psctl_answer *answer); /* one that is not makes the exit code 69 */
};

/* Asks every server and shows a row, or in JSON an object with "index", for each. */
int psctl_show_servers(const struct psctl *control, const struct psctl_view *view);

/* True when the server answered. */
bool psctl_answered(const struct psctl_answer *answer);

/* Room for the parameters of one question to a server. */
#define PSCTL_ROWS_AT_ONCE 256

/* The shape that a row tells. */
struct ps_shape psctl_shape(const struct psclient_param_info *info);

/* Called once per parameter; `config` is NULL unless it was asked for, `context` the caller's. */
typedef void psctl_visit_fn(const struct psctl *control, uint32_t index,
                            const struct psclient_param_info *info,
                            const struct psclient_config *config, void *context);

struct psctl_visit {
    psctl_visit_fn *visit;
    void *context;
    bool stops;   /* the first server that does not answer is the last that is asked */
    bool configs; /* they are asked for */
};

/* Visits every parameter of every server, in the order of their names. */
int psctl_visit_params(const struct psctl *control, const struct psctl_visit *visit);

#endif
