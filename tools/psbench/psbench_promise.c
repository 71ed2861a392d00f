/* SPDX-License-Identifier: Apache-2.0 */
/* From the word of --ack to servers and rows. LOGGED is what users get with a data directory, so
 * both promises are measured unless one is named. */
#include "tools/psbench/psbench_promise.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* Servers that were there already promise what they were started with, which is not known here. */
static const char *const suffixes[PS_BENCH_PROMISE_COUNT] = {
    [PS_BENCH_MEMORY] = "_memory", [PS_BENCH_LOGGED] = "_logged", [PS_BENCH_AS_GIVEN] = ""};

/* Memory first: its row is what LOGGED is held against in the same repeat. */
struct ps_bench_promises ps_bench_promises_of(const struct ps_bench_options *options)
{
    if (options->servers != NULL || options->etcd != NULL)
        return (struct ps_bench_promises){{PS_BENCH_AS_GIVEN}, 1};
    if (strcmp(options->ack, "memory") == 0)
        return (struct ps_bench_promises){{PS_BENCH_MEMORY}, 1};
    if (strcmp(options->ack, "logged") == 0)
        return (struct ps_bench_promises){{PS_BENCH_LOGGED}, 1};
    /* "both"; the option's table has refused other words. */
    return (struct ps_bench_promises){{PS_BENCH_MEMORY, PS_BENCH_LOGGED}, 2};
}

/* What is given by others is not started here, so that it has no acknowledgement of its own. */
const char *ps_bench_promise_ack(enum ps_bench_promise promise)
{
    PS_ASSERT(promise < PS_BENCH_PROMISE_COUNT);
    return promise == PS_BENCH_LOGGED ? "logged" : NULL;
}

/* Composed names find the same row again in every repeat, since the report compares texts. */
struct ps_bench_row *ps_bench_promised_row(struct ps_bench *bench, const char *name,
                                           enum ps_bench_promise promise, uint64_t bytes,
                                           uint64_t outstanding)
{
    char text[PS_BENCH_ROW_NAME_BYTES];
    ps_bench_promised_name(name, promise, text);
    return ps_bench_report_row(&bench->report, text, bytes, outstanding);
}

/* Names of benchmarks are short and static; a longer one is a mistake in a benchmark. */
void ps_bench_promised_name(const char *name, enum ps_bench_promise promise,
                            char text[PS_BENCH_ROW_NAME_BYTES])
{
    PS_ASSERT(promise < PS_BENCH_PROMISE_COUNT);
    PS_ASSERT(strlen(name) <= 36);
    (void)snprintf(text, PS_BENCH_ROW_NAME_BYTES, "%.36s%s", name, suffixes[promise]);
}
