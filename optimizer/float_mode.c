/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a thread's floating-point unit back to IEEE 754: round to nearest, subnormals kept. */
#include "optimizer/optimizer.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

void ps_optimizer_enter_thread(void)
{
    /* All exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero. */
    _mm_setcsr(0x1f80);
}

#elif defined(__aarch64__)

void ps_optimizer_enter_thread(void)
{
    /* All zero: round to nearest, subnormals kept, no exception traps. */
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
}

#else
#include <fenv.h>

void ps_optimizer_enter_thread(void)
{
    /* The most that C can say; it may leave a flush to zero as it is, and test_float_mode would
     * see that. */
    (void)fesetenv(FE_DFL_ENV);
}

#endif
