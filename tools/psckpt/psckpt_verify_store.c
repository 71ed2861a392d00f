/* SPDX-License-Identifier: Apache-2.0 */
/* The store of servers without etcd, as verify says it: the file DIR/store/store. A server that
 * cannot read it ends with 65, whatever the files of its shard are, so a folder with a damaged
 * store counts as damaged. */
#include "tools/psckpt/psckpt_verify.h"

#include "base/assert.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/published.h"

#include <stdio.h>

static void report(struct verifying *verifying, const char *folder, const struct ps_error *why);

/* A copy is opened, so that a server may be at work with the store itself. Who names an etcd has no
 * store in the folder. A store that is not there, or that this user may not read, is no finding:
 * verify is for copies of shard folders, too, and a server says the rest when it starts. */
void psckpt_verify_store(struct verifying *verifying)
{
    const struct psckpt *tool = verifying->tool;
    const char *folder = tool->arguments[0];
    struct published published = {0};
    struct published_options wish = psckpt_store_wish(tool, folder);
    struct ps_error why = {0};
    PS_ASSERT(path_is_folder(tool->box.files, folder));
    if (wish.etcd != NULL)
        return;
    wish.only_pointers = true;
    if (published_open(&published, &wish, tool->box.memory, &why) == PS_ERR_CORRUPT)
        report(verifying, folder, &why);
    published_close(&published);
}

/* The path is written here for scripts; the line for people is the error that a server would log,
 * which names the file itself and says what to do with it. */
static void report(struct verifying *verifying, const char *folder, const struct ps_error *why)
{
    char path[4200];
    PS_ASSERT(why->status == PS_ERR_CORRUPT && why->text[0] != '\0');
    (void)snprintf(path, sizeof path, "%s/store/store", folder);
    verifying->file_count++;
    verifying->damaged_count++;
    verifying->is_store = true;
    psckpt_verify_add(verifying, path, "store", why->text);
    if (!verifying->tool->json)
        (void)printf("damaged   %s\n", why->text);
}
