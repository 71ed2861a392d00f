/* SPDX-License-Identifier: Apache-2.0 */
/* psctl workers: who takes part in the job, with which rank. */
#include "tools/psctl/psctl_commands.h"

#include "client/ask.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* A change is waited for in slices, so that a server which dies is left for another. */
enum { SLICE_MS = 20000 };

static int show_once(const struct psctl *control, uint64_t *revision);
static int watch(const struct psctl *control);
static void ask_others(const struct psctl *control, struct psclient_worker_list *list);
static void show(const struct psctl *control, const struct psclient_worker_list *list);
static void show_table(const struct psclient_worker_list *list);
static void show_json(const struct psclient_worker_list *list);

/* --watch goes on where the first list ends. */
static int workers(const struct psctl *control)
{
    /* Told by each list, and what the next one is waited for with. */
    uint64_t revision = 0;
    return control->options.watch ? watch(control) : show_once(control, &revision);
}

/* "" is every group. */
static const char *group_of(const struct psctl *control)
{
    return control->options.group != NULL ? control->options.group : "";
}

/* A name that cannot be a group's is wrong usage; everything else is a server that does not
 * answer, or is older than workers. */
static int complain(const struct psclient_error *error)
{
    (void)fprintf(stderr, "psctl: workers: %s\n", error->text);
    return error->status == PSCLIENT_INVALID ? EX_USAGE : EX_UNAVAILABLE;
}

/* All servers tell the same of who is there; each adds whom it hears. */
static int show_once(const struct psctl *control, uint64_t *revision)
{
    struct psclient_worker_list list;
    struct psclient_error error = {0};
    /* Without a revision the answer comes at once. */
    if (psclient_list_workers(control->client, group_of(control), 0, control->options.timeout_ms,
                              &list, &error) != PSCLIENT_OK)
        return complain(&error);
    /* Behind the list: whoever is heard is in it, or has come since. */
    ask_others(control, &list);
    show(control, &list);
    *revision = list.revision;
    psclient_worker_list_release(&list);
    return EXIT_SUCCESS;
}

/* Until it is interrupted, or no server answers. What is printed is asked for anew: the answer that
 * tells of a change comes from one server, which hears some of the workers. */
static int watch(const struct psctl *control)
{
    uint64_t revision = 0;
    int code = show_once(control, &revision);
    while (code == EXIT_SUCCESS) {
        struct psclient_worker_list list;
        struct psclient_error error = {0};
        /* Whoever reads from a pipe sees each list when it is made. */
        (void)fflush(stdout);
        if (psclient_list_workers(control->client, group_of(control), revision, SLICE_MS, &list,
                                  &error) != PSCLIENT_OK)
            return complain(&error);
        /* A slice that has passed without a change tells the same list again. */
        bool has_changed = list.revision != revision;
        psclient_worker_list_release(&list);
        if (has_changed)
            code = show_once(control, &revision);
    }
    return code;
}

/* A worker that has called several servers is as silent as the last of them says. A server that
 * does not answer hears nobody: its workers ask another. */
static void take_silence(struct psclient_worker *row, const struct psclient_worker_list *heard)
{
    for (size_t i = 0; i < heard->count; i++) {
        const struct psclient_worker *other = &heard->workers[i];
        /* A place is known by its incarnation alone, whatever its rank. */
        if (other->incarnation != row->incarnation || !other->heard)
            continue;
        if (!row->heard || other->silent_ms < row->silent_ms)
            row->silent_ms = other->silent_ms;
        row->heard = 1;
    }
}

/* Every server once, also the one that gave the list: which one that was the library does not
 * say. */
static void ask_others(const struct psctl *control, struct psclient_worker_list *list)
{
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        /* As of this moment, and not of that of the list: who has come since is passed over. */
        struct psclient_worker_list heard;
        if (ps_client_ask_workers(control->client, i, group_of(control),
                                  control->options.timeout_ms, &heard, NULL) == PSCLIENT_OK)
            for (size_t row = 0; row < list->count; row++)
                take_silence(&list->workers[row], &heard);
        psclient_worker_list_release(&heard);
    }
}

/* The document has all that the table has, and the times as numbers. */
static void show(const struct psctl *control, const struct psclient_worker_list *list)
{
    if (control->json)
        show_json(list);
    else
        show_table(list);
    /* A list that is cut must not look like a whole one. */
    if (list->more)
        (void)fprintf(stderr,
                      "psctl: workers: there are more than these; --group shows one group\n");
}

/* A cell holds something in any case, so that a script may count the columns. */
static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

/* The columns are as wide as common names of pods and hosts: a longer one moves those behind it. */
static void show_row(const struct psclient_worker *row)
{
    /* A worker that no server hears has called one that is gone. */
    char silent[32] = "-";
    if (row->heard)
        (void)snprintf(silent, sizeof silent, "%.1fs", (double)row->silent_ms / 1000.0);
    (void)printf("%-16s %9" PRIu32 " %-24s %-10s %-24s %-10s %11" PRIu64 "\n", row->group,
                 row->rank, or_dash(row->name), or_dash(row->role), or_dash(row->host), silent,
                 row->incarnation);
}

/* The incarnation of nobody is 0, as of a server that does not answer. */
static void show_missing(const char *group, uint32_t rank)
{
    (void)printf("%-16s %9" PRIu32 " %-24s %-10s %-24s %-10s %11u\n", group, rank, "-", "-", "-",
                 "missing", 0U);
}

/* Rows come by group and rank, as the groups do: between two of them, and behind the last, stand
 * the ranks that nobody has. A group without end has no such ranks. */
static void show_table(const struct psclient_worker_list *list)
{
    (void)printf("%-16s %9s %-24s %-10s %-24s %-10s %11s\n", "GROUP", "RANK", "NAME", "ROLE",
                 "HOST", "SILENT", "INCARNATION");
    for (size_t i = 0; i < list->group_count; i++) {
        const struct psclient_worker_group *group = &list->groups[i];
        /* The rank that would come next if nobody were missing. */
        uint32_t next = 0;
        for (size_t row = 0; row < list->count; row++) {
            if (strcmp(list->workers[row].group, group->name) != 0)
                continue;
            /* A group of thousands of which few are there is as long as its size: that is what
             * is missing. */
            while (group->size != 0 && next < list->workers[row].rank)
                show_missing(group->name, next++);
            show_row(&list->workers[row]);
            next = list->workers[row].rank + 1;
        }
        /* Ranks behind the end of a list that was cut may be there. */
        while (!list->more && next < group->size)
            show_missing(group->name, next++);
    }
}

/* Members as they are named on the wire. */
static void show_worker(struct ps_json_writer *json, const struct psclient_worker *row)
{
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "rank", row->rank);
    json_text(json, "name", row->name);
    json_text(json, "role", row->role);
    json_text(json, "host", row->host);
    ps_json_uint(json, "joined_unix_ms", row->joined_unix_ms);
    /* Without the member nobody knows. */
    if (row->heard)
        ps_json_uint(json, "silent_ms", row->silent_ms);
    ps_json_uint(json, "ttl_ms", row->ttl_ms);
    ps_json_uint(json, "incarnation", row->incarnation);
    ps_json_end_object(json);
}

/* One document for each list: with --watch, one behind the other. */
static void show_json(const struct psclient_worker_list *list)
{
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "revision", list->revision);
    ps_json_begin_array(json, "groups");
    for (size_t i = 0; i < list->group_count; i++) {
        ps_json_begin_object(json, NULL);
        json_text(json, "name", list->groups[i].name);
        /* 0: it has no end. */
        ps_json_uint(json, "size", list->groups[i].size);
        ps_json_begin_array(json, "workers");
        for (size_t row = 0; row < list->count; row++)
            if (strcmp(list->workers[row].group, list->groups[i].name) == 0)
                show_worker(json, &list->workers[row]);
        ps_json_end_array(json);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
    ps_json_end_object(json);
    /* Whole, or with a complaint: a document that is cut is none. */
    json_document_print(&document);
    json_document_fini(&document);
}

const struct psctl_command psctl_workers = {
    .page = {.name = "workers",
             .summary = "who takes part, with which rank",
             .text = "Workers of all groups, or of --group NAME. SILENT is how long ago a worker\n"
                     "called any server; a rank of a group with a size that nobody has is\n"
                     "\"missing\". With --watch it goes on, and prints anew whenever somebody\n"
                     "comes or goes.\n",
             .examples = "  psctl workers --etcd http://127.0.0.1:2379\n"
                         "  psctl workers --group workers --watch --servers 127.0.0.1:8000\n"},
    .run = workers,
};
