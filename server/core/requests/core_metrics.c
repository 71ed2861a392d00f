/* SPDX-License-Identifier: Apache-2.0 */
/* Registers what core_metrics.h lists. Without a registry all pointers stay NULL, and counting into
 * NULL does nothing: tests and tools need no registry. */
#include "server/core/requests/core_metrics.h"

#include <stddef.h>

/* Fields and names come from the same rows, so no metric is counted that nobody can see. */
void ps_core_metrics_init(struct ps_core_metrics *metrics, struct ps_metrics *registry)
{
    *metrics = (struct ps_core_metrics){0};
    if (registry == NULL)
        return;
#define REGISTER(kind, field, name, help) \
    metrics->field = ps_metrics_##kind(registry, name, help, NULL);
    PS_CORE_METRICS_TABLE(REGISTER)
#undef REGISTER
/* One name with a reason each. */
#define REGISTER(field, labels)                               \
    metrics->field =                                          \
        ps_metrics_counter(registry, "ps_ahead_failed_total", \
                           "Gradients whose ranges were applied as they came, in vain.", labels);
    PS_EARLY_FAILED_TABLE(REGISTER)
#undef REGISTER
#define REGISTER(field, labels)           \
    metrics->field = ps_metrics_counter(  \
        registry, "ps_clock_reads_total", \
        "Reads of workers, by how many iterations the slowest was behind.", labels);
    PS_CLOCK_READS_TABLE(REGISTER)
#undef REGISTER
}
