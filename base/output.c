/* Printing has worked only when the last byte is out. */
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
    return code == EXIT_SUCCESS ? EX_IOERR : code;
}
