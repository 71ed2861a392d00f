/* psctl's questions to whole servers: status, members, checkpoint. */
#include "tools/psctl_commands.h"

#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static void status_row(const struct psctl_answer *answer, uint32_t index);
static void status_json(struct ps_json_writer *json, const struct psctl_answer *answer,
                        uint32_t index);
static int finish(struct json_document *document, const struct psctl *control, uint32_t missing);

int psctl_status(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %-24s %-14s %-10s %10s %12s %12s %12s %12s %8s  %s\n", "INDEX",
                     "ADDRESS", "STATE", "DEVICE", "PARAMS", "BYTES", "POSITION", "SAVED", "EPOCH",
                     "LOST", "UPTIME");
    uint32_t missing = 0;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psctl_answer answer = psctl_ask(control, i);
        missing += answer.status != PSCLIENT_OK;
        if (control->json)
            status_json(&document.json, &answer, i);
        else
            status_row(&answer, i);
    }
    ps_json_end_array(&document.json);
    return finish(&document, control, missing);
}

int psctl_members(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %-24s %-14s %s\n", "INDEX", "ADDRESS", "STATE", "EPOCH");
    uint32_t missing = 0;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psctl_answer answer = psctl_ask(control, i);
        bool serves = answer.status == PSCLIENT_OK;
        missing += !serves;
        if (!control->json) {
            (void)printf("%-6" PRIu32 " %-24s %-14s %" PRIu64 "\n", i,
                         serves ? answer.server.address : "-",
                         serves ? answer.server.state : "missing", answer.server.epoch);
            continue;
        }
        ps_json_begin_object(&document.json, NULL);
        ps_json_uint(&document.json, "index", i);
        ps_json_text(&document.json, "address", ps_bytes_of_text(answer.server.address));
        ps_json_text(&document.json, "state",
                     ps_bytes_of_text(serves ? answer.server.state : "missing"));
        ps_json_uint(&document.json, "epoch", answer.server.epoch);
        ps_json_end_object(&document.json);
    }
    ps_json_end_array(&document.json);
    return finish(&document, control, missing);
}

int psctl_checkpoint(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %12s %14s  %s\n", "INDEX", "POSITION", "BYTES", "PATH");
    uint32_t missing = 0;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psclient_saved saved = {0};
        struct psclient_error error = {0};
        int status = psclient_save(control->client, i, control->options.timeout_ms, &saved, &error);
        if (status != PSCLIENT_OK) {
            missing++;
            (void)fprintf(stderr, "psctl: server %" PRIu32 " saved nothing: %s\n", i, error.text);
            continue;
        }
        if (!control->json) {
            (void)printf("%-6" PRIu32 " %12" PRIu64 " %14" PRIu64 "  %s\n", i, saved.position,
                         saved.bytes, saved.path);
            continue;
        }
        ps_json_begin_object(&document.json, NULL);
        ps_json_uint(&document.json, "index", i);
        ps_json_text(&document.json, "uuid", ps_bytes_of_text(saved.uuid));
        ps_json_text(&document.json, "path", ps_bytes_of_text(saved.path));
        ps_json_uint(&document.json, "position", saved.position);
        ps_json_uint(&document.json, "bytes", saved.bytes);
        ps_json_end_object(&document.json);
    }
    ps_json_end_array(&document.json);
    return finish(&document, control, missing);
}

struct psctl_answer psctl_ask(const struct psctl *control, uint32_t index)
{
    struct psctl_answer answer = {0};
    answer.status = psclient_server_status(control->client, index, control->options.timeout_ms,
                                           &answer.server, &answer.error);
    if (answer.status != PSCLIENT_OK)
        (void)fprintf(stderr, "psctl: server %" PRIu32 " does not answer: %s\n", index,
                      answer.error.text);
    return answer;
}

static void status_row(const struct psctl_answer *answer, uint32_t index)
{
    const struct psclient_server_status *server = &answer->server;
    if (answer->status != PSCLIENT_OK) {
        (void)printf("%-6" PRIu32 " %-24s %-14s\n", index, "-", "missing");
        return;
    }
    (void)printf("%-6" PRIu32 " %-24s %-14s %-10s %10" PRIu64 " %12" PRIu64 " %12" PRIu64
                 " %12" PRIu64 " %12" PRIu64 " %8" PRIu64 "  %.1fs\n",
                 index, server->address, server->state, server->device, server->parameter_count,
                 server->parameter_bytes, server->position, server->checkpoint_position,
                 server->epoch, server->lost_push_count, (double)server->uptime_ms / 1000.0);
}

static void status_json(struct ps_json_writer *json, const struct psctl_answer *answer,
                        uint32_t index)
{
    const struct psclient_server_status *server = &answer->server;
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    if (answer->status != PSCLIENT_OK) {
        ps_json_text(json, "state", ps_bytes_of_text("missing"));
        ps_json_text(json, "error", ps_bytes_of_text(answer->error.text));
        ps_json_end_object(json);
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
    ps_json_uint(json, "push_count", server->push_count);
    ps_json_uint(json, "pull_count", server->pull_count);
    ps_json_uint(json, "position", server->position);
    ps_json_text(json, "checkpoint_uuid", ps_bytes_of_text(server->checkpoint_uuid));
    ps_json_uint(json, "checkpoint_position", server->checkpoint_position);
    ps_json_uint(json, "checkpoint_unix_ns", server->checkpoint_unix_ns);
    ps_json_uint(json, "uptime_ms", server->uptime_ms);
    ps_json_uint(json, "lost_push_count", server->lost_push_count);
    ps_json_end_object(json);
}

/* Prints the document if one was asked for; unavailable when a server was missing. */
static int finish(struct json_document *document, const struct psctl *control, uint32_t missing)
{
    if (control->json)
        json_document_print(document);
    json_document_fini(document);
    return missing == 0 ? EXIT_SUCCESS : EX_UNAVAILABLE;
}
