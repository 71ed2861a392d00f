/* SPDX-License-Identifier: Apache-2.0 */
/* A service has a user of its own, and its folder is closed to all others, so the commands of
 * docs/recover.md are typed by root. The kernel gives new files to whoever makes them; which owner
 * they need is known from the folder that they are about.
 *
 * The walk goes by descriptors and not by names: what was looked at is what is given away, also
 * when the name has become that of another file since. */
#include "tools/psckpt/folder_owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A job's folder, a shard's, a file; a job's name may have a few parts. */
enum { DEPTH_MAX = 8 };

static size_t give(const struct folder_owner *owner, int descriptor, const char *name, int depth);
static size_t give_below(const struct folder_owner *owner, int folder, int depth);

void folder_owner_look(struct folder_owner *owner, const char *path)
{
    struct stat about;
    *owner = (struct folder_owner){.is_another = false};
    if (geteuid() != 0 || stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return;
    /* A folder of root's is the usual case of a container that runs as root. */
    owner->is_another = about.st_uid != 0;
    owner->user = about.st_uid;
    owner->group = about.st_gid;
}

/* The path itself may be a link, as of a volume: the operator has named it. */
size_t folder_owner_give(const struct folder_owner *owner, const char *path)
{
    if (!owner->is_another)
        return 0;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return descriptor < 0 ? 0 : give(owner, descriptor, path, 0);
}

/* Takes the descriptor. */
static size_t give(const struct folder_owner *owner, int descriptor, const char *name, int depth)
{
    struct stat about;
    size_t count = 0;
    if (fstat(descriptor, &about) != 0) {
        (void)close(descriptor);
        return 0;
    }
    bool is_folder = S_ISDIR(about.st_mode);
    bool is_plain = S_ISREG(about.st_mode) && about.st_nlink == 1;
    if (about.st_uid == 0 && (is_folder || is_plain)) {
        count = 1;
        if (fchown(descriptor, owner->user, owner->group) != 0) {
            (void)fprintf(stderr, "psckpt: %s stays root's: %s\n", name, strerror(errno));
            count = 0;
        }
    }
    if (is_folder && depth < DEPTH_MAX)
        return count + give_below(owner, descriptor, depth + 1);
    (void)close(descriptor);
    return count;
}

/* Takes the descriptor, which the folder closes. */
static size_t give_below(const struct folder_owner *owner, int descriptor, int depth)
{
    DIR *folder = fdopendir(descriptor);
    size_t count = 0;
    if (folder == NULL) {
        (void)close(descriptor);
        return 0;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        /* Without waiting: a pipe that lies there has no other end. */
        int below =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (below >= 0)
            count += give(owner, below, entry->d_name, depth);
    }
    (void)closedir(folder);
    return count;
}
