/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target defines: libFuzzer's entry, or that of the corpus replay.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a fault stops the process; anything else is fine.
 * Memory:   the input is borrowed for the call.
 */
#ifndef PS_TESTS_FUZZ_FUZZ_TARGET_H
#define PS_TESTS_FUZZ_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0. The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
