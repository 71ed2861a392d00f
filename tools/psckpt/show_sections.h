/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `psckpt show` that is about open rounds, clocks and keys without a row.
 *
 * Threads:  one.
 * Blocking: for standard output.
 * Errors:   none.
 * Memory:   borrows for the call.
 */
#ifndef PS_TOOLS_SHOW_SECTIONS_H
#define PS_TOOLS_SHOW_SECTIONS_H

#include "base/json_writer.h"
#include "tools/psckpt/section_summary.h"

/* A table for each section that has rows. */
void show_sections_table(const struct section_summary *summary);

/* The members "rounds", "clocks" and "candidates", each where it has rows. */
void show_sections_json(const struct section_summary *summary, struct ps_json_writer *json);

#endif
