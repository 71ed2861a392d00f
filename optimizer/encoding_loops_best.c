/* Which of the loops that encode and decode this processor runs. */
#include "optimizer/encoding_loops.h"

#include "optimizer/instruction_sets.h"

static const struct ps_encoding_loops *const sets[] = {
    &ps_encoding_loops_baseline,
#ifdef PS_LOOPS_X86
    &ps_encoding_loops_avx2,
    &ps_encoding_loops_avx512,
#endif
};

const struct ps_encoding_loops *ps_encoding_loops_at(size_t index)
{
    return index < ps_instruction_sets() ? sets[index] : NULL;
}

const struct ps_encoding_loops *ps_encoding_loops_best(void)
{
    return sets[ps_instruction_sets() - 1];
}
