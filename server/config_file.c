/* SPDX-License-Identifier: Apache-2.0 */
/* Builds libcyaml's schema from the option table, lets it read the file, and turns what it found,
 * or what it says, into options and sentences. So an option that is added to the table can stand in
 * the file without a line here; and what the library says in its own words never reaches an
 * operator. */
#include "server/config_file.h"

#include "base/assert.h"
#include "base/options_value.h"

#include <cyaml/cyaml.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far above any real configuration: a name that leads to a log or a device must not fill the
 * memory. */
#define FILE_BYTES_MAX (1024 * 1024)

/* What libcyaml says while it reads: the first complaint and the line that it names. */
struct complaint {
    char text[160];
    unsigned long line;
    bool more_documents;
};

static enum ps_status parse(struct ps_config_file *file, const struct ps_option_set *set,
                            struct ps_bytes text, const char *path, struct ps_error *error);
static enum ps_status apply(const struct ps_config_file *file, const struct ps_option_set *set,
                            void *values, const char *text, const char *path,
                            struct ps_error *error);
static enum ps_status explain(const struct complaint *complaint, cyaml_err_t failure,
                              const struct ps_option_set *set, const char *text, const char *path,
                              struct ps_error *error);
static unsigned long line_of(const char *text, const char *name);

/* The real files and the heap; tests have others. */
enum ps_status ps_config_file_init(struct ps_config_file *file, const struct ps_option_set *set,
                                   void *values, const char *path, struct ps_error *error)
{
    return ps_config_file_read(file, ps_files_real(), ps_allocator_heap(), set, values, path,
                               error);
}

/* The content is given back at once; the texts that options point to are the library's copies,
 * which live until fini. */
enum ps_status ps_config_file_read(struct ps_config_file *file, const struct ps_files *files,
                                   const struct ps_allocator *memory,
                                   const struct ps_option_set *set, void *values, const char *path,
                                   struct ps_error *error)
{
    PS_ASSERT(file != NULL && set != NULL && values != NULL && path != NULL);
    *file = (struct ps_config_file){.memory = memory};
    uint8_t *content = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(files, path, FILE_BYTES_MAX, memory, &content, &size, error));
    enum ps_status status = parse(file, set, (struct ps_bytes){content, size}, path, error);
    if (status == PS_OK)
        status = apply(file, set, values, (const char *)content, path, error);
    /* Errors about values look for their line in the content, which therefore goes last. */
    ps_release(memory, content);
    if (status != PS_OK)
        ps_config_file_fini(file);
    return status;
}

/* libcyaml wants one function that gives, changes and takes back; the size of a piece stands in
 * front of it, aligned for anything. The library's interface has no size for what it gives back,
 * and our allocator has no way to change one. */
static void *change_memory(void *context, void *pointer, size_t size)
{
    PS_ASSERT(context != NULL);
    enum { FRONT = 16 };
    const struct ps_allocator *memory = context;
    uint8_t *old = pointer != NULL ? (uint8_t *)pointer - FRONT : NULL;
    if (size == 0) {
        ps_release(memory, old);
        return NULL;
    }
    /* A fresh piece even where it shrinks: an allocator in a test sees each. */
    uint8_t *piece = size < SIZE_MAX - FRONT ? ps_plain(memory, size + FRONT) : NULL;
    if (piece == NULL)
        return NULL;
    memcpy(piece, &size, sizeof size);
    if (old != NULL) {
        size_t old_size = 0;
        memcpy(&old_size, old, sizeof old_size);
        memcpy(piece + FRONT, old + FRONT, old_size < size ? old_size : size);
        ps_release(memory, old);
    }
    return piece + FRONT;
}

/* libcyaml's log. A line number stands in the backtrace, as "(line: 3, column: 1)". */
__attribute__((format(printf, 3, 0))) static void hear(cyaml_log_t level, void *context,
                                                       const char *format, va_list arguments)
{
    (void)level;
    struct complaint *complaint = context;
    char text[sizeof complaint->text];
    (void)vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    const char *line = strstr(text, "(line: ");
    /* The library's words are all there is, since it has no code for these. Tests of the sentences
     * notice when a new version has other words. */
    if (strncmp(text, "Ignoring documents", strlen("Ignoring documents")) == 0)
        complaint->more_documents = true;
    else if (line != NULL && complaint->line == 0)
        complaint->line = strtoul(line + strlen("(line: "), NULL, 10);
    else if (complaint->text[0] == '\0' && strstr(text, "Backtrace") == NULL)
        memcpy(complaint->text, text, sizeof text);
}

/* Aliases are refused: a file of a few lines could make gigabytes of them. */
static cyaml_config_t config_of(const struct ps_allocator *memory, struct complaint *complaint)
{
    return (cyaml_config_t){.log_fn = hear,
                            .log_ctx = complaint,
                            .mem_fn = change_memory,
                            .mem_ctx = (void *)(uintptr_t)memory, /* never written through */
                            .log_level = CYAML_LOG_WARNING,
                            .flags = CYAML_CFG_NO_ALIAS};
}

/* One optional text for each option, in an array of pointers; a row without a key ends them.
 * Everything is text to the library; what a number or a duration is, the option table decides, in
 * the same way for the command line. */
static cyaml_schema_field_t *create_fields(const struct ps_allocator *memory,
                                           const struct ps_option_set *set)
{
    PS_ASSERT(set->option_count > 0);
    cyaml_schema_field_t *fields = ps_zeroed_array(memory, set->option_count + 1, sizeof *fields);
    for (size_t i = 0; fields != NULL && i < set->option_count; i++) {
        fields[i].key = set->options[i].name;
        fields[i].data_offset = (uint32_t)(i * sizeof(char *));
        fields[i].value.type = CYAML_STRING;
        fields[i].value.flags = (enum cyaml_flag)(CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL);
        fields[i].value.data_size = sizeof(char);
        fields[i].value.string.max = FILE_BYTES_MAX;
    }
    return fields;
}

/* The file as a whole is one mapping. */
static cyaml_schema_value_t mapping_of(const cyaml_schema_field_t *fields, size_t count)
{
    return (cyaml_schema_value_t){.type = CYAML_MAPPING,
                                  .flags = CYAML_FLAG_POINTER,
                                  .data_size = (uint32_t)(count * sizeof(char *)),
                                  .mapping = {.fields = fields}};
}

/* What was read is owned by the file also after a failure, so that fini gives it back. */
static enum ps_status parse(struct ps_config_file *file, const struct ps_option_set *set,
                            struct ps_bytes text, const char *path, struct ps_error *error)
{
    PS_ASSERT(file->texts == NULL);
    cyaml_schema_field_t *fields = create_fields(file->memory, set);
    if (fields == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    cyaml_schema_value_t schema = mapping_of(fields, set->option_count);
    struct complaint complaint = {.line = 0};
    cyaml_config_t config = config_of(file->memory, &complaint);
    cyaml_data_t *data = NULL;
    cyaml_err_t failure = cyaml_load_data(text.data, text.size, &config, &schema, &data, NULL);
    ps_release(file->memory, fields);
    file->texts = (char **)data; /* NULL for a file without any option */
    file->text_count = data != NULL ? set->option_count : 0;
    if (failure == CYAML_OK && !complaint.more_documents)
        return PS_OK;
    return explain(&complaint, failure, set, (const char *)text.data, path, error);
}

/* In the table's order. The values may be half set after a failure, and the program ends then.
 * Values go the way of flags, so the same check refuses them in the same words. */
static enum ps_status apply(const struct ps_config_file *file, const struct ps_option_set *set,
                            void *values, const char *text, const char *path,
                            struct ps_error *error)
{
    PS_ASSERT(file->text_count <= set->option_count);
    for (size_t i = 0; i < file->text_count; i++) {
        /* "option:" with nothing behind it is an option that somebody means to fill in later. */
        if (file->texts[i] == NULL || file->texts[i][0] == '\0')
            continue;
        const char *name = set->options[i].name;
        struct ps_error reason;
        enum ps_status status = ps_options_set(set, values, name, file->texts[i], &reason);
        if (status != PS_OK)
            return ps_fail(error, status, "%s:%lu: %s", path, line_of(text, name), reason.text);
    }
    return PS_OK;
}

/* A sentence for people out of what libcyaml said. Each of the library's ways to fail becomes one
 * sentence with the file and the line, in the words that the command line uses for the same
 * mistake. */
static enum ps_status explain(const struct complaint *complaint, cyaml_err_t failure,
                              const struct ps_option_set *set, const char *text, const char *path,
                              struct ps_error *error)
{
    PS_ASSERT(failure != CYAML_OK || complaint->more_documents);
    static const char unexpected[] = "Load: Unexpected key: ";
    if (failure == CYAML_ERR_OOM)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    if (failure == CYAML_OK)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: more than one document", path);
    /* A name that is not an option: the nearest one is offered, as on the command line. */
    if (strncmp(complaint->text, unexpected, sizeof unexpected - 1) == 0) {
        const char *name = complaint->text + sizeof unexpected - 1;
        struct ps_error reason;
        (void)ps_option_unknown(set, "", name, &reason);
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s:%lu: %s", path, line_of(text, name),
                       reason.text);
    }
    const char *what = complaint->text;
    if (strncmp(what, "Load: ", strlen("Load: ")) == 0)
        what += strlen("Load: ");
    if (what[0] == '\0')
        what = cyaml_strerror(failure);
    if (complaint->line > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s:%lu: %s", path, complaint->line, what);
    return ps_fail(error, PS_ERR_BAD_INPUT, "%s: %s (expected lines of \"option: value\")", path,
                   what);
}

/* The first line, from 1, that begins with `name`; libcyaml does not keep it. 1 when there is none,
 * which only odd spellings of the mapping can bring about. For errors about values, which the
 * library hands over without their place. */
static unsigned long line_of(const char *text, const char *name)
{
    size_t size = strlen(name);
    unsigned long line = 1;
    while (text != NULL && *text != '\0') {
        /* Spellings of a key that YAML allows. */
        const char *start = text + strspn(text, " \"'{");
        if (strncmp(start, name, size) == 0 && strchr(" \"':", start[size]) != NULL)
            return line;
        text = strchr(text, '\n');
        if (text == NULL)
            break;
        text++;
        line++;
    }
    return 1;
}

/* Accepts a file that was never read. */
void ps_config_file_fini(struct ps_config_file *file)
{
    if (file == NULL || file->memory == NULL)
        return;
    /* Freed here and not by the library, which would want schema and configuration again. */
    for (size_t i = 0; i < file->text_count; i++) {
        if (file->texts[i] != NULL)
            (void)change_memory((void *)(uintptr_t)file->memory, file->texts[i], 0);
    }
    if (file->texts != NULL)
        (void)change_memory((void *)(uintptr_t)file->memory, file->texts, 0);
    *file = (struct ps_config_file){0};
}
