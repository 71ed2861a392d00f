/* SPDX-License-Identifier: Apache-2.0 */
/* The error funnel: one place that every number of the driver goes through. */
#include "optimizer/device/fault.h"

#include "base/assert.h"

#include <stdio.h>

bool ps_fault_ends_process(int code)
{
    switch (code) {
    case 46:  /* devices unavailable */
    case 214: /* uncorrectable ECC error */
    case 220: /* uncorrectable NVLink error */
    case 226: /* contained */
    case 700: /* illegal address */
    case 702: /* launch timeout */
    case 710: /* assert */
    case 714: /* hardware stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failure */
    case 721: /* tensor memory leak */
    case 810: /* MPS client terminated */
    case 911: /* external device */
    case 999: /* unknown */
        return true;
    default:
        return false;
    }
}

void ps_fault_note(struct ps_fault *fault, int code, const char *name, const char *action)
{
    PS_ASSERT(code != PS_FAULT_NONE);
    int none = PS_FAULT_NONE;
    if (!atomic_compare_exchange_strong(&fault->code, &none, code))
        return;
    (void)snprintf(fault->text, sizeof fault->text, "the device failed: %s: %s (%d)%s", action,
                   name, code,
                   ps_fault_ends_process(code) ? "" : ", in the middle of work that was begun");
    atomic_store(&fault->described, true);
    if (fault->died != NULL)
        fault->died(fault->self, fault->text);
}

enum ps_status ps_fault_check(struct ps_fault *fault, struct ps_error *error)
{
    if (atomic_load(&fault->code) == PS_FAULT_NONE)
        return PS_OK;
    /* Whoever comes between the number and the text is told less, not something half written. */
    const char *text = atomic_load(&fault->described) ? fault->text : "the device failed";
    return ps_fail(error, PS_ERR_UNAVAILABLE, "%s", text);
}
