/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all commands of psckpt: exit codes, complaints, text that stays on its line.
 * Everything here is about what leaves the program: a status for scripts, a sentence for people,
 * text that a terminal shows safely. */
#include "tools/psckpt/psckpt_commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Scripts tell by these statuses (sysexits.h) whether trying again may help: 69 and 71 pass, 65 and
 * 66 do not. A status that is not listed comes from the file system. */
static int exit_code(enum ps_status status)
{
    switch (status) {
    case PS_OK:
        return EXIT_SUCCESS;
    case PS_ERR_CORRUPT:
    case PS_ERR_UNSUPPORTED:
        return EX_DATAERR;
    case PS_ERR_BAD_INPUT:
    case PS_ERR_OUT_OF_RANGE:
        return EX_USAGE;
    case PS_ERR_NO_MEMORY:
    case PS_ERR_BUSY:
        return EX_OSERR;
    case PS_ERR_EXISTS:
        return EX_CANTCREAT;
    case PS_ERR_UNAVAILABLE:
    case PS_ERR_TIMEOUT:
    case PS_ERR_UNAUTHENTICATED:
    case PS_ERR_DENIED:
        return EX_UNAVAILABLE;
    case PS_ERR_INTERNAL:
        return EX_SOFTWARE;
    default:
        return EX_NOINPUT;
    }
}

/* One sentence on one line: whoever wrote the error has put the names into it. */
int psckpt_complain(enum ps_status status, const struct ps_error *error)
{
    (void)fprintf(stderr, "psckpt: %s\n", error->text);
    return exit_code(status);
}

/* An empty --out, as an unset shell variable gives it, would put the new data folder into the root
 * of the file system. */
enum ps_status psckpt_check_out(const struct psckpt *tool, struct ps_error *error)
{
    if (tool->options.out == NULL || tool->options.out[0] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "where to? --out NEWDIR is missing");
    return PS_OK;
}

/* Servers may run with another working directory than psckpt, so a relative path in a published
 * pointer would lead nowhere, or to another folder of that name. Symbolic links are resolved for
 * the same reason. */
enum ps_status psckpt_from_root(const char *path, char *full, size_t size, struct ps_error *error)
{
    char found[PATH_MAX];
    if (realpath(path, found) == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "%.200s: %.40s", path, strerror(errno));
    if (strlen(found) >= size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", found);
    memcpy(full, found, strlen(found) + 1);
    return PS_OK;
}

/* All commands ask the same store in the same way: --etcd goes before the folder, since a data
 * folder copied from elsewhere may still hold the store of another job. */
struct published_options psckpt_store_wish(const struct psckpt *tool, const char *folder)
{
    return (struct published_options){.etcd = tool->options.etcd,
                                      .folder = folder,
                                      .access = tool->options.etcd_access,
                                      .timeout_ms = tool->options.timeout_ms};
}

/* Names of parameters and clients come from outside and may hold any byte. A newline in one would
 * forge a row, an escape sequence could do worse to a terminal; bytes of UTF-8 pass, so that names
 * stay readable. */
int psckpt_print_text(struct ps_bytes text)
{
    int columns = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        bool control = byte < 0x20 || byte == 0x7f;
        columns += control ? printf("\\x%02x", byte) : printf("%c", byte);
    }
    return columns;
}
