/* SPDX-License-Identifier: Apache-2.0 */
/* One structured line per event: text for people, JSON for machines.
 *
 *     PS_LOG(log, PS_LOG_INFO, "checkpoint", "checkpoint saved",
 *            PS_FIELD_TEXT("path", path), PS_FIELD_UINT("bytes", size));
 *
 * Threads:  a log may be used from any thread; lines never mix.
 * Blocking: a line is one write(2) to the log's descriptor.
 * Errors:   none; a line that cannot be written is lost.
 * Memory:   a line is built on the stack and cut at 4 KiB; nothing is kept.
 */
#ifndef PS_BASE_LOG_H
#define PS_BASE_LOG_H

#include "base/clock.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_log_level { PS_LOG_DEBUG, PS_LOG_INFO, PS_LOG_WARN, PS_LOG_ERROR };

enum ps_log_format { PS_LOG_TEXT, PS_LOG_JSON };

enum ps_field_type { PS_FIELD_TYPE_TEXT, PS_FIELD_TYPE_INT, PS_FIELD_TYPE_UINT };

/* One key and its value. Keys are snake_case, with units last: bytes, duration_ms. */
struct ps_field {
    const char *key;
    enum ps_field_type type;
    const char *text; /* PS_FIELD_TYPE_TEXT; NULL prints as empty */
    int64_t integer;
    uint64_t natural;
};

#define PS_FIELD_TEXT(key_, value_) \
    ((struct ps_field){.key = (key_), .type = PS_FIELD_TYPE_TEXT, .text = (value_)})
#define PS_FIELD_INT(key_, value_) \
    ((struct ps_field){.key = (key_), .type = PS_FIELD_TYPE_INT, .integer = (value_)})
#define PS_FIELD_UINT(key_, value_) \
    ((struct ps_field){.key = (key_), .type = PS_FIELD_TYPE_UINT, .natural = (value_)})
/* Two fields: the status word and the text of an error that a call filled in. */
#define PS_FIELD_ERROR(error_)                                 \
    PS_FIELD_TEXT("status", ps_status_word((error_)->status)), \
        PS_FIELD_TEXT("error", (error_)->text)

/* Where lines go. Filled in by main (or a test) and handed down as a pointer. */
struct ps_log {
    const struct ps_clock *clock; /* borrowed; outlives this */
    int descriptor;               /* 2 is standard error */
    enum ps_log_level level;      /* lines below are dropped */
    enum ps_log_format format;
};

/* Writes one line. `log` may be NULL: then nothing happens. `message` is a short lower-case
 * phrase that stays the same for the same event; what varies goes into fields. */
void ps_log_write(const struct ps_log *log, enum ps_log_level level, const char *component,
                  const char *message, const struct ps_field *fields, size_t field_count);

#define PS_LOG(log, level, component, message, ...)                                              \
    ps_log_write((log), (level), (component), (message), (const struct ps_field[]){__VA_ARGS__}, \
                 sizeof((const struct ps_field[]){__VA_ARGS__}) / sizeof(struct ps_field))

/* The same without fields. */
#define PS_LOG0(log, level, component, message) \
    ps_log_write((log), (level), (component), (message), NULL, 0)

/* "debug", "info", "warn", "error" to a level. False for another word. */
bool ps_log_level_from_text(const char *text, enum ps_log_level *level);

#endif
