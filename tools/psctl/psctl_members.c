/* SPDX-License-Identifier: Apache-2.0 */
/* psctl members: who serves which index. */
#include "tools/psctl/psctl_commands.h"

#include <inttypes.h>
#include <stdio.h>

/* The epoch of a server that does not answer is 0, which no owner has. */
static void show_row(const struct psctl_answer *answer, uint32_t index)
{
    bool serves = psctl_answered(answer);
    (void)printf("%-6" PRIu32 " %-24s %-14s %" PRIu64 "\n", index,
                 serves ? answer->server.address : "-", serves ? answer->server.state : "missing",
                 answer->server.epoch);
}

/* The address stays what the server said, also where it is empty: "-" is for people. */
static void show_json(struct ps_json_writer *json, const struct psctl_answer *answer)
{
    bool serves = psctl_answered(answer);
    ps_json_text(json, "address", ps_bytes_of_text(answer->server.address));
    ps_json_text(json, "state", ps_bytes_of_text(serves ? answer->server.state : "missing"));
    ps_json_uint(json, "epoch", answer->server.epoch);
}

/* Who owns a shard is asked of the owners and not of etcd: an entry in etcd may be of a server
 * that has just died, and an answer cannot. */
static int members(const struct psctl *control)
{
    char heading[80];
    (void)snprintf(heading, sizeof heading, "%-6s %-24s %-14s %s\n", "INDEX", "ADDRESS", "STATE",
                   "EPOCH");
    const struct psctl_view view = {heading, show_row, show_json, psctl_answered};
    return psctl_show_servers(control, &view);
}

const struct psctl_command psctl_members = {
    .page = {.name = "members",
             .summary = "who serves which index",
             .examples = "  psctl members --etcd http://127.0.0.1:2379\n"},
    .run = members,
};
