/* Parsing LIBSVM files: one pass to count, one to fill. */
#include "tools/libsvm.h"

#include "base/assert.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)4 << 30)
#define FEATURES_MAX ((unsigned long)1 << 30)

static enum ps_status count_and_reserve(struct ps_dataset *dataset, const char *text,
                                        const char *end, const char *name, struct ps_error *error);
static enum ps_status parse_rows(struct ps_dataset *dataset, const char *text, const char *end,
                                 const char *name, struct ps_error *error);
static bool parse_row(struct ps_dataset *dataset, const char *line, const char *end);
static bool parse_feature(struct ps_dataset *dataset, const char **cursor, size_t entry,
                          unsigned long *previous);
static const char *skip_blanks(const char *text, const char *end);

void ps_dataset_fini(struct ps_dataset *dataset)
{
    if (dataset->memory == NULL)
        return;
    ps_release(dataset->memory, dataset->labels);
    ps_release(dataset->memory, dataset->starts);
    ps_release(dataset->memory, dataset->features);
    ps_release(dataset->memory, dataset->values);
    *dataset = (struct ps_dataset){0};
}

enum ps_status ps_dataset_load(const char *path, const struct ps_allocator *memory,
                               struct ps_dataset *dataset, struct ps_error *error)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(ps_files_real(), path, FILE_BYTES_MAX, memory, &text, &size, error));
    enum ps_status status =
        ps_dataset_parse(path, (const char *)text, size, memory, dataset, error);
    ps_release(memory, text);
    return status;
}

enum ps_status ps_dataset_parse(const char *name, const char *text, size_t size,
                                const struct ps_allocator *memory, struct ps_dataset *dataset,
                                struct ps_error *error)
{
    PS_ASSERT(text[size] == '\0');
    *dataset = (struct ps_dataset){.memory = memory};
    enum ps_status status = count_and_reserve(dataset, text, text + size, name, error);
    if (status == PS_OK)
        status = parse_rows(dataset, text, text + size, name, error);
    if (status != PS_OK)
        ps_dataset_fini(dataset);
    return status;
}

/* Every ':' is at most one feature and every line at most one row. */
static enum ps_status count_and_reserve(struct ps_dataset *dataset, const char *text,
                                        const char *end, const char *name, struct ps_error *error)
{
    size_t lines = 1;
    size_t features = 0;
    for (const char *c = text; c < end; c++) {
        lines += *c == '\n';
        features += *c == ':';
    }
    const struct ps_allocator *memory = dataset->memory;
    dataset->labels = ps_zeroed_array(memory, lines, sizeof *dataset->labels);
    dataset->starts = ps_zeroed_array(memory, lines + 1, sizeof *dataset->starts);
    dataset->features = ps_zeroed_array(memory, features, sizeof *dataset->features);
    dataset->values = ps_zeroed_array(memory, features, sizeof *dataset->values);
    if (dataset->labels == NULL || dataset->starts == NULL || dataset->features == NULL ||
        dataset->values == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory for %zu rows", name, lines);
    return PS_OK;
}

static enum ps_status parse_rows(struct ps_dataset *dataset, const char *text, const char *end,
                                 const char *name, struct ps_error *error)
{
    size_t line_number = 0;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        line_number++;
        bool blank = skip_blanks(line, line_end) == line_end;
        if (!blank && !parse_row(dataset, line, line_end))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "%s:%zu: expected \"label index:value ...\" with rising indices from 1",
                           name, line_number);
        line = line_end + 1;
    }
    if (dataset->row_count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: no rows", name);
    return PS_OK;
}

static bool parse_row(struct ps_dataset *dataset, const char *line, const char *end)
{
    size_t row = dataset->row_count;
    size_t entry = dataset->starts[row];
    char *after = NULL;
    double label = strtod(line, &after);
    if (after == line || after > end || !isfinite(label))
        return false;
    unsigned long previous = 0;
    const char *cursor = skip_blanks(after, end);
    while (cursor < end) {
        if (!parse_feature(dataset, &cursor, entry, &previous) || cursor > end)
            return false;
        entry++;
        cursor = skip_blanks(cursor, end);
    }
    dataset->labels[row] = label;
    dataset->starts[row + 1] = entry;
    dataset->row_count = row + 1;
    return true;
}

static bool parse_feature(struct ps_dataset *dataset, const char **cursor, size_t entry,
                          unsigned long *previous)
{
    char *after = NULL;
    errno = 0;
    unsigned long index = strtoul(*cursor, &after, 10);
    if (after == *cursor || *after != ':' || errno != 0)
        return false;
    if (index <= *previous || index > FEATURES_MAX)
        return false;
    const char *number = after + 1;
    double value = strtod(number, &after);
    if (after == number || !isfinite(value))
        return false;
    dataset->features[entry] = (uint32_t)(index - 1);
    dataset->values[entry] = (float)value;
    if (index > dataset->feature_count)
        dataset->feature_count = index;
    *previous = index;
    *cursor = after;
    return true;
}

static const char *skip_blanks(const char *text, const char *end)
{
    while (text < end && (*text == ' ' || *text == '\t' || *text == '\r'))
        text++;
    return text;
}
