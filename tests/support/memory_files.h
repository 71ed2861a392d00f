/* SPDX-License-Identifier: Apache-2.0 */
/* A disk in memory that knows what is durable, for the simulator and for tests of what is left
 * after a crash.
 *
 * What was written but not synced, and what was created, renamed or removed in a folder that was
 * not synced afterwards, is in doubt: a crash keeps some of it and loses the rest, in any
 * combination that POSIX allows. Each sector of 512 bytes that was written is there or not,
 * whatever became of those before it; a sector that is lost holds the bytes of before, or zeros
 * where the file had none. A rename is atomic: it happened or it did not. Folders themselves are
 * durable as soon as they are made.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   as base/file.h says, and those that the test asked for.
 * Memory:   from the C library; a refused allocation aborts. Contents are borrowed until the next
 *           change.
 */
#ifndef PS_TESTS_SUPPORT_MEMORY_FILES_H
#define PS_TESTS_SUPPORT_MEMORY_FILES_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, word) */
#define MEMORY_FILES_OPERATIONS(X)       \
    X(MEMORY_OPEN, "open")               \
    X(MEMORY_WRITE, "write")             \
    X(MEMORY_READ, "read")               \
    X(MEMORY_SIZE, "size")               \
    X(MEMORY_SYNC, "sync")               \
    X(MEMORY_CLOSE, "close")             \
    X(MEMORY_RENAME, "rename")           \
    X(MEMORY_REMOVE, "remove")           \
    X(MEMORY_SYNC_FOLDER, "sync_folder") \
    X(MEMORY_MAKE_FOLDER, "make_folder") \
    X(MEMORY_LIST, "list")

#define MEMORY_FILES_ENUM(name, word) name,
enum memory_files_operation { MEMORY_FILES_OPERATIONS(MEMORY_FILES_ENUM) MEMORY_OPERATION_COUNT };
#undef MEMORY_FILES_ENUM

/* What becomes of everything in doubt. */
enum memory_crash {
    MEMORY_CRASH_SEEDED,    /* each doubtful thing by a coin of the disk's seed */
    MEMORY_CRASH_LOSES_ALL, /* only what was synced is left */
    MEMORY_CRASH_KEEPS_ALL, /* as if everything had been synced just before */
    MEMORY_CRASH_PROCESS    /* a process died, not the machine: all can be read and stays in doubt,
                             * and a file of which a sync failed is never durable any more */
};

/* Called before each operation with the path concerned (of an open file: the one it was opened
 * under). */
typedef void (*memory_files_observer_fn)(void *context, enum memory_files_operation operation,
                                         const char *path);

/* Knobs and counters; set them at any time. All zero but for `fail_*`, which start at -1. */
struct memory_files_knobs {
    int64_t fail_at;   /* 0-based number of the operation that fails (close never does); -1: none */
    int64_t fail_from; /* this one and all after it fail: the power is gone; -1: none */
    uint32_t fail_mask; /* only operations of these kinds, 1u << MEMORY_...; are numbered; 0: all */
    uint64_t bytes_max; /* the disk is full beyond; 0: no limit */
    /* A crash also spoils sectors that were being written: they hold neither the old nor the new
     * bytes, and what else was in them is gone. For files that are written in whole blocks. */
    bool spoils;
    memory_files_observer_fn observer; /* may be NULL */
    void *observer_context;            /* borrowed */

    int64_t seen; /* operations numbered so far */
    uint64_t count[MEMORY_OPERATION_COUNT];
    uint64_t bytes_written;
    uint64_t bytes_read;
    uint64_t bytes_forgotten;
};

struct memory_files;

/* An empty disk. Equal seeds and equal calls give equal crashes. */
struct memory_files *memory_files_create(uint64_t seed);
void memory_files_destroy(struct memory_files *disk);

/* The interface over this disk. Borrowed from it. */
const struct ps_files *memory_files_files(struct memory_files *disk);
struct memory_files_knobs *memory_files_knobs(struct memory_files *disk);

/* The machine stops and comes back: every open file is gone (its handle fails from now on), and
 * what was in doubt is decided. Knobs stay as they are. */
void memory_files_crash(struct memory_files *disk, enum memory_crash mode);

/* Puts a durable file at `path`, replacing one that is there; makes its folder. */
void memory_files_put(struct memory_files *disk, const char *path, struct ps_bytes content);

/* The present content of `path`. False when there is no such file. */
bool memory_files_get(const struct memory_files *disk, const char *path, struct ps_bytes *content);

/* Turns one bit of a file over, silently, as a bad disk does. `bit` counts from the first byte's
 * lowest bit and must lie within the file. */
void memory_files_flip(struct memory_files *disk, const char *path, uint64_t bit);

/* Files that exist, and open handles that nobody closed. */
size_t memory_files_file_count(const struct memory_files *disk);
size_t memory_files_open_count(const struct memory_files *disk);
/* The path of file `i`, in the order of their making. Borrowed until the next change. */
const char *memory_files_path(const struct memory_files *disk, size_t i);
/* Bytes in all files. */
uint64_t memory_files_bytes(const struct memory_files *disk);

/* "open", "write", ... Static. */
const char *memory_files_word(enum memory_files_operation operation);

#endif
