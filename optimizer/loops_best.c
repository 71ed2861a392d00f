/* Which of the rules' loops this processor runs. */
#include "optimizer/loops.h"

#include "optimizer/instruction_sets.h"

static const struct ps_loops *const sets[] = {
    &ps_loops_baseline,
#ifdef PS_LOOPS_X86
    &ps_loops_avx2,
    &ps_loops_avx512,
#endif
};

const struct ps_loops *ps_loops_at(size_t index)
{
    return index < ps_instruction_sets() ? sets[index] : NULL;
}

const struct ps_loops *ps_loops_best(void)
{
    return sets[ps_instruction_sets() - 1];
}
