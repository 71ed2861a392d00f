/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch is given, as far as it needs no kernel: entries and chunks of tables, sizes. */
#include "optimizer/cuda/launch.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#include <string.h>

/* A sum for each group, and one for each group of groups, both rounded up. */
uint64_t ps_cuda_sums(uint64_t count)
{
    uint64_t groups = count / PS_SUM_ELEMENTS + (count % PS_SUM_ELEMENTS != 0);
    return groups + groups / PS_SUM_ELEMENTS + (groups % PS_SUM_ELEMENTS != 0);
}

/* Zeroed first: the device compares nothing of it, but the whole entry is copied, and bytes that
 * nobody wrote would differ from run to run. */
void ps_cuda_entry_fill(const struct ps_optimizer_step *step, const struct ps_cuda_run *run,
                        const struct ps_cuda_verdict *verdict, struct ps_cuda_entry *entry)
{
    PS_ASSERT(!step->skip);
    memset(entry, 0, sizeof *entry);
    entry->run = *run;
    entry->run.gradient.named_only = ps_encoding_touches_named_only(step->settings);
    entry->verdict = verdict;
    /* An entry holds the numbers of one type; which, the launch knows. */
    if (step->dtype == PS_F32)
        entry->step.f32 = step->f32;
    else if (step->dtype == PS_F64)
        entry->step.f64 = step->f64;
    else
        entry->step.whole = step->whole;
}

/* Without room the answer is how many there would be; a caller asks first, and fills then. */
uint64_t ps_cuda_chunks_fill(uint32_t index, uint64_t count, struct ps_cuda_chunk *chunks)
{
    uint64_t number = count / PS_CUDA_CHUNK + (count % PS_CUDA_CHUNK != 0);
    PS_ASSERT(number <= UINT32_MAX);
    if (chunks == NULL)
        return number;
    for (uint64_t i = 0; i < number; i++)
        chunks[i] = (struct ps_cuda_chunk){.entry = index, .chunk = (uint32_t)i};
    return number;
}
