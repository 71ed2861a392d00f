/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the loops that encode and decode this processor runs. */
#include "optimizer/encoding_loops.h"

#include "optimizer/instruction_sets.h"

/* The same sets as those of the rules, in the same order. */
static const struct ps_encoding_loops *const sets[] = {
    &ps_encoding_loops_baseline,
#ifdef PS_LOOPS_X86
    &ps_encoding_loops_avx2,
    &ps_encoding_loops_avx512,
#endif
};

/* For tests, as ps_loops_at. */
const struct ps_encoding_loops *ps_encoding_loops_at(size_t index)
{
    return index < ps_instruction_sets() ? sets[index] : NULL;
}

/* Asked again for each content rather than kept: the answer is a table look-up. */
const struct ps_encoding_loops *ps_encoding_loops_best(void)
{
    return sets[ps_instruction_sets() - 1];
}
