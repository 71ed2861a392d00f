/* SPDX-License-Identifier: Apache-2.0 */
/* A few lines of text, replaced as a whole by a rename: a crash in between leaves the old record or
 * the new one. Text, so that a person can read it and remove it, which is how a card is used again.
 * */
#include "server/device_record.h"

#include "base/assert.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one failure's text that is kept. */
#define TEXT_BYTES 200

struct failure {
    uint64_t unix_seconds;
    char text[TEXT_BYTES];
};

struct record {
    struct failure failures[PS_DEVICE_FAILURES_MAX]; /* the newest last */
    size_t count;
};

static enum ps_status make_path(const char *folder, const char *uuid, const char *ending,
                                char path[PATH_MAX], struct ps_error *error);
static void read_record(const struct ps_files *files, const char *path, struct record *record);
static void read_line(const char *line, size_t size, struct record *record);
static void add(struct record *record, uint64_t unix_seconds, const char *text, size_t text_size);
static enum ps_status write_record(const struct ps_files *files, const char *path,
                                   const struct record *record, struct ps_error *error);

/* A record that could not be read is begun anew: the failure that just happened counts more than
 * old ones. */
enum ps_status ps_device_record_add(const struct ps_files *files, const char *folder,
                                    const char *uuid, uint64_t unix_seconds, const char *text,
                                    struct ps_error *error)
{
    PS_ASSERT(text != NULL);
    char path[PATH_MAX];
    char fresh[PATH_MAX];
    struct record record;
    PS_TRY(make_path(folder, uuid, "failures", path, error));
    PS_TRY(make_path(folder, uuid, "failures.tmp", fresh, error));
    read_record(files, path, &record);
    add(&record, unix_seconds, text, strlen(text));
    /* Left by a crash in the middle of this. */
    (void)files->remove(files->self, fresh, NULL);
    PS_TRY(write_record(files, fresh, &record, error));
    PS_TRY(files->rename(files->self, fresh, path, error));
    /* The rename itself is durable only when the folder is. */
    return files->sync_folder(files->self, folder, error);
}

/* Only failures that follow each other closely make a device bad: one a month is what hardware
 * does. A clock that was set back makes no verdict. */
enum ps_status ps_device_record_check(const struct ps_files *files, const char *folder,
                                      const char *uuid, struct ps_error *error)
{
    char path[PATH_MAX];
    struct record record;
    PS_TRY(make_path(folder, uuid, "failures", path, error));
    read_record(files, path, &record);
    if (record.count < PS_DEVICE_FAILURES_MAX)
        return PS_OK;
    PS_ASSERT(record.count == PS_DEVICE_FAILURES_MAX);
    const struct failure *first = &record.failures[0];
    const struct failure *last = &record.failures[PS_DEVICE_FAILURES_MAX - 1];
    /* A clock that was set back between two failures gives no span to judge by. */
    if (last->unix_seconds < first->unix_seconds ||
        last->unix_seconds - first->unix_seconds > PS_DEVICE_FAILURES_SECONDS)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNAVAILABLE,
                   "%.48s failed %d times within %d s: to use it again remove %s (%s)", uuid,
                   PS_DEVICE_FAILURES_MAX, PS_DEVICE_FAILURES_SECONDS, path, last->text);
}

/* A uuid comes from the driver and not from people, so a slash in it is a bug of ours. */
static enum ps_status make_path(const char *folder, const char *uuid, const char *ending,
                                char path[PATH_MAX], struct ps_error *error)
{
    PS_ASSERT(strchr(uuid, '/') == NULL);
    int length = snprintf(path, PATH_MAX, "%s/device-%s.%s", folder, uuid, ending);
    if (length < 0 || length >= PATH_MAX)
        return ps_fail(error, PS_ERR_IO, "the data directory's name is too long");
    return PS_OK;
}

/* A file that is longer than we write it was written by somebody else: its first lines are read. */
static void read_record(const struct ps_files *files, const char *path, struct record *record)
{
    PS_ASSERT(record != NULL);
    char text[PS_DEVICE_FAILURES_MAX * (TEXT_BYTES + 24)];
    struct ps_file file;
    size_t size = 0;
    *record = (struct record){0};
    /* No file is the usual case: a card that never failed. */
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) != PS_OK)
        return;
    if (files->read(files->self, file, 0, text, sizeof text, &size, NULL) != PS_OK)
        size = 0;
    files->close(files->self, file);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        read_line(text + at, length, record);
        at += length + 1;
    }
}

/* Lines that do not begin with a number and a space are none of ours. Written by a person, perhaps:
 * what does not look like a line of ours is left out. */
static void read_line(const char *line, size_t size, struct record *record)
{
    uint64_t unix_seconds = 0;
    size_t digits = 0;
    /* Nineteen digits always fit into 64 bits, so the number cannot overflow. */
    for (; digits < size && digits < 19 && line[digits] >= '0' && line[digits] <= '9'; digits++)
        unix_seconds = unix_seconds * 10 + (uint64_t)(line[digits] - '0');
    if (digits == 0 || digits == size || line[digits] != ' ')
        return;
    add(record, unix_seconds, line + digits + 1, size - digits - 1);
}

/* The oldest goes when there are more than a verdict needs. */
static void add(struct record *record, uint64_t unix_seconds, const char *text, size_t text_size)
{
    PS_ASSERT(record->count <= PS_DEVICE_FAILURES_MAX);
    struct failure *failures = record->failures;
    if (record->count == PS_DEVICE_FAILURES_MAX) {
        memmove(&failures[0], &failures[1], (PS_DEVICE_FAILURES_MAX - 1) * sizeof failures[0]);
        record->count--;
    }
    struct failure *fresh = &failures[record->count++];
    fresh->unix_seconds = unix_seconds;
    int width = text_size < TEXT_BYTES ? (int)text_size : TEXT_BYTES - 1;
    (void)snprintf(fresh->text, sizeof fresh->text, "%.*s", width, text);
    /* One line for each failure. */
    fresh->text[strcspn(fresh->text, "\n")] = '\0';
}

/* Synced before the rename, or the new name could come to an empty file after a power loss. */
static enum ps_status write_record(const struct ps_files *files, const char *path,
                                   const struct record *record, struct ps_error *error)
{
    struct ps_file file;
    enum ps_status status = PS_OK;
    PS_TRY(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, error));
    for (size_t i = 0; status == PS_OK && i < record->count; i++) {
        char line[TEXT_BYTES + 24];
        int size = snprintf(line, sizeof line, "%" PRIu64 " %s\n", record->failures[i].unix_seconds,
                            record->failures[i].text);
        PS_ASSERT(size > 0 && (size_t)size < sizeof line);
        status = files->write(files->self, file,
                              (struct ps_bytes){(const uint8_t *)line, (size_t)size}, error);
    }
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    files->close(files->self, file);
    return status;
}
