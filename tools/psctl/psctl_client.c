/* SPDX-License-Identifier: Apache-2.0 */
/* psctl client: what of a client's pushes was applied. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "client/engine/engine_session.h"
#include "client/psclient_applied.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static int show_server(const struct psctl *control, uint32_t index, struct ps_json_writer *json);
static void show_rows(const struct ps_applied_rows *rows, uint32_t index);
static void show_json(struct ps_json_writer *json, uint32_t index,
                      const struct ps_applied_reply *head, const struct ps_applied_rows *rows);

/* Nothing is ended by looking: the client goes on under its session. */
static int client(const struct psctl *control)
{
    /* A name that no trainer can have is a slip of the keyboard, and no server is asked. */
    struct ps_error misnamed = {0};
    if (ps_client_name_check(control->argument, &misnamed) != PS_OK) {
        (void)fprintf(stderr, "psctl: client: %s\n", misnamed.text);
        return EX_USAGE;
    }
    struct json_document document;
    json_document_init(&document);
    /* Begun also where a table is asked for: an empty document costs nothing. */
    ps_json_begin_array(&document.json, NULL);
    /* The name is the last column, as it has no bound that a table could keep. */
    if (!control->json)
        (void)printf("%-6s %-18s %10s %-5s %12s %12s %s\n", "INDEX", "SESSION", "SEQUENCE", "WHOLE",
                     "PUSHES", "VERSION", "NAME");
    int code = EXIT_SUCCESS;
    /* A client has another id at each server, and other parameters: one block of rows for each. */
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        /* One failure makes the exit status, and the servers behind it are asked all the same. */
        int result = show_server(control, i, control->json ? &document.json : NULL);
        code = result != EXIT_SUCCESS ? result : code;
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return code;
}

/* A server that does not answer leaves a hole, and the exit status says so. */
static int show_server(const struct psctl *control, uint32_t index, struct ps_json_writer *json)
{
    struct ps_shard_client id;
    struct ps_applied_reply head;
    struct psclient_error error = {0};
    struct ps_applied_rows rows = {.memory = ps_allocator_heap()};
    /* The rows stay as the server names them, ranges included: who looks for a push that went wrong
     * wants to see which server lacks it. */
    /* The id that a trainer of that name has at this server, by the number of the shard. */
    ps_client_name_id(control->argument, index, &id);
    int status = ps_client_ask_applied(control->client, index, (struct ps_bytes){id.id, id.size},
                                       false, control->options.timeout_ms, &head, &rows, &error);
    /* What cannot be asked is complained of at once, beside the table. */
    if (status != PSCLIENT_OK)
        (void)fprintf(stderr, "psctl: server %" PRIu32 " does not say: %s\n", index, error.text);
    else if (json != NULL)
        show_json(json, index, &head, &rows);
    /* A word instead of zeros, which would look like a client that has done nothing. */
    else if (!head.is_known)
        (void)printf("%-6" PRIu32 " never seen, or forgotten\n", index);
    else {
        (void)printf("%-6" PRIu32 " %-18" PRIu64 " %10" PRIu64 " %-5s\n", index, head.session,
                     head.sequence, head.is_whole ? "yes" : "no");
        show_rows(&rows, index);
    }
    /* Rows of a page that came before a failure are not shown: they are not all. */
    ps_applied_rows_fini(&rows);
    return status == PSCLIENT_OK ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

/* Below the columns of the server's row: the name comes last, since it may be long. */
static void show_rows(const struct ps_applied_rows *rows, uint32_t index)
{
    for (size_t i = 0; i < rows->count; i++) {
        /* By name, as the server sorts them; empty cells keep the columns. */
        const struct psclient_applied *row = &rows->parts[i].row;
        (void)printf("%-6" PRIu32 " %-18s %10s %-5s %12" PRIu64 " %12" PRIu64 " %s\n", index, "",
                     "", "", row->pushes, row->version, row->name);
    }
}

/* A server that knows nothing has an object all the same, so that every index is there. */
static void show_json(struct ps_json_writer *json, uint32_t index,
                      const struct ps_applied_reply *head, const struct ps_applied_rows *rows)
{
    /* In the order of the wire's fields. */
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_bool(json, "known", head->is_known);
    ps_json_bool(json, "whole", head->is_whole);
    ps_json_uint(json, "session", head->session);
    ps_json_uint(json, "sequence", head->sequence);
    /* As on the wire: microseconds since 1970. */
    ps_json_uint(json, "used_us", head->used_us);
    /* An empty array where the client pushed nothing, as a program would expect it. */
    ps_json_begin_array(json, "pushes");
    for (size_t i = 0; i < rows->count; i++) {
        const struct psclient_applied *row = &rows->parts[i].row;
        ps_json_begin_object(json, NULL);
        ps_json_text(json, "name", ps_bytes_of_text(row->name));
        ps_json_uint(json, "pushes", row->pushes);
        ps_json_uint(json, "version", row->version);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
    ps_json_end_object(json);
}

const struct psctl_command psctl_client = {
    .page = {.name = "client",
             .argument = "ID",
             .summary = "what of a client's pushes was applied",
             .text =
                 "ID is the client_id that a trainer was opened with. Of each server: the\n"
                 "session of the process that had it last, the highest number applied in it,\n"
                 "and how many pushes of all its processes each parameter has. WHOLE is \"no\"\n"
                 "where the server may have forgotten some.\n",
             .examples = "  psctl client trainer-7 --etcd http://127.0.0.1:2379\n"},
    .run = client,
};
