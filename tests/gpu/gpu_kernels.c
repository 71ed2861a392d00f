/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on a GPU against the CPU's loops, to the bit.
 *
 * usage: gpu_kernels full            the suite, every kind of tail, several grids
 *        gpu_kernels short           little of everything: for compute-sanitizer
 *        gpu_kernels large [COUNT]   runs of COUNT elements (2^31 + 3): 32 bits are not enough
 *
 * 77 is returned where there is no device. */
#include "gpu_machine.h"

#include <stdlib.h>
#include <string.h>

#define NO_DEVICE 77

/* Elements behind each array that have to stay as they are. */
#define GUARD 4

static const uint64_t all_lengths[] = {0,  1,  2,   3,    4,    5,    7,     8,         31,
                                       33, 65, 255, 1023, 1025, 4096, 10007, UINT64_MAX};
static const uint32_t all_grids[] = {1, 66, 528, UINT32_MAX};
static const uint64_t long_lengths[] = {16385, 65539, 300007, UINT64_MAX};
static const uint32_t own_grid[] = {0, UINT32_MAX};
static const uint64_t short_lengths[] = {5, 1023, UINT64_MAX};
static const uint32_t short_grids[] = {3, UINT32_MAX};

static void run(struct kernel_suite *suite, const uint64_t *counts, const uint32_t *grids)
{
    suite->counts = counts;
    suite->grids = grids;
    kernel_suite_run(suite);
}

static void run_full(struct kernel_suite *suite)
{
    suite->guard = GUARD;
    suite->quick = true;
    run(suite, all_lengths, all_grids);
    suite->quick = false;
    run(suite, long_lengths, own_grid);
}

static void run_short(struct kernel_suite *suite)
{
    suite->quick = true;
    run(suite, short_lengths, short_grids);
}

static bool run_mode(struct kernel_suite *suite, int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : (UINT64_C(1) << 31) + 3;
    if (strcmp(mode, "full") == 0)
        run_full(suite);
    else if (strcmp(mode, "short") == 0)
        run_short(suite);
    else if (strcmp(mode, "large") == 0)
        kernel_suite_run_large(suite, count);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct expect expect = {0};
    bool exact = argc > 1 && strcmp(argv[1], "full") != 0;
    struct kernel_suite suite = {.expect = &expect, .machine = gpu_machine_open(exact)};
    if (suite.machine == NULL)
        return NO_DEVICE;
    ps_optimizer_enter_thread();
    if (!run_mode(&suite, argc, argv)) {
        printf("usage: gpu_kernels full|short|large [COUNT]\n");
        return EXIT_FAILURE;
    }
    printf("%llu values compared\n", (unsigned long long)suite.seen);
    return expect_end(&expect);
}
