/* SPDX-License-Identifier: Apache-2.0 */
/* The survey is the one that servers make. Without a store the newest checkpoint decides whose the
 * folder is, and whoever copied a newer one into it would be told that all others are wrong:
 * therefore only their number is said here, and verify shows both sides. */
#include "tools/psckpt/folder_histories.h"

#include "checkpoint/history_survey.h"

enum ps_status folder_histories_check(const struct toolbox *box, const char *folder,
                                      struct ps_history *own, struct ps_error *error)
{
    const struct ps_checkpoint_place nobody = {.uuid = ""};
    struct ps_history_survey survey;
    PS_TRY(ps_history_survey_init(&survey, box->files, folder, &nobody, box->memory, error));
    size_t mixed = survey.mixed_count;
    *own = survey.own;
    ps_history_survey_fini(&survey);
    if (mixed == 0)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT,
                   "%.120s: files of several histories are here (%zu of another than the newest): "
                   "psckpt verify names them; move those that do not belong there out",
                   folder, mixed);
}
