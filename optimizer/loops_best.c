/* Which of the loops this processor runs. The answer is read anew each time: it costs a few loads of
 * what the compiler's start-up code found out, and no global of ours. */
#include "optimizer/loops.h"

#ifdef PS_LOOPS_X86

/* Exactly what loops.c is compiled with (optimizer/CMakeLists.txt). */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

const struct ps_loops *ps_loops_best(void)
{
    if (has_avx512())
        return &ps_loops_avx512;
    return has_avx2() ? &ps_loops_avx2 : &ps_loops_baseline;
}

bool ps_loops_usable(const struct ps_loops *loops)
{
    if (loops == &ps_loops_avx512)
        return has_avx512();
    return loops != &ps_loops_avx2 || has_avx2();
}

#else

const struct ps_loops *ps_loops_best(void)
{
    return &ps_loops_baseline;
}

bool ps_loops_usable(const struct ps_loops *loops)
{
    (void)loops;
    return true;
}

#endif
