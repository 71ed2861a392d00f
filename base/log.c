/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a log line on the stack and hands it to the kernel in one write(2), so that lines of
 * several threads never mix and logging allocates nothing: a process that is out of memory can
 * still say so.
 *
 * A field that does not fit ends the line early, with a mark, so that a line is always whole in its
 * format: half a JSON object would be dropped by whoever collects the lines, and with it the
 * message. */
#include "base/log.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/json_writer.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX 4096
/* Kept free while fields are added, for what ends a line: the mark that it was cut (',"cut":true'),
 * the brace, the newline. */
#define TAIL_BYTES 24
/* No message or component is longer; a longer one is cut. */
#define WORDS_BYTES_MAX 256

struct line {
    struct ps_buffer buffer;
    char text[LINE_BYTES_MAX + 1];
    enum ps_log_format format;
    bool cut;
};

static const char *const level_words[] = {"debug", "info", "warn", "error"};
static const char *const level_labels[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};

static void begin_line(struct line *line, const struct ps_log *log, enum ps_log_level level,
                       const char *component, const char *message);
static void append_field(struct line *line, const struct ps_field *field);
static void end_line(struct line *line, int descriptor);

void ps_log_write(const struct ps_log *log, enum ps_log_level level, const char *component,
                  const char *message, const struct ps_field *fields, size_t field_count)
{
    /* Filtered before anything is formatted: debug lines on the serving path then cost one
     * comparison. */
    if (log == NULL || level < log->level)
        return;
    PS_ASSERT(level <= PS_LOG_ERROR);
    PS_ASSERT(component != NULL && message != NULL);
    /* Four KiB of stack, known to fit in the smallest stack that any thread here is given. */
    struct line line;
    begin_line(&line, log, level, component, message);
    for (size_t i = 0; i < field_count && !line.cut; i++)
        append_field(&line, &fields[i]);
    end_line(&line, log->descriptor);
}

/* RFC 3339 in UTC with milliseconds: lines of machines in different places sort as text. */
static void append_time(struct ps_buffer *buffer, uint64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / 1000000000);
    unsigned milliseconds = (unsigned)(unix_ns % 1000000000 / 1000000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    ps_buffer_append_format(buffer, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", parts.tm_year + 1900,
                            parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                            parts.tm_sec, milliseconds);
}

/* Words of ours as they are; a control character would break the line in two. */
static void append_words(struct ps_buffer *buffer, const char *words)
{
    struct ps_bytes bytes = ps_bytes_of_text(words);
    size_t size = ps_utf8_cut(bytes, WORDS_BYTES_MAX);
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = bytes.data[i] < 0x20 ? ' ' : bytes.data[i];
        ps_buffer_append(buffer, (struct ps_bytes){&byte, 1});
    }
}

/* Cut first and quoted second, so that no cut ever falls within an escape. */
static void append_json_words(struct ps_buffer *buffer, const char *words)
{
    struct ps_bytes bytes = ps_bytes_of_text(words);
    bytes.size = ps_utf8_cut(bytes, WORDS_BYTES_MAX);
    ps_json_append_quoted(buffer, bytes);
}

/* Time, level, component, message: fixed parts, all bounded, which together are far shorter than a
 * line. Only fields can overflow it. */
static void begin_line(struct line *line, const struct ps_log *log, enum ps_log_level level,
                       const char *component, const char *message)
{
    struct ps_buffer *buffer = &line->buffer;
    /* The array has room for the tail beyond this bound; end_line raises the bound to use that
     * room. */
    ps_buffer_init_fixed(buffer, line->text, LINE_BYTES_MAX - TAIL_BYTES);
    line->format = log->format;
    line->cut = false;
    bool json = log->format == PS_LOG_JSON;
    if (json)
        ps_buffer_append_text(buffer, "{\"ts\":\"");
    append_time(buffer, ps_unix_ns(log->clock));
    if (!json) {
        ps_buffer_append_format(buffer, " %s ", level_labels[level]);
        append_words(buffer, component);
        ps_buffer_append_text(buffer, " ");
        append_words(buffer, message);
        return;
    }
    ps_buffer_append_format(buffer, "\",\"level\":\"%s\",\"component\":", level_words[level]);
    append_json_words(buffer, component);
    ps_buffer_append_text(buffer, ",\"msg\":");
    append_json_words(buffer, message);
}

/* A value that could be taken for something else in a text line stands in quotes. Bytes from 0x7f
 * on are quoted as well: a terminal may read them as control sequences, and quoting replaces what
 * is not UTF-8. */
static bool needs_quotes(struct ps_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte <= ' ' || byte >= 0x7f || byte == '"' || byte == '=' || byte == '\\')
            return true;
    }
    return text.size == 0;
}

/* Appends one field in either format, in full or (when the buffer says so) not at all. `text` is
 * the field's text, perhaps already shortened by append_field; numbers take it from the field
 * itself. */
static void append_whole_field(struct line *line, const struct ps_field *field,
                               struct ps_bytes text)
{
    struct ps_buffer *buffer = &line->buffer;
    bool json = line->format == PS_LOG_JSON;
    if (json) {
        ps_buffer_append_text(buffer, ",");
        ps_json_append_quoted(buffer, ps_bytes_of_text(field->key));
        ps_buffer_append_text(buffer, ":");
    } else {
        ps_buffer_append_format(buffer, " %s=", field->key);
    }
    switch (field->type) {
    case PS_FIELD_TYPE_TEXT:
        if (json || needs_quotes(text))
            ps_json_append_quoted(buffer, text);
        else
            ps_buffer_append(buffer, text);
        return;
    case PS_FIELD_TYPE_INT:
        ps_buffer_append_format(buffer, "%" PRId64, field->integer);
        return;
    case PS_FIELD_TYPE_UINT:
        ps_buffer_append_format(buffer, "%" PRIu64, field->natural);
        return;
    }
    PS_ASSERT(false && "a field has one of the three types");
}

/* Appends the field. A text that does not fit is halved until it does, and ends the line: half a
 * path still helps, and later fields without it would be read as if nothing were missing. At most
 * twelve turns, since a line has 4,096 bytes. A text is cut between characters only. */
static void append_field(struct line *line, const struct ps_field *field)
{
    PS_ASSERT(field->key != NULL);
    size_t mark = line->buffer.size;
    struct ps_bytes text = {NULL, 0};
    if (field->type == PS_FIELD_TYPE_TEXT)
        text = ps_bytes_of_text(field->text);
    append_whole_field(line, field, text);
    line->cut = line->buffer.failed;
    while (line->buffer.failed) {
        ps_buffer_rewind(&line->buffer, mark);
        if (text.size == 0)
            return;
        text.size = ps_utf8_cut(text, text.size / 2);
        append_whole_field(line, field, text);
    }
}

static void end_line(struct line *line, int descriptor)
{
    struct ps_buffer *buffer = &line->buffer;
    /* From here on the bytes kept back for the tail may be used, so the tail always fits; the
     * assert below would otherwise fire on the longest line. */
    buffer->size_max = LINE_BYTES_MAX;
    buffer->capacity = sizeof line->text;
    bool json = line->format == PS_LOG_JSON;
    if (line->cut)
        ps_buffer_append_text(buffer, json ? ",\"cut\":true" : " cut=true");
    ps_buffer_append_text(buffer, json ? "}\n" : "\n");
    PS_ASSERT(!buffer->failed);
    /* A line that cannot be written is lost: there is nowhere to say so. */
    ssize_t wrote = write(descriptor, buffer->text, buffer->size);
    while (wrote < 0 && errno == EINTR)
        wrote = write(descriptor, buffer->text, buffer->size);
}

/* The words are those of the JSON format, so a level can be copied from a line into the options. */
bool ps_log_level_from_text(const char *text, enum ps_log_level *level)
{
    PS_ASSERT(text != NULL && level != NULL);
    for (size_t i = 0; i < PS_ARRAY_COUNT(level_words); i++) {
        if (strcmp(level_words[i], text) != 0)
            continue;
        *level = (enum ps_log_level)i;
        return true;
    }
    return false;
}
