/* SPDX-License-Identifier: Apache-2.0 */
/* psctl params: every parameter of every server. */
#include "tools/psctl/psctl_commands.h"

#include "base/dtype.h"
#include "tools/json_document.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A row is one line, and no name steers a terminal. */
static void param_row(const struct psclient_param_info *info, uint32_t index)
{
    char name[sizeof info->name];
    /* The name is printed from a copy: the row belongs to the page of answers. */
    memcpy(name, info->name, sizeof name);
    /* Names are UTF-8, whose bytes above 127 are not control characters: psctl sets no locale. A
     * name with an escape sequence would otherwise steer the terminal of whoever looks. */
    for (char *letter = name; *letter != '\0'; letter++)
        *letter = iscntrl((unsigned char)*letter) ? '?' : *letter;
    char text[PS_SHAPE_TEXT_BYTES];
    const struct ps_shape shape = psctl_shape(info);
    (void)printf("%-6" PRIu32 " %-40s %-5s %14" PRIu64 " %12" PRIu64 " %-10s %12g %14" PRIu64
                 "  %s\n",
                 index, name, ps_dtype_name((enum ps_dtype)info->type), info->element_count,
                 info->version, info->rule, info->learning_rate, info->state_bytes,
                 ps_shape_text(&shape, info->element_count, text));
}

/* JSON has the name as it is: the writer escapes what could do harm. */
static void param_json(struct ps_json_writer *json, const struct psclient_param_info *info,
                       uint32_t index)
{
    const struct ps_shape shape = psctl_shape(info);
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_text(json, "name", ps_bytes_of_text(info->name));
    ps_json_text(json, "type", ps_bytes_of_text(ps_dtype_name((enum ps_dtype)info->type)));
    ps_json_uint(json, "element_count", info->element_count);
    ps_shape_json(&shape, info->element_count, json, "shape");
    ps_json_uint(json, "version", info->version);
    ps_json_text(json, "rule", ps_bytes_of_text(info->rule));
    ps_json_real(json, "learning_rate", info->learning_rate);
    ps_json_uint(json, "state_bytes", info->state_bytes);
    ps_json_end_object(json);
}

/* One row goes out as it comes; nothing is sorted over servers, since each has its own names. */
static void show_param(const struct psctl *control, uint32_t index,
                       const struct psclient_param_info *info, const struct psclient_config *config,
                       void *context)
{
    (void)config;
    struct json_document *document = context;
    if (control->json)
        param_json(&document->json, info, index);
    else
        param_row(info, index);
}

/* A server that does not answer leaves a hole, and the others are listed all the same; the exit
 * status says it. */
static int params(const struct psctl *control)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        /* The rate is that of the next step, as the schedule has it then. A long name moves its
         * row to the right rather than being cut: it may be wanted for psctl get. */
        (void)printf("%-6s %-40s %-5s %14s %12s %-10s %12s %14s  %s\n", "INDEX", "NAME", "TYPE",
                     "ELEMENTS", "VERSION", "RULE", "RATE", "STATE_BYTES", "SHAPE");
    const struct psctl_visit visit = {.visit = show_param, .context = &document};
    int code = psctl_visit_params(control, &visit);
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    return code;
}

const struct psctl_command psctl_params = {
    .page = {.name = "params",
             .summary = "all parameters",
             .text = "Server by server, in the order of their names. A large one is cut: NAME#i/n\n"
                     "is its range on server i, and its SHAPE is that of the whole.\n",
             .examples = "  psctl params --servers 127.0.0.1:8000 --output json\n"},
    .run = params,
};
