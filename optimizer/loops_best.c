/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the rules' loops this processor runs. */
#include "optimizer/loops.h"

#include "optimizer/instruction_sets.h"

/* From the narrowest to the widest; a processor that runs a set runs those before it, too. */
static const struct ps_loops *const sets[] = {
    &ps_loops_baseline,
#ifdef PS_LOOPS_X86
    &ps_loops_avx2,
    &ps_loops_avx512,
#endif
};

/* For tests, which run every set that this processor has and compare. */
const struct ps_loops *ps_loops_at(size_t index)
{
    return index < ps_instruction_sets() ? sets[index] : NULL;
}

/* The widest. On processors that lower their clock for wide vectors this is still the best: the
 * loops wait for memory. */
const struct ps_loops *ps_loops_best(void)
{
    return sets[ps_instruction_sets() - 1];
}
