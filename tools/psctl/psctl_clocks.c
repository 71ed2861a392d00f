/* SPDX-License-Identifier: Apache-2.0 */
/* psctl clocks: how far the workers are, by the clocks of a name, and for whom others wait.
 *
 * Whoever asks this has a job that stands still or crawls. So the first thing that a table shows is
 * the minimum, and the word behind a worker says whether it is the one that the others wait for. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "client/progress_ask.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* What one server has said. */
struct answer {
    struct ps_progress_reply reply;
    struct ps_worker_clock workers[PS_CLOCK_WORKERS_MAX];
    size_t worker_count;
    char names[PS_CLOCKS_MAX][PS_CLOCKS_NAME_BYTES_MAX + 1];
    size_t name_count;
};

static void take_worker(void *self, const struct ps_worker_clock *worker);
static void take_name(void *self, struct ps_bytes name);
static int show_server(const struct psctl *control, uint32_t index, struct answer *answer,
                       struct ps_json_writer *json);
static void show_names(const struct answer *answer, uint32_t index);
static void show_rows(const struct answer *answer, uint32_t index);
static void show_json(struct ps_json_writer *json, uint32_t index, const struct answer *answer);

/* The numbers of the wire; those of a later server have no word here, and are still told to be
 * something else than these. */
static const char *consistency_word(uint32_t consistency)
{
    static const char *const words[] = {"asp", "ssp", "bsp", "sparse-ssp"};
    return consistency < sizeof words / sizeof words[0] ? words[consistency] : "unknown";
}

/* What becomes of a worker that holds the minimum for too long. The words are those of the page, so
 * that what is printed can be looked up. */
static const char *straggler_word(uint32_t straggler)
{
    return straggler == 0 ? "wait" : straggler == 1 ? "evict" : "unknown";
}

/* Whoever is waited for and stands at the minimum: the others wait for it. Several may, and each of
 * them has to go on before the minimum moves. */
static bool holds_minimum(const struct answer *answer, size_t rank)
{
    return !answer->workers[rank].is_evicted && !answer->workers[rank].is_absent &&
           answer->workers[rank].clock == answer->reply.minimum;
}

/* Each server has clocks of its own, which may differ while one of them was away: what is shown is
 * what each says, and a server that says nothing leaves a hole. */
static int clocks(const struct psctl *control)
{
    struct json_document document;
    int code = EXIT_SUCCESS;
    /* On the heap: a hundred kilobytes. */
    struct answer *answer = ps_zeroed(ps_allocator_heap(), sizeof *answer);
    if (answer == NULL) {
        (void)fputs("psctl: no memory for a list of workers\n", stderr);
        return EX_OSERR;
    }
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    /* The note comes last, since it has no width that a table could keep. */
    if (!control->json)
        (void)printf("%-6s %6s %12s %8s %10s  %s\n", "INDEX", "RANK", "CLOCK", "AHEAD", "SILENT",
                     "CLOCKS");
    /* Minima of different servers are not put together: a worker that one of them lacks is found by
     * its row there. */
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        /* One failure makes the exit status, and the servers behind it are asked all the same. */
        int result = show_server(control, i, answer, control->json ? &document.json : NULL);
        code = result != EXIT_SUCCESS ? result : code;
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    ps_release(ps_allocator_heap(), answer);
    return code;
}

/* Clocks that a server does not have are told from a server that does not answer: the one is a name
 * that was mistyped or never set, the other a server to look after. */
static int show_server(const struct psctl *control, uint32_t index, struct answer *answer,
                       struct ps_json_writer *json)
{
    const struct ps_progress_rows rows = {take_worker, take_name, answer};
    struct psclient_error error = {0};
    /* The star is no name here: it asks which there are. */
    bool lists = strcmp(control->argument, "*") == 0;
    /* One answer's room for all servers, one after the other. */
    answer->worker_count = answer->name_count = 0;
    int status = ps_client_ask_progress(control->client, index,
                                        ps_bytes_of_text(lists ? "" : control->argument), &rows,
                                        control->options.timeout_ms, &answer->reply, &error);
    if (status != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: server %" PRIu32 " does not say: %s\n", index, error.text);
        return status == PSCLIENT_NOT_FOUND ? EX_DATAERR : EX_UNAVAILABLE;
    }
    if (json != NULL)
        show_json(json, index, answer);
    else if (lists)
        show_names(answer, index);
    else
        show_rows(answer, index);
    return EXIT_SUCCESS;
}

/* Called by the codec, for each row as it is read. No more come than there can be: the codec
 * counts. */
static void take_worker(void *self, const struct ps_worker_clock *worker)
{
    /* Behind the last: rows stand in the order of ranks. */
    struct answer *answer = self;
    answer->workers[answer->worker_count++] = *worker;
}

/* For JSON the writer would escape what could do harm; the table has nobody who does. */
static void take_name(void *self, struct ps_bytes name)
{
    struct answer *answer = self;
    char *text = answer->names[answer->name_count++];
    /* No name steers a terminal. */
    for (size_t i = 0; i < name.size; i++)
        text[i] = (char)(name.data[i] < ' ' || name.data[i] == 0x7f ? '?' : name.data[i]);
    text[name.size] = '\0';
}

/* In the columns of the other table, so that a script reads both by the same field. */
static void show_names(const struct answer *answer, uint32_t index)
{
    for (size_t i = 0; i < answer->name_count; i++)
        (void)printf("%-6" PRIu32 " %6s %12s %8s %10s  %s\n", index, "-", "", "", "",
                     answer->names[i]);
}

/* The row of the clocks first, with the minimum in the column of clocks. */
static void show_rows(const struct answer *answer, uint32_t index)
{
    /* An eviction is in the log of the server as well, with its time. */
    const struct ps_progress_reply *reply = &answer->reply;
    (void)printf("%-6" PRIu32 " %6s %12" PRIu64 " %8s %10s  %s staleness %" PRIu32, index, "-",
                 reply->minimum, "", "", consistency_word(reply->consistency), reply->staleness);
    /* What most clocks do not have takes no room. */
    if (reply->speculation > 0)
        (void)printf(", speculation %" PRIu32, reply->speculation);
    if (reply->task > 0)
        (void)printf(", task %" PRIu64, reply->task);
    (void)printf(", stragglers: %s, %" PRIu64 " evicted since the server started\n",
                 straggler_word(reply->straggler), reply->evictions);
    for (size_t rank = 0; rank < answer->worker_count; rank++) {
        const struct ps_worker_clock *worker = &answer->workers[rank];
        /* Nothing behind the others: a table of a thousand rows is looked through for words. */
        const char *note = worker->is_absent             ? "takes no part"
                           : worker->is_evicted          ? "evicted"
                           : holds_minimum(answer, rank) ? "holds the minimum"
                                                         : "";
        /* An evicted worker may be behind the minimum: it is not ahead then. */
        uint64_t ahead = worker->clock > reply->minimum ? worker->clock - reply->minimum : 0;
        (void)printf("%-6" PRIu32 " %6zu %12" PRIu64 " %8" PRIu64 " %9.1fs  %s\n", index, rank,
                     worker->clock, ahead, (double)worker->silent_ms / 1000.0, note);
    }
}

/* Words and not the numbers of the wire, as everywhere in these documents. */
static void show_json(struct ps_json_writer *json, uint32_t index, const struct answer *answer)
{
    const struct ps_progress_reply *reply = &answer->reply;
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    /* Of clocks that were named there are workers, and of a star names. */
    if (answer->worker_count > 0) {
        const char *consistency = consistency_word(reply->consistency);
        const char *straggler = straggler_word(reply->straggler);
        ps_json_uint(json, "minimum", reply->minimum);
        ps_json_text(json, "consistency", ps_bytes_of_text(consistency));
        ps_json_uint(json, "staleness", reply->staleness);
        ps_json_uint(json, "speculation", reply->speculation);
        ps_json_uint(json, "task", reply->task);
        ps_json_text(json, "straggler", ps_bytes_of_text(straggler));
        ps_json_uint(json, "ttl_ms", reply->ttl_ms);
        ps_json_uint(json, "evictions", reply->evictions);
        ps_json_begin_array(json, "workers");
        /* By rank, which is said all the same: who filters the rows keeps it. */
        for (size_t rank = 0; rank < answer->worker_count; rank++) {
            const struct ps_worker_clock *worker = &answer->workers[rank];
            ps_json_begin_object(json, NULL);
            ps_json_uint(json, "rank", rank);
            ps_json_uint(json, "clock", worker->clock);
            ps_json_uint(json, "silent_ms", worker->silent_ms);
            ps_json_bool(json, "evicted", worker->is_evicted);
            ps_json_bool(json, "absent", worker->is_absent);
            ps_json_bool(json, "holds_minimum", holds_minimum(answer, rank));
            ps_json_end_object(json);
        }
        ps_json_end_array(json);
    } else {
        /* Also where there are none: the member says what was asked. */
        ps_json_begin_array(json, "clocks");
        for (size_t i = 0; i < answer->name_count; i++)
            ps_json_text(json, NULL, ps_bytes_of_text(answer->names[i]));
        ps_json_end_array(json);
    }
    ps_json_end_object(json);
}

const struct psctl_command psctl_clocks = {
    .page = {.name = "clocks",
             .argument = "NAME",
             .summary = "how far workers are, and for whom others wait",
             .text =
                 "Of each server, by the clocks of that name: the minimum, by which rule reads\n"
                 "wait, and of each worker its clock, how far that is ahead of the minimum, and\n"
                 "for how long it has been silent. With '*' the names of all clocks.\n",
             .examples = "  psctl clocks train --etcd http://127.0.0.1:2379\n"
                         "  psctl clocks '*' --servers 127.0.0.1:8000 --output json\n"},
    .run = clocks,
};
