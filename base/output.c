/* SPDX-License-Identifier: Apache-2.0 */
/* Printing has worked only when the last byte is out. stdout is buffered, so a full disk or a
 * closed pipe shows at the flush and not at the printf: without this check "psctl status > file"
 * would report success for a truncated file. */
#include "base/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

int ps_output_end(const char *program, int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return code;
    (void)fprintf(stderr, "%s: standard output: %s\n", program,
                  errno != 0 ? strerror(errno) : "not everything was written");
    /* An earlier failure is the more interesting of the two. */
    return code == EXIT_SUCCESS ? EX_IOERR : code;
}
