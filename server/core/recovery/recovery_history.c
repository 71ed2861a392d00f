/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused here is refused although a state could be had: a checkpoint of one training and
 * the journal of another give parameters that nobody ever had, and every checksum is right. So the
 * files are told to the operator, who knows where they came from, and none is touched. */
#include "server/core/recovery/recovery_history.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static void log_strangers(const struct ps_recovery_search *search);
static void list_mixed(const struct ps_history_survey *survey, char *names, size_t size);

/* Before the first candidate is tried, and not when recovery comes to a stranger: which files it
 * comes to depends on which are damaged, and a folder that is refused only on the day of the damage
 * is refused when nobody remembers any more what was copied. */
enum ps_status ps_recovery_see_histories(struct ps_recovery_search *search, struct ps_error *error)
{
    const struct ps_recovery *recovery = search->recovery;
    struct ps_history_survey *survey = &search->survey;
    char names[PS_CHECKPOINT_NAME_BYTES];
    char own[PS_UUID_BYTES];
    PS_ASSERT(recovery != NULL && survey->memory == NULL);
    PS_TRY(ps_history_survey_init(survey, recovery->files, recovery->folder, &search->published,
                                  recovery->memory, error));
    log_strangers(search);
    if (survey->mixed_count == 0)
        return PS_OK;
    list_mixed(survey, names, sizeof names);
    ps_history_write(&survey->own, own);
    search->cause = PS_RECOVERY_MIXED;
    return ps_fail(error, PS_ERR_CORRUPT,
                   "files of another history are in the folder (%zu; %s history is %.8s...%s): %s",
                   survey->mixed_count, survey->is_told ? "this shard's" : "the newest file's", own,
                   own + PS_UUID_BYTES - 5, names);
}

/* A line for each, since the error has room for few: these are the names that somebody will move,
 * and of which others may be needed to see where they came from. */
static void log_strangers(const struct ps_recovery_search *search)
{
    const struct ps_history_survey *survey = &search->survey;
    char own[PS_UUID_BYTES];
    ps_history_write(&survey->own, own);
    for (size_t i = 0; i < survey->count; i++) {
        enum ps_history_place place = ps_history_survey_place(survey, i);
        char history[PS_UUID_BYTES];
        if (place == PS_HISTORY_OWN)
            continue;
        /* Void ones come with every recovery until they are swept: nobody is to be woken. */
        bool mixed = place == PS_HISTORY_MIXED;
        ps_history_write(&survey->files[i].history, history);
        PS_LOG(search->recovery->log, mixed ? PS_LOG_ERROR : PS_LOG_WARN, "loader",
               mixed ? "file of another history"
                     : "file of another history is passed over: this shard's own began before it",
               PS_FIELD_TEXT("name", survey->names[i].text), PS_FIELD_TEXT("history", history),
               PS_FIELD_TEXT("own", own),
               PS_FIELD_TEXT("own_by", survey->is_told ? "store" : "newest"));
    }
}

/* Whole names only, as in every list of an error: half a name is the name of no file. */
static void list_mixed(const struct ps_history_survey *survey, char *names, size_t size)
{
    static const char more[] = ", ...";
    size_t used = 0;
    PS_ASSERT(size >= PS_CHECKPOINT_NAME_BYTES);
    names[0] = '\0';
    for (size_t i = 0; i < survey->count; i++) {
        const char *name = survey->names[i].text;
        if (ps_history_survey_place(survey, i) != PS_HISTORY_MIXED)
            continue;
        if (used > 0 && strlen(name) + 2 + sizeof more > size - used) {
            (void)snprintf(names + used, size - used, "%s", more);
            return;
        }
        used += (size_t)snprintf(names + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

/* Only void ones come so far: with one that is in the way nothing is tried. */
bool ps_recovery_is_strange(const struct ps_recovery_search *search,
                            const struct ps_recovery_candidate *candidate)
{
    PS_ASSERT(candidate->name != NULL);
    /* A candidate without a fate is not in the folder, and not in the survey. */
    return candidate->fate != NULL &&
           ps_history_survey_checkpoint(&search->survey, candidate->name) != PS_HISTORY_OWN;
}

/* The survey has seen the folder alone, and a moment ago: the file that the pointer names may lie
 * in another folder, and somebody may be copying just now. What was loaded says it once more. */
enum ps_status ps_recovery_take_history(struct ps_recovery_search *search,
                                        const struct ps_recovery_candidate *candidate,
                                        const struct ps_history *loaded, struct ps_history *history,
                                        struct ps_error *error)
{
    const struct ps_history *own = &search->survey.own;
    PS_ASSERT(history != NULL);
    if (ps_history_differ(loaded, own)) {
        search->cause = PS_RECOVERY_MIXED;
        return ps_fail(error, PS_ERR_CORRUPT,
                       "the checkpoint is of another history than the files of this folder: %.150s",
                       candidate->name);
    }
    /* Both, or one of them, or none: a shard whose files are all of an older program draws its
     * history when the first new file is written.
     * One that an older program wrote goes on with what the rest of the folder says. */
    *history = ps_history_known(own) ? *own : *loaded;
    return PS_OK;
}
