/* SPDX-License-Identifier: Apache-2.0 */
/* psctl drop: parameters that a job does not need any more. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static int drop_all(const struct psctl *control, struct psclient_result *results);
static void say_results(const struct psctl *control, const struct psclient_result *results);

/* What is dropped is gone, so that a name that was mistyped in a script shall not be enough. */
static int drop(const struct psctl *control)
{
    if (!control->options.yes) {
        (void)fprintf(
            stderr,
            "psctl: drop: the values of %zu parameter%s would be gone for good; say --yes\n",
            control->word_count, control->word_count == 1 ? "" : "s");
        return EX_USAGE;
    }
    /* Names and results are as many as words were typed: no bound but that of the system. */
    struct psclient_result *results =
        ps_zeroed_array(ps_allocator_heap(), control->word_count, sizeof *results);
    if (results == NULL)
        return EX_OSERR;
    /* One call for all: names are looked up once. */
    int code = drop_all(control, results);
    ps_release(ps_allocator_heap(), results);
    return code;
}

/* All names as one batch. What could be dropped is dropped, whatever became of the others, and a
 * repeat says of those that they do not exist: so the exit status of a name that was never there is
 * that of data, and a script can go by it. */
static int drop_all(const struct psctl *control, struct psclient_result *results)
{
    /* Its text has the first name that failed; the results have all. */
    struct psclient_error error = {0};
    int status = psclient_drop(control->client, (const char *const *)control->words,
                               control->word_count, control->options.timeout_ms, results, &error);
    /* Also after a failure: some may be gone. */
    say_results(control, results);
    if (status == PSCLIENT_OK)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "psctl: drop %s\n", error.text);
    /* A server that does not answer may have dropped: the text says when that is open, and the same
     * command is right in either case. */
    return status == PSCLIENT_NOT_FOUND ? EX_DATAERR : EX_UNAVAILABLE;
}

/* Each name by itself: a script that is told only that something failed would have to look. */
static void say_results(const struct psctl *control, const struct psclient_result *results)
{
    /* The document is made in any case; a table of one line for each name needs none. */
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    for (size_t i = 0; i < control->word_count; i++) {
        /* The version tells what is gone: how many gradients had gone into it. */
        bool is_gone = results[i].status == PSCLIENT_OK;
        ps_json_begin_object(&document.json, NULL);
        ps_json_text(&document.json, "name", ps_bytes_of_text(control->words[i]));
        ps_json_bool(&document.json, "dropped", is_gone);
        ps_json_uint(&document.json, "version", results[i].version);
        ps_json_text(&document.json, "error", ps_bytes_of_text(results[i].text));
        ps_json_end_object(&document.json);
        /* What failed is said on standard error, by name. */
        if (is_gone && !control->json)
            (void)printf("%s is dropped; it had seen %" PRIu64 " gradients\n", control->words[i],
                         results[i].version);
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
}

const struct psctl_command psctl_drop = {
    .page = {.name = "drop",
             .argument = "NAME...",
             .summary = "have parameters go, with their values and states",
             .text =
                 "Wants --yes. From then on pushes and pulls of the name find nothing, until it\n"
                 "is defined again. A parameter that is cut is dropped on every server; when\n"
                 "psctl was stopped on the way, the same command does the rest. What checkpoints\n"
                 "and the journal have of it goes as they do.\n",
             .examples = "  psctl drop head/weight head/bias --yes --servers 127.0.0.1:8000\n"},
    .run = drop,
};
