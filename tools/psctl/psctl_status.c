/* SPDX-License-Identifier: Apache-2.0 */
/* psctl status: what every server says of itself. */
#include "tools/psctl/psctl_commands.h"

#include <inttypes.h>
#include <stdio.h>

/* Everything that can be compared between servers stands in columns of one width; a server that
 * does not answer has three of them. */
static void show_row(const struct psctl_answer *answer, uint32_t index)
{
    const struct psclient_server_status *server = &answer->server;
    if (answer->status != PSCLIENT_OK) {
        /* The words are those of psctl members, so that a script can look for one word. */
        (void)printf("%-6" PRIu32 " %-24s %-14s\n", index, "-", "missing");
        return;
    }
    (void)printf("%-6" PRIu32 " %-24s %-14s %-10s %10" PRIu64 " %12" PRIu64 " %12" PRIu64
                 " %12" PRIu64 " %12" PRIu64 " %8" PRIu64 "  %.1fs\n",
                 index, server->address, server->state, server->device, server->parameter_count,
                 server->parameter_bytes, server->position, server->checkpoint_position,
                 server->epoch, server->lost_push_count, (double)server->uptime_ms / 1000.0);
}

/* Names of members are an interface: scripts read them, so they are added and never renamed. */
static void show_json(struct ps_json_writer *json, const struct psctl_answer *answer)
{
    const struct psclient_server_status *server = &answer->server;
    if (answer->status != PSCLIENT_OK) {
        ps_json_text(json, "state", ps_bytes_of_text("missing"));
        /* The reason, as it also stands on standard error: a document is read without that. */
        ps_json_text(json, "error", ps_bytes_of_text(answer->error.text));
        return;
    }
    ps_json_text(json, "address", ps_bytes_of_text(server->address));
    ps_json_text(json, "state", ps_bytes_of_text(server->state));
    ps_json_text(json, "version", ps_bytes_of_text(server->version));
    ps_json_text(json, "device", ps_bytes_of_text(server->device));
    ps_json_uint(json, "epoch", server->epoch);
    ps_json_uint(json, "parameter_count", server->parameter_count);
    ps_json_uint(json, "parameter_bytes", server->parameter_bytes);
    ps_json_uint(json, "state_bytes", server->state_bytes);
    /* Counts are of this process and begin again at 0; positions are of the shard and never do. */
    ps_json_uint(json, "push_count", server->push_count);
    ps_json_uint(json, "pull_count", server->pull_count);
    ps_json_uint(json, "position", server->position);
    /* Empty, 0 and 0 where nothing was saved yet. Time is in nanoseconds since 1970, as the
     * checkpoint itself says it. */
    ps_json_text(json, "checkpoint_uuid", ps_bytes_of_text(server->checkpoint_uuid));
    ps_json_uint(json, "checkpoint_position", server->checkpoint_position);
    ps_json_uint(json, "checkpoint_unix_ns", server->checkpoint_unix_ns);
    ps_json_uint(json, "uptime_ms", server->uptime_ms);
    ps_json_uint(json, "lost_push_count", server->lost_push_count);
    ps_json_uint(json, "placement", server->placement);
}

/* The widest table of all commands: who serves, how much is held, and how far ahead of the disk
 * the memory is (POSITION less SAVED). */
static int status(const struct psctl *control)
{
    char heading[160];
    (void)snprintf(heading, sizeof heading,
                   "%-6s %-24s %-14s %-10s %10s %12s %12s %12s %12s %8s  %s\n", "INDEX", "ADDRESS",
                   "STATE", "DEVICE", "PARAMS", "BYTES", "POSITION", "SAVED", "EPOCH", "LOST",
                   "UPTIME");
    const struct psctl_view view = {heading, show_row, show_json, psctl_answered};
    return psctl_show_servers(control, &view);
}

const struct psctl_command psctl_status = {
    .page = {.name = "status",
             .summary = "every server's state",
             .text = "A row for each shard: who serves it, in which state, what it holds, up to\n"
                     "which position it has applied and saved. States: starting, recovering,\n"
                     "uninitialized, ready, fenced (its lease is not proved), draining; missing:\n"
                     "nobody answers.\n",
             .examples = "  psctl status --etcd http://127.0.0.1:2379\n"
                         "  psctl status --servers 127.0.0.1:8000 --output json --timeout 2\n"},
    .run = status,
};
