/* The commands of psctl. Each prints a table, or with --output json one document, on standard
 * output and complaints on standard error.
 *
 * Threads:  one.
 * Blocking: up to --timeout for each question to a server.
 * Errors:   the result is the program's exit code (sysexits.h): 0 only when every server answered
 *           and what was asked for was done.
 * Memory:   borrowed for the call.
 */
#ifndef PS_TOOLS_PSCTL_COMMANDS_H
#define PS_TOOLS_PSCTL_COMMANDS_H

#include "client/psclient.h"

#include <stdbool.h>
#include <stdint.h>

struct psctl_options {
    const char *etcd, *etcd_user, *etcd_password, *servers, *job, *output;
    uint64_t timeout_ms;
    bool help, man, version;
};

struct psctl {
    struct psctl_options options;
    struct psclient *client; /* owned by main */
    const char *argument;    /* of get: the parameter's name; of drain: the index */
    bool json;
};

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

int psctl_status(const struct psctl *control);
int psctl_members(const struct psctl *control);
int psctl_health(const struct psctl *control);
int psctl_params(const struct psctl *control);
int psctl_get(const struct psctl *control);
int psctl_checkpoint(const struct psctl *control);
int psctl_drain(const struct psctl *control);

#endif
