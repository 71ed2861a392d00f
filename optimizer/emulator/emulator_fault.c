/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that come when a test wants them: the runtime above cannot tell them from a card's, and
 * neither can a server that is started with the emulator. */
#include "optimizer/emulator/emulator.h"

#include "optimizer/device/fault.h"

#include <stdlib.h>
#include <string.h>

/* A word that is none of the three arms nothing: the tests that set the variable look for the
 * fault. */
void ps_emulator_fault_read(struct ps_emulator_fault *fault)
{
    const char *text = getenv("PS_EMULATOR_FAIL");
    if (text == NULL)
        return;
    char *end = NULL;
    /* The same numbers as ps_emulator_arm takes: a server in a test cannot be called, only
     * started. */
    if (strncmp(text, "memory:", 7) == 0)
        fault->memory_at = strtoull(text + 7, NULL, 10);
    if (strncmp(text, "hang:", 5) == 0)
        fault->hang_at = strtoull(text + 5, NULL, 10);
    if (strncmp(text, "launch:", 7) != 0)
        return;
    fault->launch_at = strtoull(text + 7, &end, 10);
    /* Without a code of its own it is that of a wrong address, which ends a card, too. */
    fault->launch_code = *end == ':' ? (int)strtol(end + 1, NULL, 10) : PS_FAULT_ILLEGAL_ADDRESS;
}
