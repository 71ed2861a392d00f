/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint: has every server write one now. */
#include "tools/psctl/psctl_commands.h"

#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

/* The members are those that psckpt takes: a path to verify, a position to compare. */
static void show_json(struct ps_json_writer *json, const struct psclient_saved *saved,
                      uint32_t index)
{
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_text(json, "uuid", ps_bytes_of_text(saved->uuid));
    ps_json_text(json, "path", ps_bytes_of_text(saved->path));
    ps_json_uint(json, "position", saved->position);
    ps_json_uint(json, "bytes", saved->bytes);
    ps_json_end_object(json);
}

/* A server that saved nothing has no row: a row says that something is on the disk. */
static int checkpoint(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %12s %14s  %s\n", "INDEX", "POSITION", "BYTES", "PATH");
    /* Servers are asked one after the other. Their checkpoints are of different instants anyway:
     * each shard is saved at an instant of its own, and no instant of the job exists. */
    uint32_t missing = 0;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psclient_saved saved = {0};
        struct psclient_error error = {0};
        /* The time is for this server alone: the write of a large shard takes minutes, and so
         * --timeout is what a user raises here. */
        int status = psclient_save(control->client, i, control->options.timeout_ms, &saved, &error);
        /* A server without a data directory refuses, and so does one that is not initialised:
         * there is nothing to save. */
        if (status != PSCLIENT_OK) {
            /* The others are asked all the same. A checkpoint of most shards is better than of
             * none, and the exit status says that one is missing. */
            missing++;
            (void)fprintf(stderr, "psctl: server %" PRIu32 " saved nothing: %s\n", i, error.text);
            continue;
        }
        if (control->json)
            show_json(&document.json, &saved, i);
        else
            /* The path is as the server sees it; on another machine, or in a container, that is
             * another tree. */
            (void)printf("%-6" PRIu32 " %12" PRIu64 " %14" PRIu64 "  %s\n", i, saved.position,
                         saved.bytes, saved.path);
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return missing == 0 ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

const struct psctl_command psctl_checkpoint = {
    .page = {.name = "checkpoint",
             .summary = "write one now on every server",
             .text = "Says where each is when it is on disk and published, or why it could not be\n"
                     "written.\n",
             .examples = "  psctl checkpoint --etcd http://127.0.0.1:2379 --timeout 5m\n"},
    .run = checkpoint,
};
