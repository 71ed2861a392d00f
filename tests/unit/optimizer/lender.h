/* SPDX-License-Identifier: Apache-2.0 */
/* Another process that has a piece of the emulated device's memory, and does with it what it is
 * told: what a trainer is to a server.
 *
 * Threads:  one.
 * Blocking: each call, until the other process has done it.
 * Errors:   any failure ends the test.
 * Memory:   everything ends with lender_end; the process dies with the test.
 */
#ifndef PS_TESTS_OPTIMIZER_LENDER_H
#define PS_TESTS_OPTIMIZER_LENDER_H

#include "base/device_share.h"

#include <stddef.h>
#include <sys/types.h>

struct lender {
    pid_t process;
    int orders, answers;
    float *window; /* that both processes see */
    size_t count;
    struct ps_device_share share;
};

/* Room for `count` elements of float32. */
void lender_begin(struct lender *lender, size_t count);

/* Writes what is in the window to the device's memory, or reads it from there. */
void lender_store(struct lender *lender);
void lender_load(struct lender *lender);

/* Kills it. Twice is allowed. */
void lender_end(struct lender *lender);

#endif
