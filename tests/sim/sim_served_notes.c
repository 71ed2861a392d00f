/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a request is told once, in the order in which the core came to it. A mutation of
 * an answer is made here, before the model looks at it. */
#include "tests/sim/sim_served.h"

#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_faults.h"
#include "tests/sim/sim_table_follow.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>

/* A version that has become true is known to the checker before it may be replaced. */
static void note_early_values(struct sim_server *server, struct sim_served *served, size_t i)
{
    const struct ps_pull_request *wish = &served->pull_requests[i];
    const struct ps_pull_request before = {.name = wish->name, .range = wish->range};
    struct ps_pull *pull = &served->pulls[i].pull;
    uint64_t version = pull->reply.version;
    if (pull->held == NULL)
        return;
    sim_truths_pulled(server, &before, &pull->reply, &served->chains[i]);
    if (server->world->options.mutation != SIM_MUTATION_MADE_BEFORE)
        return;
    ps_pull_release(pull);
    enum ps_status status = ps_service_pull(server->service, &before, pull, NULL);
    PS_ASSERT(status == PS_OK);
    pull->reply.version = version;
}

void sim_served_note_pushes(struct sim_server *server, struct sim_served *served)
{
    const struct ps_bundle_request *request = &served->serve.request;
    size_t before = served->noted_pushes;
    for (; served->noted_pushes < ps_serve_pushed(&served->serve); served->noted_pushes++) {
        size_t i = served->noted_pushes;
        struct ps_push_request given = request->pushes[i];
        given.request = served->ids[i];
        given.content = served->contents[i];
        if (sim_is_full(&served->pushes[i].status))
            sim_rows_refused(server, &given);
        if (served->pushes[i].status.status != PS_OK)
            continue;
        served->entries[i] =
            sim_checker_pushed(server->world, server, &given, &served->pushes[i].reply);
        if (i < request->pull_count && request->pulls[i].of_push)
            note_early_values(server, served, i);
    }
    if (served->noted_pushes > before)
        sim_checker_ids(server->world, server);
}

/* Those whose pulls were looked at and not refused, up to the one that waits. What goes on with a
 * version has waited before, and what waits for a version has not come to its clock. */
void sim_served_note_workers(struct sim_server *server, struct sim_served *served, bool waits)
{
    size_t count = served->serve.request.pull_count;
    if (served->serve.stage < PS_SERVE_STAGE_PULLING)
        return;
    size_t pulled = ps_serve_pulled(&served->serve);
    for (size_t i = served->noted_pulls; i < count && i < pulled + (waits ? 1 : 0); i++) {
        const struct ps_pull_request *asked = &served->asked[i];
        bool refused = i < pulled && served->pulls[i].status.status != PS_OK;
        if (asked->worker > 0 && asked->version == 0 && asked->at_least_version == 0 && !refused)
            sim_clocks_heard(server, asked->worker - 1);
    }
}

void sim_served_note_pulls(struct sim_server *server, struct sim_served *served)
{
    for (; served->noted_pulls < ps_serve_pulled(&served->serve); served->noted_pulls++) {
        size_t i = served->noted_pulls;
        struct ps_pull_reply *pull = &served->pulls[i].pull.reply;
        if (served->pulls[i].status.status != PS_OK || served->pull_requests[i].of_push)
            continue;
        if (pull->version < served->asked[i].at_least_version)
            sim_fail(server->world,
                     "waits: %s answers version %" PRIu64 " where %" PRIu64 " is waited for",
                     server->name, pull->version, served->asked[i].at_least_version);
        if (served->asked[i].worker > 0)
            sim_clocks_judge(server, &served->asked[i]);
        if (sim_is_table(pull->name) && pull->delta.present) {
            sim_moments_note(server, pull);
            continue;
        }
        if (sim_is_table(pull->name)) {
            sim_rows_bend_pull(server, &served->asked[i], pull);
            sim_rows_pulled(server, &served->asked[i], pull);
            continue;
        }
        sim_rounds_pulled(server->world, server, &served->asked[i], pull);
        if (served->wanted[i] > 0)
            pull->version = served->wanted[i] - 1;
        const struct ps_pull_request request = {.name = pull->name};
        sim_truths_pulled(server, &request, pull, &served->chains[i]);
    }
}
