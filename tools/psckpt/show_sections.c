/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator asks of a job that waits: which round is open, who has contributed, whose clock
 * holds the others up. Files without either show as they
 * always did. Whether a worker lives is not in a checkpoint: `psctl` asks the servers. */
#include "tools/psckpt/show_sections.h"

#include "tools/json_document.h"
#include "tools/psckpt/psckpt_commands.h"

#include <inttypes.h>
#include <stdio.h>

static void show_rounds(const struct section_summary *summary);
static void show_clocks(const struct section_summary *summary);
static void show_candidates(const struct section_summary *summary);
static void show_candidates_json(const struct section_summary *summary,
                                 struct ps_json_writer *json);
static void show_clocks_json(const struct clocks_row *row, struct ps_json_writer *json);

/* A heading without rows would make a reader look for what is not there. */
void show_sections_table(const struct section_summary *summary)
{
    if (summary->round_count > 0)
        show_rounds(summary);
    if (summary->clocks_count > 0)
        show_clocks(summary);
    if (summary->candidates_count > 0)
        show_candidates(summary);
}

/* Names come last, as in the table of parameters. The bytes are those of the gradients, which the
 * server holds in its memory until the round ends. */
static void show_rounds(const struct section_summary *summary)
{
    (void)printf("\n%12s %8s %14s %8s %-24s  %s\n", "OPEN_ROUND", "HELD", "BYTES", "EVICTED",
                 "WORKERS", "NAME");
    for (size_t i = 0; i < summary->round_count; i++) {
        const struct round_row *row = &summary->rounds[i];
        (void)printf("%12" PRIu64 " %8zu %14" PRIu64 " %8" PRIu32 " %-24s  ", row->round, row->held,
                     row->held_bytes, row->evicted, row->ranks);
        (void)psckpt_print_text(row->name);
        (void)puts("");
    }
}

/* The slowest worker is a rank, as the job gives them: whoever holds the others up can be found by
 * it. */
static void show_clocks(const struct section_summary *summary)
{
    (void)printf("\n%-11s %9s %8s %8s %20s %8s  %s\n", "CONSISTENCY", "STALENESS", "WORKERS",
                 "EVICTED", "MINIMUM", "SLOWEST", "CLOCKS");
    for (size_t i = 0; i < summary->clocks_count; i++) {
        const struct clocks_row *row = &summary->clocks[i];
        (void)printf("%-11s %9" PRIu32 " %8" PRIu32 " %8" PRIu32,
                     section_consistency_name(row->settings.consistency), row->settings.staleness,
                     row->settings.workers, row->evicted);
        /* Where all are evicted nobody holds anybody up. */
        if (row->minimum == UINT64_MAX)
            (void)printf(" %20s %8s  ", "-", "-");
        else
            (void)printf(" %20" PRIu64 " %8" PRIu32 "  ", row->minimum, row->slowest);
        (void)psckpt_print_text(row->name);
        (void)puts("");
    }
}

/* How many keys wait for their rows; which, only a server can be asked. */
static void show_candidates(const struct section_summary *summary)
{
    (void)printf("\n%20s  %s\n", "KEYS_WITHOUT_ROW", "TABLE");
    /* One line for each table, however many records the file has of it. */
    for (size_t i = 0; i < summary->candidates_count; i++) {
        (void)printf("%20" PRIu64 "  ", summary->candidates[i].keys);
        (void)psckpt_print_text(summary->candidates[i].name);
        (void)puts("");
    }
}

/* A list of keys would be as long as the table that they are to save memory for: their number is
 * what an operator asks for, beside that of the rows. */
static void show_candidates_json(const struct section_summary *summary, struct ps_json_writer *json)
{
    ps_json_begin_array(json, "candidates");
    for (size_t i = 0; i < summary->candidates_count; i++) {
        ps_json_begin_object(json, NULL);
        ps_json_text(json, "name", summary->candidates[i].name);
        ps_json_uint(json, "keys", summary->candidates[i].keys);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
}

/* Members that are absent in files without rounds, clocks and candidates: scripts that were written
 * before see what they always saw. */
void show_sections_json(const struct section_summary *summary, struct ps_json_writer *json)
{
    if (summary->round_count > 0) {
        ps_json_begin_array(json, "rounds");
        for (size_t i = 0; i < summary->round_count; i++) {
            const struct round_row *row = &summary->rounds[i];
            /* The ranks are a text, cut as in the table: a list of a thousand helps nobody. */
            ps_json_begin_object(json, NULL);
            ps_json_text(json, "name", row->name);
            ps_json_uint(json, "open_round", row->round);
            ps_json_uint(json, "held", row->held);
            ps_json_uint(json, "held_bytes", row->held_bytes);
            json_text(json, "workers", row->ranks);
            ps_json_uint(json, "evicted", row->evicted);
            ps_json_end_object(json);
        }
        ps_json_end_array(json);
    }
    if (summary->candidates_count > 0)
        show_candidates_json(summary, json);
    if (summary->clocks_count == 0)
        return;
    ps_json_begin_array(json, "clocks");
    for (size_t i = 0; i < summary->clocks_count; i++)
        show_clocks_json(&summary->clocks[i], json);
    ps_json_end_array(json);
}

/* A minimum that nobody has is left out; a number in its place would be taken for one. */
static void show_clocks_json(const struct clocks_row *row, struct ps_json_writer *json)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", row->name);
    json_text(json, "consistency", section_consistency_name(row->settings.consistency));
    ps_json_uint(json, "staleness", row->settings.staleness);
    ps_json_uint(json, "workers", row->settings.workers);
    ps_json_uint(json, "evicted", row->evicted);
    if (row->minimum != UINT64_MAX) {
        ps_json_uint(json, "minimum", row->minimum);
        ps_json_uint(json, "slowest", row->slowest);
    }
    ps_json_end_object(json);
}
