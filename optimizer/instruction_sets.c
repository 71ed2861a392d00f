/* SPDX-License-Identifier: Apache-2.0 */
/* Tests for exactly the features that loops.cmake compiles for. */
#include "optimizer/instruction_sets.h"

#ifdef PS_LOOPS_X86

size_t ps_instruction_sets(void)
{
    /* x86-64 itself is the baseline: every processor of that kind has SSE2. */
    if (!__builtin_cpu_supports("avx2"))
        return 1;
    /* All four parts together: a loop that was compiled for them may use any, and some
     * processors have only the first. */
    int has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    /* The number of sets, which are counted from the baseline on. */
    return has_avx512 ? 3 : 2;
}

#else

size_t ps_instruction_sets(void)
{
    return 1;
}

#endif
