/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint: has every server write one now. */
#include "tools/psctl/psctl_commands.h"

#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* How far a set is, is said so often. */
#define PROGRESS_MS 2000

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

/* ---- --model ---- */

/* The servers are asked again and again for as long as --timeout says; what is new is said in
 * between, on standard error, so that a document stays one document. */
static int save_model(const struct psctl *control, struct psclient_set *set,
                      struct psclient_error *error)
{
    /* By the sum of the waits, which is the time but for what servers answer early. */
    uint64_t left_ms = control->options.timeout_ms;
    uint32_t said = 0;
    char name[sizeof set->name];
    int existed = 0;
    const char *wish = control->options.set;
    for (bool is_first = true;; is_first = false) {
        uint64_t wait_ms = left_ms < PROGRESS_MS ? left_ms : PROGRESS_MS;
        int status = psclient_save_model(control->client, wish, wait_ms, set, error);
        left_ms -= wait_ms;
        /* Whole at a later question is what the first one asked for. */
        existed |= is_first && set->existed;
        set->existed = existed;
        /* Without a name no server has answered, and the library has waited for all of them. */
        bool is_known = set->name[0] != '\0' || !is_first;
        bool goes_on = (status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE) && is_known &&
                       left_ms > 0;
        if (!goes_on)
            return status;
        /* A line for each step and not for each question: a large shard takes minutes. */
        if (set->saved_count > said)
            (void)fprintf(stderr, "psctl: set %s: %" PRIu32 " of %" PRIu32 " shards\n", set->name,
                          set->saved_count, set->shard_count);
        said = set->saved_count > said ? set->saved_count : said;
        /* A name that the library made is kept: another one would be another set. A server that
         * answered no more has not said it again. */
        if (set->name[0] != '\0')
            memcpy(name, set->name, sizeof name);
        wish = name;
        psclient_set_release(set);
    }
}

/* Shards that are missing have no row; the number of shards says how many those are. */
static void show_set_json(const struct psclient_set *set)
{
    struct json_document document;
    json_document_init(&document);
    /* One object and not an array: it is one set. */
    ps_json_begin_object(&document.json, NULL);
    ps_json_text(&document.json, "set", ps_bytes_of_text(set->name));
    ps_json_bool(&document.json, "whole", set->whole);
    ps_json_bool(&document.json, "existed", set->existed);
    ps_json_uint(&document.json, "shard_count", set->shard_count);
    ps_json_begin_array(&document.json, "shards");
    for (uint32_t i = 0; i < set->shard_count; i++) {
        const struct psclient_set_shard *shard = &set->shards[i];
        /* Not there yet. */
        if (shard->uuid[0] == '\0')
            continue;
        ps_json_begin_object(&document.json, NULL);
        ps_json_uint(&document.json, "index", i);
        ps_json_text(&document.json, "uuid", ps_bytes_of_text(shard->uuid));
        ps_json_text(&document.json, "path", ps_bytes_of_text(shard->path));
        ps_json_uint(&document.json, "position", shard->position);
        ps_json_uint(&document.json, "bytes", shard->bytes);
        ps_json_end_object(&document.json);
    }
    ps_json_end_array(&document.json);
    ps_json_end_object(&document.json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* The first line is the one that a person reads. */
static void show_set(const struct psclient_set *set)
{
    (void)printf("set %s: %" PRIu32 " of %" PRIu32 " shards%s\n", set->name, set->saved_count,
                 set->shard_count,
                 set->existed ? ", whole before"
                 : set->whole ? ", whole"
                              : "");
    (void)printf("%-6s %12s %14s  %s\n", "INDEX", "POSITION", "BYTES", "PATH");
    for (uint32_t i = 0; i < set->shard_count; i++)
        if (set->shards[i].uuid[0] != '\0')
            (void)printf("%-6" PRIu32 " %12" PRIu64 " %14" PRIu64 "  %s\n", i,
                         set->shards[i].position, set->shards[i].bytes, set->shards[i].path);
}

/* A set that was whole before is not a snapshot of now, and whoever took the name for a new one is
 * told so by the exit status. */
static int checkpoint_model(const struct psctl *control)
{
    struct psclient_set set = {.whole = 0};
    struct psclient_error error = {0};
    int status = save_model(control, &set, &error);
    /* What is there is shown also when it is not all. */
    if (set.name[0] != '\0' && control->json)
        show_set_json(&set);
    else if (set.name[0] != '\0')
        show_set(&set);
    if (status != PSCLIENT_OK)
        (void)fprintf(stderr, "psctl: %s\n", error.text);
    else if (set.existed)
        (void)fprintf(stderr, "psctl: set %s was there already: choose another name\n", set.name);
    /* A script that names sets after epochs of a training finds out that it repeats itself. */
    bool is_new = status == PSCLIENT_OK && !set.existed;
    psclient_set_release(&set);
    return is_new ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

/* ---- Each server by itself ---- */

/* A server that saved nothing has no row: a row says that something is on the disk. */
static int checkpoint(const struct psctl *control)
{
    /* One call of the whole job, and not one for each server. */
    if (control->options.model)
        return checkpoint_model(control);
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
             .text =
                 "Says where each is when it is on disk and published, or why it could not be\n"
                 "written. Each is of an instant of its own.\n\n"
                 "With --model they are one set: every instant lies behind the command, so that\n"
                 "everything acknowledged before it is in, and the files of the newest sets stay\n"
                 "(pserver --model-checkpoints-keep) until newer ones take their place. psckpt\n"
                 "restore-set goes back to one. Pushes under way may be in one shard and not\n"
                 "in another: trainers that are to stand still meet at a barrier before.\n",
             .examples =
                 "  psctl checkpoint --etcd http://127.0.0.1:2379 --timeout 5m\n"
                 "  psctl checkpoint --model --set epoch-12 --etcd http://127.0.0.1:2379\n"},
    .run = checkpoint,
};
