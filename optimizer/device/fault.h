/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers of CUDA's errors mean for a server, and the first one that ended a device.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   this is where they are told apart.
 * Memory:   in place.
 */
#ifndef PS_OPTIMIZER_DEVICE_FAULT_H
#define PS_OPTIMIZER_DEVICE_FAULT_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The numbers that the runtime itself has a use for; the driver knows all names. */
enum ps_fault_code {
    PS_FAULT_NONE = 0,
    PS_FAULT_OUT_OF_MEMORY = 2,
    PS_FAULT_STUB_LIBRARY = 34,
    PS_FAULT_NO_DRIVER = 35,
    PS_FAULT_NO_DEVICE = 100,
    PS_FAULT_INVALID_DEVICE = 101,
    PS_FAULT_NOT_READY = 600,
    PS_FAULT_ILLEGAL_ADDRESS = 700,
    PS_FAULT_TIMEOUT = 702,
    PS_FAULT_UNKNOWN = 999
};

/* Does this error end the process's use of the device, as CUDA's documentation says ("the process
 * must be terminated and relaunched"), or is the device gone? Others are told to one call. */
bool ps_fault_ends_process(int code);

struct ps_fault {
    _Atomic int code;       /* of the first error; 0 while there is none */
    _Atomic bool described; /* `text` may be read */
    char text[160];
    void (*died)(void *self, const char *text); /* may be NULL */
    void *self;
};

/* Notes that `code` came out of `action` ("launch", "copy to the device"). The first one wins and
 * tells `died`. */
void ps_fault_note(struct ps_fault *fault, int code, const char *name, const char *action);

/* PS_OK while there is none, afterwards PS_ERR_UNAVAILABLE with the first one's text. */
PS_MUST_USE enum ps_status ps_fault_check(struct ps_fault *fault, struct ps_error *error);

#endif
