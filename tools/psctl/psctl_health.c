/* SPDX-License-Identifier: Apache-2.0 */
/* psctl health: does every server serve? */
#include "tools/psctl/psctl_commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* As gRPC's health service and /readyz: a job that waits to be initialised is served. */
static bool is_serving(const struct psctl_answer *answer)
{
    /* The words are those of ps_service_state_name: "recovering" and "fenced" refuse calls,
     * "draining" is about to. */
    return answer->status == PSCLIENT_OK && (strcmp(answer->server.state, "ready") == 0 ||
                                             strcmp(answer->server.state, "uninitialized") == 0);
}

/* The state is shown beside the judgement: "fenced" and "missing" need different hands. */
static void show_row(const struct psctl_answer *answer, uint32_t index)
{
    (void)printf("%-6" PRIu32 " %-24s %-14s %s\n", index,
                 answer->server.address[0] != '\0' ? answer->server.address : "-",
                 psctl_answered(answer) ? answer->server.state : "missing",
                 is_serving(answer) ? "serving" : "not-serving");
}

/* A server that does not answer has no state; "missing" is psctl's word for it. */
static void show_json(struct ps_json_writer *json, const struct psctl_answer *answer)
{
    bool answered = psctl_answered(answer);
    ps_json_text(json, "address", ps_bytes_of_text(answer->server.address));
    ps_json_text(json, "state", ps_bytes_of_text(answered ? answer->server.state : "missing"));
    ps_json_bool(json, "serving", is_serving(answer));
    if (!answered)
        ps_json_text(json, "error", ps_bytes_of_text(answer->error.text));
}

/* One server that does not serve makes the job unhealthy: its shard's parameters can be neither
 * pushed nor pulled, and training stands still. */
static int health(const struct psctl *control)
{
    char heading[80];
    (void)snprintf(heading, sizeof heading, "%-6s %-24s %-14s %s\n", "INDEX", "ADDRESS", "STATE",
                   "HEALTH");
    /* The judgement decides the exit status, not whether there was an answer: probes and scripts
     * read the status alone. */
    const struct psctl_view view = {heading, show_row, show_json, is_serving};
    return psctl_show_servers(control, &view);
}

const struct psctl_command psctl_health = {
    .page = {.name = "health",
             .summary = "does every server serve? The exit status says it",
             .text =
                 "Exit status 0: every shard has a server that serves: it says of itself ready,\n"
                 "or uninitialized while the job waits for its first parameters. 69: one does\n"
                 "not, or does not answer. What gRPC's health service and /readyz say of one\n"
                 "server, this says of all.\n",
             .examples =
                 "  psctl health --etcd http://127.0.0.1:2379 --timeout 2 && echo all serve\n"
                 "  until psctl health --servers 127.0.0.1:8000 --timeout 1; do sleep 1; done\n"},
    .run = health,
};
