/* Tests for exactly the features that loops.cmake compiles for. */
#include "optimizer/instruction_sets.h"

#ifdef PS_LOOPS_X86

size_t ps_instruction_sets(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 1;
    int has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return has_avx512 ? 3 : 2;
}

#else

size_t ps_instruction_sets(void)
{
    return 1;
}

#endif
