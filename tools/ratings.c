/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing ratings. The lines are counted first, so that nothing grows while it is read. */
#include "tools/ratings.h"

#include "base/assert.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)4 << 30)

static enum ps_status parse_lines(struct ps_ratings *ratings, const char *text, const char *end,
                                  const char *name, struct ps_error *error);
static bool parse_line(const char *line, const char *end, struct ps_rating *rating);
static bool parse_number(const char **cursor, uint64_t *number);
static bool skip_separator(const char **cursor);
static double mean_of(const struct ps_ratings *ratings);

/* Ratings that were never loaded have no allocator. */
void ps_ratings_fini(struct ps_ratings *ratings)
{
    if (ratings->memory != NULL)
        ps_release(ratings->memory, ratings->list);
    *ratings = (struct ps_ratings){.memory = NULL};
}

/* The text of the file is released as soon as the ratings are there. */
enum ps_status ps_ratings_load(const char *path, const struct ps_allocator *memory,
                               struct ps_ratings *ratings, struct ps_error *error)
{
    /* With a NUL behind it, at which every number ends. */
    uint8_t *text = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(ps_files_real(), path, FILE_BYTES_MAX, memory, &text, &size, error));
    enum ps_status status =
        ps_ratings_parse(path, (const char *)text, size, memory, ratings, error);
    ps_release(memory, text);
    return status;
}

/* Separate from the file, so that tests can hand over a text. A heading and blank lines make the
 * list a little longer than it has to be. */
enum ps_status ps_ratings_parse(const char *name, const char *text, size_t size,
                                const struct ps_allocator *memory, struct ps_ratings *ratings,
                                struct ps_error *error)
{
    PS_ASSERT(text[size] == '\0');
    *ratings = (struct ps_ratings){.memory = memory};
    size_t lines = 1;
    /* Bytes are counted fast beside the parsing. */
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    ratings->list = ps_zeroed_array(memory, lines, sizeof *ratings->list);
    if (ratings->list == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory for %zu ratings", name, lines);
    enum ps_status status = parse_lines(ratings, text, text + size, name, error);
    if (status == PS_OK)
        ratings->mean = mean_of(ratings);
    else
        ps_ratings_fini(ratings);
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A heading is told from a mistake by its place and its letter. */
static bool is_heading(const char *line, size_t line_number)
{
    return line_number == 1 && ((*line >= 'a' && *line <= 'z') || (*line >= 'A' && *line <= 'Z'));
}

/* Blank lines are passed over; a file without a rating teaches nothing. */
static enum ps_status parse_lines(struct ps_ratings *ratings, const char *text, const char *end,
                                  const char *name, struct ps_error *error)
{
    size_t line_number = 0;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        line_number++;
        /* Blanks before a rating mean nothing; a line of blanks alone is an empty one. */
        while (line < line_end && is_blank(*line))
            line++;
        if (line < line_end && !is_heading(line, line_number)) {
            if (!parse_line(line, line_end, &ratings->list[ratings->count]))
                return ps_fail(error, PS_ERR_BAD_INPUT,
                               "%s:%zu: expected \"user item rating\", with tabs, commas or \"::\" "
                               "between them",
                               name, line_number);
            ratings->count++;
        }
        /* One past the end behind the last line. */
        line = line_end + 1;
    }
    /* Said here and not by a division by zero in the mean. */
    if (ratings->count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: no ratings", name);
    return PS_OK;
}

/* What follows a separator behind the rating is not looked at. */
static bool parse_line(const char *line, const char *end, struct ps_rating *rating)
{
    const char *cursor = line;
    if (!parse_number(&cursor, &rating->user) || !skip_separator(&cursor) ||
        !parse_number(&cursor, &rating->item) || !skip_separator(&cursor))
        return false;
    /* strtod would skip the line's end and take the number behind it. */
    if (cursor >= end || (!is_digit(*cursor) && *cursor != '-' && *cursor != '.'))
        return false;
    /* Dot and minus, but no blank, no "inf" and no hexadecimal number. */
    char *after = NULL;
    double value = strtod(cursor, &after);
    /* What is too large for a float is infinite now, and refused below. */
    rating->value = (float)value;
    return after > cursor && after <= end && isfinite(rating->value) &&
           (after == end || is_blank(*after) || *after == ',' || *after == ':');
}

/* Digits alone: strtoull would take blanks and a sign. */
static bool parse_number(const char **cursor, uint64_t *number)
{
    char *after = NULL;
    if (!is_digit(**cursor))
        return false;
    /* A number beyond 64 bits is told by errno alone. */
    errno = 0;
    unsigned long long value = strtoull(*cursor, &after, 10);
    *cursor = after;
    *number = value;
    return errno == 0 && value >> PS_RATING_NUMBER_BITS == 0;
}

/* Blanks alone, or one comma or "::" with blanks around it: an empty column is a mistake. */
static bool skip_separator(const char **cursor)
{
    /* Something has to stand between two numbers. */
    const char *start = *cursor;
    while (is_blank(**cursor))
        ++*cursor;
    if (**cursor == ',')
        ++*cursor;
    else if (strncmp(*cursor, "::", 2) == 0)
        *cursor += 2;
    while (is_blank(**cursor))
        ++*cursor;
    return *cursor > start;
}

/* Summed in double and in the order of the file: every process that trains has the same mean,
 * and the model is what is learnt beside it. */
static double mean_of(const struct ps_ratings *ratings)
{
    double sum = 0;
    for (size_t i = 0; i < ratings->count; i++)
        sum += (double)ratings->list[i].value;
    return sum / (double)ratings->count;
}
