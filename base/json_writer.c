/* SPDX-License-Identifier: Apache-2.0 */
/* JSON out (RFC 8259): commas, quotes and escapes in one place.
 *
 * The writer keeps one bit for each open container (object or array) and one for "something stands
 * here already", nothing else. Misuse (a key in an array, a missing end) is a bug of ours and
 * asserts; a full buffer is remembered by the buffer and asked for once at the end. */
#include "base/json_writer.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void begin_value(struct ps_json_writer *writer, const char *key);
static void begin_container(struct ps_json_writer *writer, const char *key, bool is_object);
static void end_container(struct ps_json_writer *writer, bool is_object);
static size_t plain_run(struct ps_bytes text);
static void append_special(struct ps_buffer *buffer, uint8_t byte);

/* A depth of 0 is the document itself: one value without a key may stand there. */
void ps_json_writer_init(struct ps_json_writer *writer, struct ps_buffer *buffer)
{
    PS_ASSERT(writer != NULL && buffer != NULL);
    *writer = (struct ps_json_writer){.buffer = buffer};
}

void ps_json_begin_object(struct ps_json_writer *writer, const char *key)
{
    begin_container(writer, key, true);
}

void ps_json_end_object(struct ps_json_writer *writer)
{
    end_container(writer, true);
}

void ps_json_begin_array(struct ps_json_writer *writer, const char *key)
{
    begin_container(writer, key, false);
}

void ps_json_end_array(struct ps_json_writer *writer)
{
    end_container(writer, false);
}

/* The values. Each takes a key that is NULL exactly where the surrounding container is an array or
 * there is none. */
void ps_json_text(struct ps_json_writer *writer, const char *key, struct ps_bytes text)
{
    begin_value(writer, key);
    ps_json_append_quoted(writer->buffer, text);
}

void ps_json_uint(struct ps_json_writer *writer, const char *key, uint64_t value)
{
    begin_value(writer, key);
    /* All 64 bits in digits: JSON sets no limit, but readers that keep numbers as doubles are exact
     * only up to 2^53. Documents for such readers write larger values as text. */
    ps_buffer_append_format(writer->buffer, "%" PRIu64, value);
}

void ps_json_int(struct ps_json_writer *writer, const char *key, int64_t value)
{
    begin_value(writer, key);
    ps_buffer_append_format(writer->buffer, "%" PRId64, value);
}

/* JSON has no infinities and no NaN. null is what most readers take for "no number", and a page
 * with one bad value stays readable as a whole. */
void ps_json_real(struct ps_json_writer *writer, const char *key, double value)
{
    begin_value(writer, key);
    if (!isfinite(value)) {
        ps_buffer_append_text(writer->buffer, "null");
        return;
    }
    /* The fewest of 15, 16 or 17 digits that read back as the same number: always 17 would print
     * 0.1 as 0.10000000000000001, which people then ask about. */
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            break;
    }
    ps_buffer_append_text(writer->buffer, text);
}

/* The words of JSON; other spellings of truth are not JSON. */
void ps_json_bool(struct ps_json_writer *writer, const char *key, bool value)
{
    begin_value(writer, key);
    ps_buffer_append_text(writer->buffer, value ? "true" : "false");
}

/* Writes all that stands in front of any value: the comma and, in an object, the key. Every public
 * function passes here, so the grammar is checked in one place: a key exactly within objects, and
 * one value alone at the top. */
static void begin_value(struct ps_json_writer *writer, const char *key)
{
    PS_ASSERT(writer != NULL);
    if (writer->depth == 0) {
        PS_ASSERT(key == NULL);
        return;
    }
    uint32_t level = writer->depth - 1;
    PS_ASSERT((key != NULL) == writer->in_object[level]);
    if (writer->not_first[level])
        ps_buffer_append_text(writer->buffer, ",");
    writer->not_first[level] = true;
    if (key == NULL)
        return;
    ps_json_append_quoted(writer->buffer, ps_bytes_of_text(key));
    ps_buffer_append_text(writer->buffer, ":");
}

/* A container is a value of the one around it, so the comma and key are written first, while the
 * outer level is still current. */
static void begin_container(struct ps_json_writer *writer, const char *key, bool is_object)
{
    begin_value(writer, key);
    /* Documents of ours have a fixed shape; no depth comes from input. */
    PS_ASSERT(writer->depth < PS_JSON_DEPTH_MAX);
    writer->in_object[writer->depth] = is_object;
    writer->not_first[writer->depth] = false;
    writer->depth++;
    ps_buffer_append_text(writer->buffer, is_object ? "{" : "[");
}

/* The kind is remembered when a container begins, so that "}" for a "[" aborts in the first test
 * that reaches it instead of reaching a reader. */
static void end_container(struct ps_json_writer *writer, bool is_object)
{
    PS_ASSERT(writer != NULL);
    PS_ASSERT(writer->depth > 0);
    writer->depth--;
    PS_ASSERT(writer->in_object[writer->depth] == is_object);
    ps_buffer_append_text(writer->buffer, is_object ? "}" : "]");
}

/* Runs that need no escape are appended as a whole: names and paths are nearly always one run. */
void ps_json_append_quoted(struct ps_buffer *buffer, struct ps_bytes text)
{
    ps_buffer_append_text(buffer, "\"");
    while (text.size > 0) {
        size_t run = plain_run(text);
        if (run > 0) {
            ps_buffer_append(buffer, (struct ps_bytes){text.data, run});
        } else {
            append_special(buffer, text.data[0]);
            run = 1;
        }
        text.data += run;
        text.size -= run;
    }
    ps_buffer_append_text(buffer, "\"");
}

/* How many bytes from the first on may stand between quotes as they are. The run ends before a byte
 * that is not the beginning of valid UTF-8, which append_special then replaces: names come from
 * clients, and one broken name must not make a whole status page unreadable. */
static size_t plain_run(struct ps_bytes text)
{
    size_t run = 0;
    while (run < text.size) {
        struct ps_bytes rest = {text.data + run, text.size - run};
        uint8_t byte = rest.data[0];
        if (byte < 0x20 || byte == '"' || byte == '\\')
            break;
        size_t length = ps_utf8_first(rest);
        if (length == 0)
            break;
        run += length;
    }
    return run;
}

/* The escapes that RFC 8259 demands (section 7): the quote, the backslash and everything below
 * 0x20. The slash and what lies beyond ASCII may be escaped but need not be, and stay readable this
 * way. */
static void append_special(struct ps_buffer *buffer, uint8_t byte)
{
    switch (byte) {
    case '"':
        ps_buffer_append_text(buffer, "\\\"");
        return;
    case '\\':
        ps_buffer_append_text(buffer, "\\\\");
        return;
    case '\n':
        ps_buffer_append_text(buffer, "\\n");
        return;
    case '\r':
        ps_buffer_append_text(buffer, "\\r");
        return;
    case '\t':
        ps_buffer_append_text(buffer, "\\t");
        return;
    default:
        break;
    }
    /* U+FFFD, the replacement character, stands for each byte that is not UTF-8. */
    if (byte < 0x20)
        ps_buffer_append_format(buffer, "\\u%04x", byte);
    else
        ps_buffer_append_text(buffer, "\xef\xbf\xbd");
}
