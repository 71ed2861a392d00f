/* replay: a new folder with the state at a position. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/psckpt/state_set.h"

int psckpt_replay(const struct psckpt *tool)
{
    struct state_set set = {0};
    struct ps_error error = {0};
    uint64_t to;
    enum ps_status status = psckpt_check_out(tool, &error);
    if (status == PS_OK && tool->options.to == NULL)
        status = ps_fail(&error, PS_ERR_BAD_INPUT, "replay needs --to POSITION");
    if (status == PS_OK)
        status = state_set_number(tool->options.to, RECOVERY_TO_END, &to, &error);
    if (status == PS_OK)
        status = state_set_load(&set, tool, tool->arguments[0], to, &error);
    if (status == PS_OK)
        status = state_set_write(&set, tool, tool->options.out, &error);
    state_set_fini(&set);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}
