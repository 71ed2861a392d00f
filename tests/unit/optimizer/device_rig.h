/* SPDX-License-Identifier: Apache-2.0 */
/* A device of the emulator for tests: opened with a fault, and parameters of 5,000 floats under SGD
 * with a rate of 1.
 *
 * Threads:  one.
 * Blocking: while the emulator runs.
 * Errors:   those that a test asked for are returned; others fail the test.
 * Memory:   said at each function.
 */
#ifndef TESTS_OPTIMIZER_DEVICE_RIG_H
#define TESTS_OPTIMIZER_DEVICE_RIG_H

#include "optimizer/device.h"

#define DEVICE_RIG_COUNT 5000

extern const struct ps_optimizer_settings device_rig_sgd; /* with a rate of 1 */
extern const struct ps_device_parameter_wish device_rig_wish;

const struct ps_device_plugin *device_rig_plugin(void);

/* Opens a device with a ring of 128 KiB. `fail` is what PS_EMULATOR_FAIL says from the opening on;
 * NULL: nothing. Check runs each test in a process of its own, so the environment is the test's.
 * `*deaths` counts what the device is told of its end. The caller closes the device. */
enum ps_status device_rig_open(const char *fail, uint64_t budget, int *deaths,
                               struct ps_device **device, struct ps_error *error);

/* Bytes of the budget that are in use. */
uint64_t device_rig_used(struct ps_device *device);

/* A parameter of zeros; the caller destroys it. */
struct ps_device_parameter *device_rig_zeros(struct ps_device *device);

/* Pushes a gradient of ones as step `number`, and waits for it. */
enum ps_status device_rig_push_ones(struct ps_device *device, struct ps_device_parameter *parameter,
                                    uint64_t number, struct ps_error *error);

#endif
