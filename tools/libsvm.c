/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing LIBSVM files: one pass to count, one to fill. The first pass counts lines and colons,
 * which bounds rows and features from above; the second fills arrays of exactly that size. So
 * nothing grows while it is read, and a file of gigabytes takes the memory of its content. Numbers
 * are read by strtod, which stops at the first byte that does not belong to one; the text ends in a
 * NUL, so it never runs past the end. */
#include "tools/libsvm.h"

#include "base/assert.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)4 << 30)
/* A typing error in one index must not ask for a model of that size. */
#define FEATURES_MAX ((unsigned long)1 << 30)

static enum ps_status count_and_reserve(struct ps_dataset *dataset, const char *text,
                                        const char *end, const char *name, struct ps_error *error);
static enum ps_status parse_rows(struct ps_dataset *dataset, const char *text, const char *end,
                                 const char *name, struct ps_error *error);
static bool parse_row(struct ps_dataset *dataset, const char *line, const char *end);
static bool parse_feature(struct ps_dataset *dataset, const char **cursor, size_t entry,
                          unsigned long *previous);
static const char *skip_blanks(const char *text, const char *end);

/* A data set that was never loaded has no allocator. All four arrays are released whatever is
 * missing, since NULL is accepted. */
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

/* The file is read whole, since parsing goes over it twice, and its text is released as soon as the
 * rows are there. */
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

/* Separate from the file, so that tests and other sources can hand over a text. */
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

/* Every ':' is at most one feature and every line at most one row, so the arrays are never too
 * small; blank lines make them a little too large. The loop is over bytes, which is fast beside the
 * parsing. */
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

/* The message names the line, as a compiler would: data sets are made by scripts, and the script is
 * what has to be corrected. Blank lines are allowed, an empty file is not. The cursor always moves
 * to the byte behind the newline, or one past the end after the last line. */
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

/* A row counts only when all of it was right: row_count is raised last. A label is any number;
 * which class it means is decided over the whole set (linear_model.c). The entries of a row are
 * written before its end is known to be right; the next row writes over them when it was not. */
static bool parse_row(struct ps_dataset *dataset, const char *line, const char *end)
{
    size_t row = dataset->row_count;
    size_t entry = dataset->starts[row];
    char *after = NULL;
    double label = strtod(line, &after);
    /* strtod skips a newline before a number and would take the label of the following row. */
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

/* Indices rise strictly within a row, as the format says; a row in another order usually comes from
 * a script that has the columns wrong. Values may be any finite number: an infinity would make
 * every later loss one. The cursor stands behind the value afterwards, so the next call begins
 * there. */
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
    /* From here on features are counted from 0. */
    dataset->features[entry] = (uint32_t)(index - 1);
    dataset->values[entry] = (float)value;
    if (index > dataset->feature_count)
        /* The largest index seen, not the number of different ones: models are as wide as that. */
        dataset->feature_count = index;
    *previous = index;
    *cursor = after;
    return true;
}

/* A carriage return counts as blank: files come from Windows, too. Tabs separate features in files
 * of some programs. */
static const char *skip_blanks(const char *text, const char *end)
{
    while (text < end && (*text == ' ' || *text == '\t' || *text == '\r'))
        text++;
    return text;
}
