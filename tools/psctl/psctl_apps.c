/* SPDX-License-Identifier: Apache-2.0 */
/* psctl apps: what workers ask of server programs, and who serves it. */
#include "tools/psctl/psctl_commands.h"

#include "client/apps_ask.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

/* Of one server, while it is asked. */
struct shown {
    uint32_t index;
    struct ps_json_writer *json; /* NULL: a table */
};

/* A taker may call itself anything: no name steers a terminal. */
static void show_name(struct ps_bytes name)
{
    /* Bytes that are no letters of this terminal are shown as they are: names are UTF-8. */
    for (size_t i = 0; i < name.size; i++)
        (void)putchar(name.data[i] < ' ' || name.data[i] == 0x7f ? '?' : name.data[i]);
    if (name.size == 0)
        (void)putchar('-');
}

/* A row for each taker, and one for an app that nobody serves: the one to look after. */
static void show_rows(const struct shown *shown, const struct ps_app_state *state)
{
    /* The numbers of an app stand in each of its rows, so that a script may take any. */
    size_t rows = state->taker_count > 0 ? state->taker_count : 1;
    for (size_t i = 0; i < rows; i++) {
        (void)printf("%-6" PRIu32 " %6" PRIu32 " %8" PRIu32 " %8" PRIu32 " %12" PRIu64 " %12" PRIu64
                     " %10" PRIu64 "  ",
                     shown->index, state->app, state->waiting, state->taken, state->bytes,
                     state->answered, state->failed);
        /* Its requests wait until somebody does, or until their time is over. */
        if (state->taker_count == 0) {
            /* In words, since it is what an operator looks for. */
            (void)puts("nobody serves it");
            continue;
        }
        const struct ps_app_taker *taker = &state->takers[i];
        show_name(taker->name);
        /* The handler of the server itself is always heard. */
        if (taker->taker != 0)
            (void)printf(", heard %.1fs ago, has %" PRIu32 "%s", (double)taker->heard_ms / 1000.0,
                         taker->taken, taker->again ? ", leaves them to others" : "");
        (void)putchar('\n');
    }
}

/* All numbers, also those that are 0: who reads documents counts on their members. */
static void show_json(struct ps_json_writer *json, uint32_t index, const struct ps_app_state *state)
{
    ps_json_begin_object(json, NULL);
    /* Of which server, since two servers may have the same app. */
    ps_json_uint(json, "index", index);
    ps_json_uint(json, "app", state->app);
    ps_json_uint(json, "waiting", state->waiting);
    ps_json_uint(json, "taken", state->taken);
    ps_json_uint(json, "bytes", state->bytes);
    ps_json_uint(json, "answered", state->answered);
    ps_json_uint(json, "failed", state->failed);
    /* Also where there are none: the member says what was asked. */
    ps_json_begin_array(json, "takers");
    for (size_t i = 0; i < state->taker_count; i++) {
        const struct ps_app_taker *taker = &state->takers[i];
        ps_json_begin_object(json, NULL);
        ps_json_text(json, "name", taker->name);
        /* A handler has no number of its own, and is never silent. */
        ps_json_bool(json, "in_server", taker->taker == 0);
        ps_json_uint(json, "heard_ms", taker->heard_ms);
        ps_json_uint(json, "taken", taker->taken);
        ps_json_bool(json, "again", taker->again);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
    ps_json_end_object(json);
}

/* As a document or as a table, each app as it is read. */
static void show(void *self, const struct ps_app_state *state)
{
    const struct shown *shown = self;
    /* While the answer is there: nothing of it is kept. */
    if (shown->json != NULL)
        show_json(shown->json, shown->index, state);
    else
        show_rows(shown, state);
}

/* Every server by itself: a request is one server's. One that does not answer makes the exit
 * status, and those behind it are asked all the same. */
static int apps(const struct psctl *control)
{
    struct json_document document;
    int code = EXIT_SUCCESS;
    /* Also for a table, which leaves it empty: one way through. */
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %6s %8s %8s %12s %12s %10s  %s\n", "INDEX", "APP", "WAITING", "TAKEN",
                     "BYTES", "ANSWERED", "FAILED", "SERVED BY");
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        /* One server after the other: what they say is printed as it comes. */
        struct shown shown = {i, control->json ? &document.json : NULL};
        /* Told in the engine's turn, on this thread. */
        const struct ps_app_listener listener = {show, &shown};
        struct psclient_error error = {0};
        if (ps_client_ask_apps(control->client, i, &listener, control->options.timeout_ms,
                               &error) == PSCLIENT_OK)
            continue;
        (void)fprintf(stderr, "psctl: server %" PRIu32 " does not say: %s\n", i, error.text);
        code = EX_UNAVAILABLE;
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return code;
}

const struct psctl_command psctl_apps = {
    .page = {.name = "apps",
             .summary = "what workers ask of server programs, and who serves it",
             .text =
                 "Of each server and app: how many requests wait and are taken, how many bytes\n"
                 "they and kept answers are, how many were answered and failed, and who serves\n"
                 "the app: a handler in the server, or takers.\n",
             .examples = "  psctl apps --etcd http://127.0.0.1:2379\n"
                         "  psctl apps --servers 127.0.0.1:8000 --output json\n"},
    .run = apps,
};
