/* SPDX-License-Identifier: Apache-2.0 */
/* What the sum of squares of a push decides: written once, since the GPU decides by itself.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_JUDGE_RULE_H
#define PS_OPTIMIZER_JUDGE_RULE_H

#include "optimizer/rule.h"

/* Is there a clip_norm, and the norm beyond the range of a double? */
PS_RULE bool ps_norm_overflows(double clip_norm, double square_sum)
{
    return clip_norm > 0 && square_sum - square_sum != 0;
}

/* What clip_norm multiplies the gradient by. Written so that a NaN norm stays one: whoever allows
 * NaN gets it everywhere. */
PS_RULE double ps_norm_scale(double clip_norm, double square_sum)
{
    double norm = sqrt(square_sum);
    if (!(clip_norm > 0) || norm <= clip_norm)
        return 1;
    return clip_norm / norm;
}

#endif
