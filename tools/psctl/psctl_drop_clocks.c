/* SPDX-License-Identifier: Apache-2.0 */
/* psctl drop-clocks: clocks that no job counts by any more.
 *
 * A job that sets clocks of a name of its own removes them at its end; this is for those of jobs
 * that were killed, by whoever finds that a server has no room for more. */
#include "tools/psctl/psctl_commands.h"

#include "tools/json_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static int drop_one(const struct psctl *control, const char *name, struct ps_json_writer *json);

/* Workers that still read by them would be refused, so that a name that was mistyped in a script
 * shall not be enough. Every name is tried, whatever became of those before it. */
static int drop_clocks(const struct psctl *control)
{
    struct json_document document;
    int code = EXIT_SUCCESS;
    if (!control->options.yes) {
        (void)fprintf(stderr,
                      "psctl: drop-clocks: how far the workers of %zu name%s are would be "
                      "forgotten; say --yes\n",
                      control->word_count, control->word_count == 1 ? "" : "s");
        return EX_USAGE;
    }
    /* One call for each, since a call is for all servers and ends with the first that refuses. */
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    /* The exit status is that of the last name that failed; the document has all of them. */
    for (size_t i = 0; i < control->word_count; i++) {
        int failed = drop_one(control, control->words[i], &document.json);
        if (failed != EXIT_SUCCESS)
            code = failed;
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return code;
}

/* A name that no server has is none that failed: whoever was stopped on the way says the same
 * again. So what is told is how it is now, and not what this call has done. */
static int drop_one(const struct psctl *control, const char *name, struct ps_json_writer *json)
{
    struct psclient_error error = {0};
    int status = psclient_remove_clocks(control->client, name, control->options.timeout_ms, &error);
    bool is_gone = status == PSCLIENT_OK;
    /* Made in any case, as the documents of the other commands are. */
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", ps_bytes_of_text(name));
    ps_json_bool(json, "gone", is_gone);
    ps_json_text(json, "error", ps_bytes_of_text(is_gone ? "" : error.text));
    ps_json_end_object(json);
    if (is_gone && !control->json)
        (void)printf("no server has clocks %s any more\n", name);
    if (is_gone)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "psctl: drop-clocks %s: %s\n", name, error.text);
    /* A name that cannot be one is the caller's; of a server that does not answer it is open, and
     * the same command is right in either case. */
    return status == PSCLIENT_INVALID ? EX_DATAERR : EX_UNAVAILABLE;
}

const struct psctl_command psctl_drop_clocks = {
    .page = {.name = "drop-clocks",
             .argument = "NAME...",
             .summary = "have clocks go, by which no worker counts any more",
             .text =
                 "Wants --yes. A server has room for 64 clocks, and keeps those of jobs that are\n"
                 "over until somebody removes them; psctl clocks '*' shows their names. Reads\n"
                 "that wait by them are refused at once. Set again they begin anew, at 0. When\n"
                 "psctl was stopped on the way, the same command does the rest.\n",
             .examples = "  psctl drop-clocks epoch-17 --yes --servers 127.0.0.1:8000\n"},
    .run = drop_clocks,
};
