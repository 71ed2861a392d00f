/* psctl's questions about parameters: params, get. */
#include "tools/psctl_commands.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "tools/json_document.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ROWS_AT_ONCE 256

/* Called once per parameter; `context` is the caller's. */
typedef void (*visit_fn)(const struct psctl *control, uint32_t index,
                         const struct psclient_param_info *info, void *context);

/* What `get` found out about a name. */
struct found {
    struct psclient_param_info info; /* element_count over all ranges */
    bool whole;
    bool cut;
};

static int visit_params(const struct psctl *control, uint32_t index,
                        struct psclient_param_info *rows, visit_fn visit, void *context);
static void show_param(const struct psctl *control, uint32_t index,
                       const struct psclient_param_info *info, void *context);
static void look_at_param(const struct psctl *control, uint32_t index,
                          const struct psclient_param_info *info, void *context);
static void param_row(const struct psclient_param_info *info, uint32_t index);
static void param_json(struct ps_json_writer *json, const struct psclient_param_info *info,
                       uint32_t index);
static int find_param(const struct psctl *control, struct found *found);
static int pull_and_print(const struct psctl *control, const struct found *found);
static void print_values(const struct psctl *control, const struct psclient_param_info *info,
                         const struct psclient_parameter *parameter);

int psctl_params(const struct psctl *control)
{
    struct psclient_param_info *rows =
        ps_zeroed_array(ps_allocator_heap(), ROWS_AT_ONCE, sizeof *rows);
    if (rows == NULL)
        return EX_OSERR;
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %-40s %-5s %14s %12s %-10s %12s %14s\n", "INDEX", "NAME", "TYPE",
                     "ELEMENTS", "VERSION", "RULE", "RATE", "STATE_BYTES");
    int code = EXIT_SUCCESS;
    for (uint32_t i = 0; i < psclient_shard_count(control->client); i++) {
        int result = visit_params(control, i, rows, show_param, &document);
        code = result != EXIT_SUCCESS ? result : code;
    }
    ps_json_end_array(&document.json);
    if (control->json)
        json_document_print(&document);
    json_document_fini(&document);
    ps_release(ps_allocator_heap(), rows);
    return code;
}

/* Calls `visit` for every parameter of one server, in the order of their names. */
static int visit_params(const struct psctl *control, uint32_t index,
                        struct psclient_param_info *rows, visit_fn visit, void *context)
{
    char after[sizeof rows[0].name] = "";
    int more = 1;
    while (more) {
        size_t count = 0;
        struct psclient_error error = {0};
        int status =
            psclient_list(control->client, index, after[0] ? after : NULL, rows, ROWS_AT_ONCE,
                          &count, &more, control->options.timeout_ms, &error);
        if (status != PSCLIENT_OK) {
            (void)fprintf(stderr, "psctl: server %" PRIu32 " does not list its parameters: %s\n",
                          index, error.text);
            return EX_UNAVAILABLE;
        }
        for (size_t i = 0; i < count; i++)
            visit(control, index, &rows[i], context);
        if (count == 0)
            break;
        memcpy(after, rows[count - 1].name, sizeof after);
    }
    return EXIT_SUCCESS;
}

static void show_param(const struct psctl *control, uint32_t index,
                       const struct psclient_param_info *info, void *context)
{
    struct json_document *document = context;
    if (control->json)
        param_json(&document->json, info, index);
    else
        param_row(info, index);
}

/* A row is one line, and no name steers a terminal. */
static void param_row(const struct psclient_param_info *info, uint32_t index)
{
    char name[sizeof info->name];
    memcpy(name, info->name, sizeof name);
    for (char *letter = name; *letter != '\0'; letter++)
        *letter = iscntrl((unsigned char)*letter) ? '?' : *letter;
    (void)printf("%-6" PRIu32 " %-40s %-5s %14" PRIu64 " %12" PRIu64 " %-10s %12g %14" PRIu64 "\n",
                 index, name, ps_dtype_name((enum ps_dtype)info->type), info->element_count,
                 info->version, info->rule, info->learning_rate, info->state_bytes);
}

static void param_json(struct ps_json_writer *json, const struct psclient_param_info *info,
                       uint32_t index)
{
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_text(json, "name", ps_bytes_of_text(info->name));
    ps_json_text(json, "type", ps_bytes_of_text(ps_dtype_name((enum ps_dtype)info->type)));
    ps_json_uint(json, "element_count", info->element_count);
    ps_json_uint(json, "version", info->version);
    ps_json_text(json, "rule", ps_bytes_of_text(info->rule));
    ps_json_real(json, "learning_rate", info->learning_rate);
    ps_json_uint(json, "state_bytes", info->state_bytes);
    ps_json_end_object(json);
}

int psctl_get(const struct psctl *control)
{
    struct found found = {.info = {.element_count = 0}};
    int code = find_param(control, &found);
    if (code != EXIT_SUCCESS)
        return code;
    if (!found.whole && !found.cut) {
        (void)fprintf(stderr, "psctl: parameter: %s does not exist\n", control->argument);
        return EX_DATAERR;
    }
    return pull_and_print(control, &found);
}

/* Asks every server: any may hold it, whole or cut into ranges (docs/wire.md). */
static int find_param(const struct psctl *control, struct found *found)
{
    struct psclient_param_info *rows =
        ps_zeroed_array(ps_allocator_heap(), ROWS_AT_ONCE, sizeof *rows);
    if (rows == NULL)
        return EX_OSERR;
    int code = EXIT_SUCCESS;
    for (uint32_t i = 0; i < psclient_shard_count(control->client) && code == EXIT_SUCCESS; i++)
        code = visit_params(control, i, rows, look_at_param, found);
    ps_release(ps_allocator_heap(), rows);
    return code;
}

static void look_at_param(const struct psctl *control, uint32_t index,
                          const struct psclient_param_info *info, void *context)
{
    (void)index;
    struct found *found = context;
    size_t length = strlen(control->argument);
    if (strncmp(info->name, control->argument, length) != 0)
        return;
    bool whole = info->name[length] == '\0';
    bool range = info->name[length] == '#' && strchr(info->name + length, '/') != NULL;
    if (!whole && !range)
        return;
    uint64_t elements = found->info.element_count + info->element_count;
    found->info = *info;
    found->info.element_count = elements;
    found->whole |= whole;
    found->cut |= range;
}

static int pull_and_print(const struct psctl *control, const struct found *found)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct psclient_param_info *info = &found->info;
    size_t width = ps_dtype_size((enum ps_dtype)info->type);
    struct psclient_parameter parameter = {
        .name = control->argument,
        .type = info->type,
        .content = ps_zeroed_array(heap, info->element_count, width),
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
    psclient_close(client);
    ps_release(heap, parameter.content);
    return status == PSCLIENT_OK ? EXIT_SUCCESS : EX_UNAVAILABLE;
}

static void print_number(enum psclient_type type, const void *content, uint64_t i)
{
    switch (type) {
    case PSCLIENT_INT32:
        (void)printf("%" PRId32, ((const int32_t *)content)[i]);
        return;
    case PSCLIENT_UINT32:
        (void)printf("%" PRIu32, ((const uint32_t *)content)[i]);
        return;
    case PSCLIENT_INT64:
        (void)printf("%" PRId64, ((const int64_t *)content)[i]);
        return;
    case PSCLIENT_UINT64:
        (void)printf("%" PRIu64, ((const uint64_t *)content)[i]);
        return;
    case PSCLIENT_FLOAT32:
        (void)printf("%.9g", (double)((const float *)content)[i]);
        return;
    case PSCLIENT_FLOAT64:
        (void)printf("%.17g", ((const double *)content)[i]);
        return;
    }
}

/* Text: one value a line. JSON: {"name", "type", "version", "values": [...]}; values that JSON
 * cannot say (NaN, infinities) are null. */
static void print_values(const struct psctl *control, const struct psclient_param_info *info,
                         const struct psclient_parameter *parameter)
{
    if (!control->json) {
        for (uint64_t i = 0; i < info->element_count; i++) {
            print_number(info->type, parameter->content, i);
            (void)putchar('\n');
        }
        return;
    }
    struct json_document head;
    json_document_init(&head);
    ps_json_begin_object(&head.json, NULL);
    ps_json_text(&head.json, "name", ps_bytes_of_text(parameter->name));
    ps_json_text(&head.json, "type", ps_bytes_of_text(ps_dtype_name((enum ps_dtype)info->type)));
    ps_json_uint(&head.json, "version", parameter->version);
    ps_json_begin_array(&head.json, "values");
    for (uint64_t i = 0; i < info->element_count; i++) {
        switch (info->type) {
        case PSCLIENT_INT32:
            ps_json_int(&head.json, NULL, ((const int32_t *)parameter->content)[i]);
            break;
        case PSCLIENT_UINT32:
            ps_json_uint(&head.json, NULL, ((const uint32_t *)parameter->content)[i]);
            break;
        case PSCLIENT_INT64:
            ps_json_int(&head.json, NULL, ((const int64_t *)parameter->content)[i]);
            break;
        case PSCLIENT_UINT64:
            ps_json_uint(&head.json, NULL, ((const uint64_t *)parameter->content)[i]);
            break;
        case PSCLIENT_FLOAT32:
            ps_json_real(&head.json, NULL, (double)((const float *)parameter->content)[i]);
            break;
        case PSCLIENT_FLOAT64:
            ps_json_real(&head.json, NULL, ((const double *)parameter->content)[i]);
            break;
        }
    }
    ps_json_end_array(&head.json);
    ps_json_end_object(&head.json);
    json_document_print(&head);
    json_document_fini(&head);
}
