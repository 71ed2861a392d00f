/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in the emulator against the CPU's loops. Arrays are as long as they have to be, so
 * that a sanitizer sees an access beyond; the long run has ten million values and more. */
#include "kernel_emulator_machine.h"
#include "kernel_suite.h"

#include "optimizer/emulator/kernel_emulator.h"

#include <string.h>

/* Every kind of tail, with one, few and many blocks. */
static const uint64_t lengths[] = {0,  1,  2,   3,    4,    5,    7,     8,         31,
                                   33, 65, 255, 1023, 1025, 4096, 10007, UINT64_MAX};
static const uint32_t few[] = {1, 3, UINT32_MAX};

static const uint64_t long_lengths[] = {4095, 16385, 65539, UINT64_MAX};
static const uint32_t many[] = {66, UINT32_MAX};
static const uint64_t short_lengths[] = {0, 1, 5, 1023, UINT64_MAX};
static const uint32_t most[] = {528, UINT32_MAX};

static void run(struct kernel_suite *suite, const uint64_t *counts, const uint32_t *grids)
{
    suite->counts = counts;
    suite->grids = grids;
    kernel_suite_run(suite);
}

int main(int argc, char **argv)
{
    struct expect expect = {0};
    bool everything = argc > 1 && strcmp(argv[1], "long") == 0;
    struct kernel_suite suite = {
        .expect = &expect, .machine = &kernel_emulator_machine, .quick = !everything};
    ps_optimizer_enter_thread();
    run(&suite, lengths, few);
    if (everything) {
        run(&suite, long_lengths, many);
        suite.quick = true;
        run(&suite, short_lengths, most);
        ps_kernels_shuffle(20251121);
        run(&suite, lengths, few);
        EXPECT(&expect, suite.seen >= 10 * 1000 * 1000);
    }
    printf("%llu values compared\n", (unsigned long long)suite.seen);
    return expect_end(&expect);
}
