/* salvage: every tensor that is whole. */
#include "tools/psckpt/psckpt_commands.h"

int psckpt_salvage(const struct psckpt *tool)
{
    struct ps_error error = {0};
    (void)tool;
    return psckpt_complain(ps_fail(&error, PS_ERR_UNSUPPORTED, "not yet"), &error);
}
