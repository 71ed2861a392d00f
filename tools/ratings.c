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

/* A line while it is read: what it was that could not be read is said of it. */
struct line {
    const char *at, *end;
    const char *column; /* that is read; static */
    char separator;     /* behind the column that was read last; ' ' for blanks */
};

static enum ps_status parse_lines(struct ps_ratings *ratings, const char *text, const char *end,
                                  const char *name, struct ps_error *error);
static enum ps_status refuse(const struct line *line, const char *name, size_t line_number,
                             struct ps_error *error);
static bool parse_line(struct line *line, struct ps_rating *rating);
static bool parse_value(struct line *line, float *value);
static bool end_quote(const struct line *line, const char **after);
static bool parse_number(struct line *line, uint64_t *number);
static bool is_separator(char c);
static bool skip_separator(struct line *line);
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

/* A heading is told from a mistake by its place and its letter, which may stand in quotes; "#" is
 * how numpy writes one. */
static bool is_heading(const char *line, size_t line_number)
{
    line += *line == '"';
    return line_number == 1 &&
           (*line == '#' || (*line >= 'a' && *line <= 'z') || (*line >= 'A' && *line <= 'Z'));
}

/* Programs of Windows begin their files with it. */
static const char *skip_byte_order_mark(const char *text, const char *end)
{
    return end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

/* Blank lines are passed over; a file without a rating teaches nothing. */
static enum ps_status parse_lines(struct ps_ratings *ratings, const char *text, const char *end,
                                  const char *name, struct ps_error *error)
{
    size_t line_number = 0;
    for (const char *line = skip_byte_order_mark(text, end); line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        line_number++;
        /* Blanks before a rating mean nothing; a line of blanks alone is an empty one. */
        while (line < line_end && is_blank(*line))
            line++;
        if (line < line_end && !is_heading(line, line_number)) {
            struct line read = {.at = line, .end = line_end};
            if (!parse_line(&read, &ratings->list[ratings->count]))
                return refuse(&read, name, line_number, error);
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

/* What stands where the reader has stopped, up to the end of the column: of the first one it is not
 * known how it ends. */
static enum ps_status refuse(const struct line *line, const char *name, size_t line_number,
                             struct ps_error *error)
{
    const char ends[] = {' ', '\t', '\r', '\n', line->separator, '\0'};
    size_t size = strcspn(line->at, line->separator != '\0' ? ends : ",;: \t\r\n");
    PS_ASSERT(line->at <= line->end && line->column != NULL);
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%s:%zu: %s \"%.*s\": lines are user, item and rating, with tabs, blanks, "
                   "commas, semicolons or \"::\" between them; users and items are numbers below "
                   "2^63",
                   name, line_number, line->column, (int)(size < 24 ? size : 24), line->at);
}

/* What follows a separator behind the rating is not looked at. */
static bool parse_line(struct line *line, struct ps_rating *rating)
{
    line->column = "user";
    if (!parse_number(line, &rating->user))
        return false;
    /* A separator that is not there is a column that is not there. */
    line->column = "item";
    if (!skip_separator(line) || !parse_number(line, &rating->item))
        return false;
    line->column = "rating";
    return skip_separator(line) && parse_value(line, &rating->value);
}

/* A comma behind the rating of a line whose columns are apart by something else is the decimal
 * comma of other countries: half a star would be lost without a word. */
static bool parse_value(struct line *line, float *value)
{
    const char *at = line->at + (*line->at == '"');
    char *after = NULL;
    /* strtod would skip the line's end and take the number behind it. */
    if (at >= line->end || (!is_digit(*at) && *at != '-' && *at != '.'))
        return false;
    /* Dot and minus, but no blank, no "inf" and no hexadecimal number. */
    double number = strtod(at, &after);
    /* What is too large for a float is infinite now, and refused below. */
    *value = (float)number;
    if (after <= at || !isfinite(*value) || !end_quote(line, (const char **)&after))
        return false;
    return after == line->end || (after < line->end && is_blank(*after)) ||
           (after < line->end && *after == line->separator);
}

/* A column that begins with a quote ends with one. */
static bool end_quote(const struct line *line, const char **after)
{
    if (*line->at != '"')
        return true;
    return *(*after)++ == '"';
}

/* Digits alone: strtoull would take blanks and a sign. The reader stays where it is when it is no
 * number. */
static bool parse_number(struct line *line, uint64_t *number)
{
    const char *at = line->at + (*line->at == '"');
    char *after = NULL;
    if (!is_digit(*at))
        return false;
    /* A number beyond 64 bits is told by errno alone. */
    errno = 0;
    unsigned long long value = strtoull(at, &after, 10);
    if (errno != 0 || value >> PS_RATING_NUMBER_BITS != 0 ||
        !end_quote(line, (const char **)&after) || !is_separator(*after))
        return false;
    line->at = after;
    *number = value;
    return true;
}

/* Or the end of the line. */
static bool is_separator(char c)
{
    return is_blank(c) || c == ',' || c == ';' || c == ':' || c == '\n' || c == '\0';
}

/* Blanks alone, or one comma, semicolon or "::" with blanks around it: an empty column is a
 * mistake. */
static bool skip_separator(struct line *line)
{
    /* Something has to stand between two numbers. */
    const char *start = line->at;
    while (is_blank(*line->at))
        line->at++;
    line->separator = *line->at == ',' || *line->at == ';' ? *line->at : ' ';
    if (line->separator != ' ')
        line->at++;
    else if (strncmp(line->at, "::", 2) == 0) {
        line->separator = ':';
        line->at += 2;
    }
    while (is_blank(*line->at))
        line->at++;
    return line->at > start;
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
