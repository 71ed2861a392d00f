/* Which of the loops this processor runs. The answer is read anew each time: it costs a few loads
 * of what the compiler's start-up code found out, and no global of ours. */
#include "optimizer/loops.h"

#ifdef PS_LOOPS_X86

/* Exactly what loops.c is compiled with (optimizer/CMakeLists.txt). */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

const struct ps_loops *ps_loops_at(size_t index)
{
    if (index == 0)
        return &ps_loops_baseline;
    if (index == 1 && has_avx2())
        return &ps_loops_avx2;
    return index == 2 && has_avx512() ? &ps_loops_avx512 : NULL;
}

const struct ps_loops *ps_loops_best(void)
{
    if (has_avx512())
        return &ps_loops_avx512;
    return has_avx2() ? &ps_loops_avx2 : &ps_loops_baseline;
}

#else

const struct ps_loops *ps_loops_at(size_t index)
{
    return index == 0 ? &ps_loops_baseline : NULL;
}

const struct ps_loops *ps_loops_best(void)
{
    return &ps_loops_baseline;
}

#endif
