/* SPDX-License-Identifier: Apache-2.0 */
/* What psctl's commands have in common: the questions to every server, and the form of answers. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* A page of one server's parameters. */
struct page {
    struct psclient_param_info *rows;
    struct psclient_config *configs; /* NULL: they are not asked for */
};

static int visit_server(const struct psctl *control, uint32_t index, const struct page *page,
                        const struct psctl_visit *visit);

/* A server that does not answer has a row all the same: a job with a hole must look like one. */
int psctl_show_servers(const struct psctl *control, const struct psctl_view *view)
{
    struct json_document document;
    /* The document is begun even when a table is asked for: an empty one costs nothing, and the
     * way through is the same. */
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)fputs(view->heading, stdout);
    bool all = true;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        struct psctl_answer answer = psctl_ask(control, i);
        /* The server that is not good stays in the table and in the document: the exit status
         * says that something is wrong, the row says where. */
        all = view->good(&answer) && all;
        if (!control->json) {
            view->row(&answer, i);
            continue;
        }
        /* The index comes first in every object, so that documents of different commands can be
         * joined by it. */
        ps_json_begin_object(&document.json, NULL);
        ps_json_uint(&document.json, "index", i);
        view->json(&document.json, &answer);
        ps_json_end_object(&document.json);
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    /* A document that outgrew its bound has said so on standard error while it was printed. */
    json_document_fini(&document);
    return all ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

/* Not the same as serving: a server that is starting answers, and psctl health judges further. */
bool psctl_answered(const struct psctl_answer *answer)
{
    return answer->status == PSCLIENT_OK;
}

/* The complaint goes to standard error at once, beside the table: a reader of the document alone
 * still sees a row without an address, and a person sees why. Each server has the whole
 * --timeout to itself, so that one which hangs does not take the time of the next. */
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

int psctl_visit_params(const struct psctl *control, const struct psctl_visit *visit)
{
    /* One page is held at a time, whatever the number of parameters: a job may have millions,
     * and their rows are printed as they come. */
    const struct ps_allocator *heap = ps_allocator_heap();
    struct page page = {.rows = ps_zeroed_array(heap, PSCTL_ROWS_AT_ONCE, sizeof *page.rows)};
    /* A configuration has room for the longest: they are not asked for where nobody looks. */
    if (visit->configs)
        page.configs = ps_zeroed_array(heap, PSCTL_ROWS_AT_ONCE, sizeof *page.configs);
    /* No memory at all is said by the status alone: a text would want memory, too. */
    bool has_memory = page.rows != NULL && (page.configs != NULL || !visit->configs);
    int code = has_memory ? EXIT_SUCCESS : EX_OSERR;
    uint32_t count = psclient_shard_count(control->client);
    /* A list is worth printing with a hole in it (`stops` is false); a value that is put together
     * from ranges is not, since nobody sees the hole in it. */
    for (uint32_t i = 0; has_memory && i < count && !(visit->stops && code != EXIT_SUCCESS); i++) {
        int result = visit_server(control, i, &page, visit);
        code = result != EXIT_SUCCESS ? result : code;
    }
    ps_release(heap, page.configs);
    ps_release(heap, page.rows);
    return code;
}

struct ps_shape psctl_shape(const struct psclient_param_info *info)
{
    struct ps_shape shape = {.is_given = true, .rank = (uint32_t)info->rank};
    memcpy(shape.lengths, info->shape, sizeof info->shape);
    return shape;
}

/* Page after page: a server's parameters need not fit into one answer. */
static int visit_server(const struct psctl *control, uint32_t index, const struct page *page,
                        const struct psctl_visit *visit)
{
    /* The name is copied, since the row that it stands in is written over by the next page. */
    char after[sizeof page->rows[0].name] = "";
    int more = 1;
    while (more) {
        size_t count = 0;
        struct psclient_error error = {0};
        /* The last name of a page is where the next one begins. A name that comes or goes
         * meanwhile may be missed, and none is seen twice. */
        int status = psclient_list_configs(control->client, index, after[0] ? after : NULL,
                                           page->rows, page->configs, PSCTL_ROWS_AT_ONCE, &count,
                                           &more, control->options.timeout_ms, &error);
        if (status != PSCLIENT_OK) {
            (void)fprintf(stderr, "psctl: server %" PRIu32 " does not list its parameters: %s\n",
                          index, error.text);
            return EX_UNAVAILABLE;
        }
        for (size_t i = 0; i < count; i++)
            visit->visit(control, index, &page->rows[i],
                         page->configs != NULL ? &page->configs[i] : NULL, visit->context);
        /* A server that says "more" and sends nothing would have psctl ask for ever. */
        if (count == 0)
            break;
        memcpy(after, page->rows[count - 1].name, sizeof after);
    }
    return EXIT_SUCCESS;
}
