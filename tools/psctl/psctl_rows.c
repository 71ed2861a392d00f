/* SPDX-License-Identifier: Apache-2.0 */
/* psctl rows: rows of a table by their keys, and how many each server has.
 *
 * Whoever asks this looks for one key of very many, which some trainer says is wrong: so the server
 * that has it stands before the values. A key without a row is answered like any other, with what a
 * row begins with; asking creates none. */
#include "tools/psctl/psctl_commands.h"

#include "base/alloc.h"
#include "tools/json_document.h"
#include "tools/psctl/psctl_config.h"
#include "tools/psctl/psctl_values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* How many rows the servers have, as they are listed. */
struct count {
    struct json_document document;
    bool is_found;
};

static int count_rows(const struct psctl *control);
static void count_server(const struct psctl *control, uint32_t index,
                         const struct psclient_param_info *info,
                         const struct psclient_config *config, void *context);
static int read_rows(const struct psctl *control, const uint64_t *keys, size_t count);
static int print_rows(const struct psctl *control, struct psclient_table *table,
                      const uint64_t *keys, size_t count);
static void show_row(const struct psctl *control, const struct psclient_table *table, uint64_t key,
                     const uint8_t *row, struct ps_json_writer *json);

/* Decimal, or hexadecimal behind 0x: keys are often hashes. No sign and no blank, which strtoull
 * would take. */
static bool read_key(const char *word, uint64_t *key)
{
    char *end = NULL;
    /* Octal is nobody's idea of a key: a leading 0 alone changes nothing. */
    bool is_hex = word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    if (word[0] < '0' || word[0] > '9')
        return false;
    errno = 0;
    *key = strtoull(word, &end, is_hex ? 16 : 10);
    return *end == '\0' && errno == 0;
}

/* All words are read before a server is asked: a slip in the last one must not come after a table
 * of those before. */
static int rows(const struct psctl *control)
{
    /* The star is no key: it asks how many rows there are. */
    if (control->word_count == 2 && strcmp(control->words[1], "*") == 0)
        return count_rows(control);
    /* The first word is the name; at least one key follows, or the words were refused before. */
    size_t count = control->word_count - 1;
    uint64_t *keys = ps_zeroed_array(ps_allocator_heap(), count, sizeof *keys);
    int code = keys != NULL ? EXIT_SUCCESS : EX_OSERR;
    for (size_t i = 0; code == EXIT_SUCCESS && i < count; i++) {
        if (read_key(control->words[1 + i], &keys[i]))
            continue;
        (void)fprintf(stderr, "psctl: rows: %s is not a key of 64 bits\n", control->words[1 + i]);
        code = EX_USAGE;
    }
    if (code == EXIT_SUCCESS)
        code = read_rows(control, keys, count);
    ps_release(ps_allocator_heap(), keys);
    return code;
}

/* ---- Rows ---- */

/* A name that nobody has is wrong data. A parameter that is not a table, or a key that no server
 * has, is wrong usage: asking again changes nothing. The rest is of servers that do not answer, and
 * may be asked again. */
static int code_of(int status)
{
    if (status == PSCLIENT_NOT_FOUND)
        return EX_DATAERR;
    return status == PSCLIENT_INVALID ? EX_USAGE : EX_UNAVAILABLE;
}

/* The table is opened first: its width says how much room the rows take. */
static int read_rows(const struct psctl *control, const uint64_t *keys, size_t count)
{
    struct psclient_table *table = NULL;
    struct psclient_error error = {0};
    int status = psclient_table_open(control->client, control->argument,
                                     control->options.timeout_ms, &table, &error);
    if (status != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: rows %s: %s\n", control->argument, error.text);
        return code_of(status);
    }
    /* One table for all keys, whatever the number of servers. */
    int code = print_rows(control, table, keys, count);
    psclient_table_close(table);
    return code;
}

/* One question to each server that has any of the keys. */
static int print_rows(const struct psctl *control, struct psclient_table *table,
                      const uint64_t *keys, size_t count)
{
    struct psclient_error error = {0};
    size_t row_bytes = psclient_table_row_bytes(table);
    /* Zeroed, so that nothing but rows can ever be shown. */
    uint8_t *content = ps_zeroed_array(ps_allocator_heap(), count, row_bytes);
    if (content == NULL) {
        (void)fputs("psctl: no memory for the rows\n", stderr);
        return EX_OSERR;
    }
    /* Keys that come twice are shown twice, in the order in which they were typed. */
    int status =
        psclient_table_get(table, keys, count, content, control->options.timeout_ms, &error);
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_array(&document.json, NULL);
    /* Where one server fails no row is shown: those of the others would look like all. */
    if (status != PSCLIENT_OK)
        (void)fprintf(stderr, "psctl: rows %s: %s\n", control->argument, error.text);
    else if (!control->json)
        (void)printf("%-6s %20s  %s\n", "INDEX", "KEY", "VALUES");
    for (size_t i = 0; status == PSCLIENT_OK && i < count; i++)
        show_row(control, table, keys[i], content + i * row_bytes, &document.json);
    ps_json_end_array(&document.json);
    if (control->json && status == PSCLIENT_OK)
        json_document_print(&document);
    json_document_fini(&document);
    ps_release(ps_allocator_heap(), content);
    return status == PSCLIENT_OK ? EXIT_SUCCESS : code_of(status);
}

/* The key is told as a decimal number however it was typed, so that it can be searched for. */
static void show_row(const struct psctl *control, const struct psclient_table *table, uint64_t key,
                     const uint8_t *row, struct ps_json_writer *json)
{
    enum ps_dtype dtype = (enum ps_dtype)psclient_table_type(table);
    uint32_t index = psclient_table_shard(table, key);
    uint32_t width = psclient_table_width(table);
    if (!control->json) {
        /* One line for each key, whatever the width: lines are counted and searched. */
        /* The longest key has twenty digits. */
        (void)printf("%-6" PRIu32 " %20" PRIu64 " ", index, key);
        for (uint32_t i = 0; i < width; i++) {
            char text[PSCTL_VALUE_TEXT_BYTES];
            psctl_value_text(dtype, row, i, text);
            (void)printf(" %s", text);
        }
        (void)putchar('\n');
        return;
    }
    ps_json_begin_object(json, NULL);
    ps_json_uint(json, "index", index);
    ps_json_uint(json, "key", key);
    ps_json_begin_array(json, "values");
    for (uint32_t i = 0; i < width; i++)
        psctl_value_json(json, dtype, row, i);
    ps_json_end_array(json);
    ps_json_end_object(json);
}

/* ---- How many ---- */

/* Servers are listed as psctl params lists them: the elements of a table are rows times width. One
 * server with many more rows than the others has keys that were partitioned badly, or is asked by a
 * trainer that partitions otherwise. */
static int count_rows(const struct psctl *control)
{
    struct count count = {.is_found = false};
    const struct psctl_visit visit = {.visit = count_server, .context = &count, .configs = true};
    /* A server that does not answer leaves a hole, which the exit status says. */
    json_document_init(&count.document);
    ps_json_begin_array(&count.document.json, NULL);
    if (!control->json)
        (void)printf("%-6s %16s\n", "INDEX", "ROWS");
    /* Every parameter is passed by, since a server lists all. */
    int code = psctl_visit_params(control, &visit);
    ps_json_end_array(&count.document.json);
    if (control->json)
        json_document_print(&count.document);
    json_document_fini(&count.document);
    if (code == EXIT_SUCCESS && !count.is_found)
        code = psctl_no_such_param(control->argument);
    return code;
}

/* A parameter of that name that is not a table has no rows, and is passed over: in the end the name
 * does not exist. */
static void count_server(const struct psctl *control, uint32_t index,
                         const struct psclient_param_info *info,
                         const struct psclient_config *config, void *context)
{
    struct count *count = context;
    struct ps_optimizer_config settings;
    if (strcmp(info->name, control->argument) != 0 ||
        psctl_read_config(config, &settings) != EXIT_SUCCESS || settings.table.width == 0)
        return;
    /* A count of the moment: pushes go on meanwhile. */
    uint64_t found = info->element_count / settings.table.width;
    count->is_found = true;
    /* A row for each server, also of one that has none: that is what is looked for. */
    if (!control->json) {
        (void)printf("%-6" PRIu32 " %16" PRIu64 "\n", index, found);
        return;
    }
    ps_json_begin_object(&count->document.json, NULL);
    ps_json_uint(&count->document.json, "index", index);
    ps_json_uint(&count->document.json, "rows", found);
    ps_json_end_object(&count->document.json);
}

const struct psctl_command psctl_rows = {
    .page = {.name = "rows",
             .argument = "NAME KEY...",
             .summary = "rows of a table by their keys",
             .text =
                 "Of each key the server that has it and its row. A key is a number of 64 bits,\n"
                 "decimal or behind 0x. One that has no row is shown with what a row begins\n"
                 "with, and gets none by that. With '*' for a key: how many rows each server\n"
                 "has.\n",
             .examples = "  psctl rows emb 17 0xcbf29ce484222325 --etcd http://127.0.0.1:2379\n"
                         "  psctl rows emb '*' --servers 127.0.0.1:8000\n"},
    .run = rows,
};
