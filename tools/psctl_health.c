/* psctl's commands for those who watch over servers: health, drain. */
#include "tools/psctl_commands.h"

#include "base/quantity.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static void health_json(struct ps_json_writer *json, const struct psctl_answer *answer,
                        uint32_t index, bool serves);

/* As gRPC's health service and /readyz: a job that waits to be initialised is served. */
static bool is_serving(const struct psctl_answer *answer)
{
    return answer->status == PSCLIENT_OK && (strcmp(answer->server.state, "ready") == 0 ||
                                             strcmp(answer->server.state, "uninitialized") == 0);
}

int psctl_health(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %-24s %-14s %s\n", "INDEX", "ADDRESS", "STATE", "HEALTH");
    bool all = true;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psctl_answer answer = psctl_ask(control, i);
        bool serves = is_serving(&answer);
        all = all && serves;
        if (control->json)
            health_json(&document.json, &answer, i, serves);
        else
            (void)printf("%-6" PRIu32 " %-24s %-14s %s\n", i,
                         answer.server.address[0] != '\0' ? answer.server.address : "-",
                         answer.status == PSCLIENT_OK ? answer.server.state : "missing",
                         serves ? "serving" : "not-serving");
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return all ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

static void health_json(struct ps_json_writer *json, const struct psctl_answer *answer,
                        uint32_t index, bool serves)
{
    bool answered = answer->status == PSCLIENT_OK;
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_text(json, "address", ps_bytes_of_text(answer->server.address));
    ps_json_text(json, "state", ps_bytes_of_text(answered ? answer->server.state : "missing"));
    ps_json_bool(json, "serving", serves);
    if (!answered)
        ps_json_text(json, "error", ps_bytes_of_text(answer->error.text));
    ps_json_end_object(json);
}

/* One server at a time: whoever takes down several looks at the job in between. */
int psctl_drain(const struct psctl *control)
{
    uint64_t index = 0;
    uint32_t count = psclient_shard_count(control->client);
    if (!ps_quantity_number(control->argument, &index) || index >= count) {
        (void)fprintf(stderr,
                      "psctl: drain %s: expected the index of a server, 0 to %" PRIu32
                      "; psctl members shows them\n",
                      control->argument, count - 1);
        return EX_USAGE;
    }
    struct psctl_answer answer = psctl_ask(control, (uint32_t)index);
    if (answer.status != PSCLIENT_OK)
        return EX_UNAVAILABLE;
    struct psclient_error error = {0};
    const struct psclient_server_status *server = &answer.server;
    if (psclient_drain(control->client, (uint32_t)index, server->epoch, control->options.timeout_ms,
                       &error) != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: server %" PRIu64 " does not drain: %s\n", index, error.text);
        return EX_UNAVAILABLE;
    }
    if (!control->json) {
        (void)printf("server %" PRIu64 " (%s) was told to drain: it finishes what is in flight, "
                     "writes a last checkpoint and ends\n",
                     index, server->address);
        return EXIT_SUCCESS;
    }
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_object(&document.json, NULL);
    ps_json_uint(&document.json, "index", index);
    ps_json_text(&document.json, "address", ps_bytes_of_text(server->address));
    ps_json_uint(&document.json, "epoch", server->epoch);
    ps_json_end_object(&document.json);
    json_document_print(&document);
    json_document_fini(&document);
    return EXIT_SUCCESS;
}
