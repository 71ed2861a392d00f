/* SPDX-License-Identifier: Apache-2.0 */
/* replay: a new folder with the state at a position. The old folder is only read. A position is a
 * shard's own count of updates, so replaying several shards to one number would make a state that
 * no moment ever had: state_set_load refuses that. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/state_set.h"

/* The new folder holds a checkpoint and no journal: what the journal had up to that position is in
 * the state. */
enum ps_status psckpt_replay(const struct psckpt *tool, struct ps_error *error)
{
    struct state_set set = {0};
    uint64_t to;
    PS_TRY(psckpt_check_out(tool, error));
    if (tool->options.to == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "replay needs --to POSITION");
    PS_TRY(state_set_number(tool->options.to, RECOVERY_TO_END, &to, error));
    PS_TRY(state_set_load(&set, tool, tool->arguments[0], to, error));
    enum ps_status status = state_set_write(&set, tool, tool->options.out, error);
    state_set_fini(&set);
    return status;
}
