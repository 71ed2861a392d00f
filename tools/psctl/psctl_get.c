/* SPDX-License-Identifier: Apache-2.0 */
/* psctl get: the values of one parameter. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "tools/json_document.h"
#include "tools/psctl/psctl_config.h"
#include "tools/psctl/psctl_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* What is known of the name that was asked for, from every server: any may hold the parameter,
 * whole or cut into ranges (docs/wire.md). */
struct found {
    struct psclient_param_info info; /* element_count over all ranges */
    bool whole;
    bool cut;
    bool is_table;
};

static void look_at_param(const struct psctl *control, uint32_t index,
                          const struct psclient_param_info *info,
                          const struct psclient_config *config, void *context);
static int pull_and_print(const struct psctl *control, const struct found *found);
static void print_values(const struct psctl *control, const struct psclient_param_info *info,
                         const struct psclient_parameter *parameter);

/* Two steps: every server is asked what it has under the name, then the values are pulled. The
 * first step is what says whether the name exists, of which type it is and whether it is cut; a
 * pull of a name that nobody knows could not even reserve room. */
static int get(const struct psctl *control)
{
    struct found found = {.info = {.element_count = 0}};
    const struct psctl_visit visit = {
        .visit = look_at_param, .context = &found, .stops = true, .configs = true};
    int code = psctl_visit_params(control, &visit);
    if (code != EXIT_SUCCESS)
        return code;
    /* No server has it: wrong data, not an outage. A server that did not answer has ended the
     * search before. */
    if (!found.whole && !found.cut) {
        (void)fprintf(stderr, "psctl: parameter: %s does not exist\n", control->argument);
        return EX_DATAERR;
    }
    /* Without keys a table has nothing to show, and with all of its rows too much. */
    if (found.is_table) {
        (void)fprintf(stderr, "psctl: %s is a table: psctl rows %s KEY... reads its rows\n",
                      control->argument, control->argument);
        return EX_USAGE;
    }
    return pull_and_print(control, &found);
}

/* A range is listed under the name of its parameter, "#", its number, "/" and how many there
 * are. A parameter may have a "#" in its own name, so that the name which was asked for must end
 * exactly there. */
static void look_at_param(const struct psctl *control, uint32_t index,
                          const struct psclient_param_info *info,
                          const struct psclient_config *config, void *context)
{
    (void)index;
    struct found *found = context;
    size_t length = strlen(control->argument);
    if (strncmp(info->name, control->argument, length) != 0)
        return;
    bool whole = info->name[length] == '\0';
    bool range = info->name[length] == '#' && strchr(info->name + length, '/') != NULL;
    /* Another parameter whose name only begins in the same way. */
    if (!whole && !range)
        return;
    /* The elements of all ranges add up; type and version are those of any of them. */
    uint64_t elements = found->info.element_count + info->element_count;
    found->info = *info;
    found->info.element_count = elements;
    /* Only the configuration tells a table from a matrix. */
    struct ps_optimizer_config settings;
    found->is_table |=
        whole && psctl_read_config(config, &settings) == EXIT_SUCCESS && settings.table.width > 0;
    found->whole |= whole;
    found->cut |= range;
}

/* A second client is opened for the pull: how a client cuts names into ranges is said when it
 * opens, and only now it is known. */
static int pull_and_print(const struct psctl *control, const struct found *found)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct psclient_param_info *info = &found->info;
    size_t width = ps_dtype_size((enum ps_dtype)info->type);
    /* The content is reserved whole, since psclient puts ranges together in the place of the
     * caller. */
    struct psclient_parameter parameter = {
        .name = control->argument,
        .type = info->type,
        .content = ps_zeroed_array(heap, info->element_count, width),
        /* The size decides, too, which servers a client asks: it must be that of the whole. */
        .content_size = info->element_count * width,
    };
    if (parameter.content == NULL) {
        (void)fprintf(stderr, "psctl: no memory for %s\n", control->argument);
        return EX_OSERR;
    }
    /* A client cuts what is larger than its split size: here everything or nothing. */
    struct psclient *client = NULL;
    struct psclient_error error = {0};
    int status = psctl_open(control, found->cut ? 1 : UINT64_MAX, &client, &error);
    if (status == PSCLIENT_OK)
        status = psclient_pull(client, &parameter, 1, control->options.timeout_ms, NULL, &error);
    if (status == PSCLIENT_OK)
        print_values(control, info, &parameter);
    else
        (void)fprintf(stderr, "psctl: get %s: %s\n", control->argument, error.text);
    /* NULL is allowed: the client may not have been opened. */
    psclient_close(client);
    ps_release(heap, parameter.content);
    return status == PSCLIENT_OK ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

/* Text: one value a line. JSON: {"name", "type", "version", "shape", "values": [...]}; values that
 * JSON cannot say (NaN, infinities) are null. */
static void print_values(const struct psctl *control, const struct psclient_param_info *info,
                         const struct psclient_parameter *parameter)
{
    enum ps_dtype dtype = (enum ps_dtype)info->type;
    if (!control->json) {
        /* No heading: the values go into another program as they are. */
        /* One a line, so that lines are counted as elements are. */
        for (uint64_t i = 0; i < info->element_count; i++) {
            char text[PSCTL_VALUE_TEXT_BYTES];
            psctl_value_text(dtype, parameter->content, i, text);
            (void)puts(text);
        }
        return;
    }
    /* A document, and not a row for each value: a number alone says neither its type nor its
     * version. */
    struct json_document head;
    json_document_init(&head);
    ps_json_begin_object(&head.json, NULL);
    ps_json_text(&head.json, "name", ps_bytes_of_text(parameter->name));
    ps_json_text(&head.json, "type", ps_bytes_of_text(ps_dtype_name(dtype)));
    /* The version is that of the values below: one pull brought both. */
    ps_json_uint(&head.json, "version", parameter->version);
    /* Of ranges that came without a shape the rows say their own lengths. */
    const struct ps_shape told = psctl_shape(info);
    const struct ps_shape shape = ps_shape_of_tensor(&told, info->element_count);
    ps_shape_json(&shape, info->element_count, &head.json, "shape");
    ps_json_begin_array(&head.json, "values");
    for (uint64_t i = 0; i < info->element_count; i++)
        psctl_value_json(&head.json, dtype, parameter->content, i);
    ps_json_end_array(&head.json);
    ps_json_end_object(&head.json);
    json_document_print(&head);
    json_document_fini(&head);
}

const struct psctl_command psctl_get = {
    .page = {.name = "get",
             .argument = "NAME",
             .summary = "a parameter's values",
             .text =
                 "One value a line; with --output json the name, type, version, shape and values.\n"
                 "One that was cut over the servers is put together.\n",
             .examples = "  psctl get linear/bias --etcd http://127.0.0.1:2379\n"},
    .run = get,
};
