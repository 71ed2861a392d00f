/* SPDX-License-Identifier: Apache-2.0 */
/* One table per program says every option once; flags, environment, configuration file, --help
 * and the man page all come from it. Order of precedence: flag, environment, file, default.
 *
 *     static const struct ps_option table[] = {
 *         {.name = "listen", .type = PS_OPTION_TEXT, .value_name = "HOST:PORT",
 *          .fallback = "0.0.0.0:8000", .help = "Address to serve gRPC on.", .offset = ...},
 *     };
 *
 * Threads:  one thread, at start.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with a sentence that names the option, the value and what is allowed.
 * Memory:   text values point into argv, the environment, the file's text or the table; all must
 *           outlive the parsed struct.
 */
#ifndef PS_BASE_OPTIONS_H
#define PS_BASE_OPTIONS_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_option_type {
    PS_OPTION_TEXT,     /* const char * */
    PS_OPTION_FLAG,     /* bool: --name, --no-name, name=true|false (also yes, no, 1, 0) */
    PS_OPTION_UINT,     /* uint64_t, decimal */
    PS_OPTION_REAL,     /* double, finite */
    PS_OPTION_DURATION, /* uint64_t milliseconds: "500ms", "10s", "10", "5m", "2h" (quantity.h) */
    PS_OPTION_BYTES,    /* uint64_t: "4096", "64KiB", "2Gi", "2GB", "2G" (quantity.h) */
    PS_OPTION_CHOICE    /* const char *, one of `choices` */
};

struct ps_option {
    const char *name; /* without dashes: "data-dir" */
    enum ps_option_type type;
    const char *value_name; /* shown in help: "DIR" */
    const char *fallback;   /* default, in the same spelling; NULL: zero, or NULL for text */
    const char *choices;    /* PS_OPTION_CHOICE: "memory|logged" */
    const char *help;       /* one sentence, or more */
    size_t offset;          /* offsetof the field in the program's struct */
    bool secret;            /* a password: ps_options_print hides it */
};

struct ps_option_set {
    const char *program;     /* "pserver" */
    const char *usage;       /* "pserver [--option VALUE]..." */
    const char *summary;     /* what the program does, one sentence */
    const char *commands;    /* lines for --help: what the first word may be; may be NULL */
    const char *statuses;    /* lines for --help: what exit statuses mean; may be NULL */
    const char *examples;    /* lines for --help; may be NULL */
    const char *environment; /* prefix of environment names: "PSERVER_"; NULL: none */
    const struct ps_option *options;
    size_t option_count;
};

/* Sets every option of `values` to its default. */
PS_MUST_USE enum ps_status ps_options_defaults(const struct ps_option_set *set, void *values,
                                               struct ps_error *error);

/* Sets one option from text, as a configuration file does. PS_ERR_NOT_FOUND for an unknown name
 * (the text names the nearest one). */
PS_MUST_USE enum ps_status ps_options_set(const struct ps_option_set *set, void *values,
                                          const char *name, const char *text,
                                          struct ps_error *error);

/* Sets options from the environment: "data-dir" is PREFIX + "DATA_DIR". An empty variable counts
 * as unset. Variables that no option knows are left alone: other software uses the prefix too
 * (Kubernetes sets PSERVER_SERVICE_HOST next to a service of that name). */
PS_MUST_USE enum ps_status ps_options_environment(const struct ps_option_set *set, void *values,
                                                  struct ps_error *error);

/* Is `variable` ("NAME=VALUE", as in environ) no option, but nearly one? Then the text says which
 * is meant: a variable that is misspelt would do nothing, silently. */
bool ps_options_misspelt(const struct ps_option_set *set, const char *variable,
                         struct ps_error *error);

/* Sets options from "--name VALUE", "--name=VALUE" and "--flag"; "-h" is "--help". Words that are
 * not options are moved to the front of argv (after argv[0]); `*word_count` says how many. "--"
 * ends options. A value never begins with "--" unless it follows "=". May be called again on the
 * same argv, so that the flags win over a file that they name. */
PS_MUST_USE enum ps_status ps_options_arguments(const struct ps_option_set *set, void *values,
                                                int argc, char **argv, int *word_count,
                                                struct ps_error *error);

/* Appends every option with its value as YAML, one "name: value" a line, which a configuration file
 * may hold again. Texts that are not set and secrets stand in comments. */
void ps_options_print(const struct ps_option_set *set, const void *values, struct ps_buffer *text);

/* Appends the text of --help. */
void ps_options_help(const struct ps_option_set *set, struct ps_buffer *text);

/* Appends a man page (roff, section 1). */
void ps_options_man(const struct ps_option_set *set, struct ps_buffer *text);

#endif
