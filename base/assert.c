/* SPDX-License-Identifier: Apache-2.0 */
/* The last words of a process whose invariant broke. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void ps_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "assertion failed: %s at %s:%d\n", condition, file, line);
    abort();
}
