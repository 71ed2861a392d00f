/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of parameters, as psctl show and psctl set have them.
 *
 * Threads:  one.
 * Blocking: as standard output does.
 * Errors:   said on standard error; the functions return an exit code.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_PSCTL_CONFIG_H
#define PS_TOOLS_PSCTL_CONFIG_H

#include "proto/optimizer_change.h"
#include "tools/psctl/psctl_commands.h"

/* Is this row of a list the parameter called `pattern`, or, with a "*" at its end, one whose name
 * begins so? `name` becomes the parameter's own. Of one that is cut only the first range is it. */
bool psctl_matches(const char *pattern, const struct psclient_param_info *info,
                   char name[sizeof info->name]);

/* Reads what a list or a change has told. EX_UNAVAILABLE: it is not a configuration. */
int psctl_read_config(const struct psclient_config *told, struct ps_optimizer_config *config);

/* Every server lists a table, under one name: is this row one that was shown already? */
bool psctl_is_repeated(uint32_t index, const struct ps_optimizer_config *config);

/* "adam lr=0.001 clip_norm=1", on standard output. */
void psctl_print_config(const struct ps_optimizer_config *config);

/* An object of all that it says. */
void psctl_json_config(struct ps_json_writer *json, const char *name,
                       const struct ps_optimizer_config *config);

/* Says that no parameter matches; EX_DATAERR. */
int psctl_no_such_param(const char *pattern);

#endif
