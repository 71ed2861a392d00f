/* SPDX-License-Identifier: Apache-2.0 */
/* A group's limit holds for all groups within it, so each group from that of this process up to
 * the root is asked. Inside a container the path may be that of the host, which is not there: then
 * the root of what is mounted is the container's own group, and is asked last. */
#include "base/memory_limit.h"

#include "base/assert.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process of version 1 is in a dozen groups, one line each. */
enum { LINES_BYTES_MAX = 8192, PATH_BYTES_MAX = 4096 };

/* Where a version has its groups, and what the file with the limit is called. */
struct group_kind {
    const char *folder;
    const char *file;
};
static const struct group_kind version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"};
static const struct group_kind version_2 = {"/sys/fs/cgroup", "memory.max"};

static uint64_t lowest_above(const char *root, const struct group_kind *kind, const char *path);
static const struct group_kind *kind_of(const char *line, const char **path);
static bool read_text(const char *path, char *text, size_t size);

/* Asked once at the start: a limit that is changed later is met by the kernel, and not by us. A
 * group's limit above the machine's memory limits nothing. */
uint64_t ps_memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
    uint64_t groups = ps_memory_limit_of_groups("");
    /* Version 1 says "no limit" as a number that is larger than any machine. */
    if (machine == 0)
        return groups == UINT64_MAX ? 0 : groups;
    return groups < machine ? groups : machine;
}

/* Every line is looked at: a machine that is being moved from version 1 to 2 has both, and either
 * may have the limit. */
uint64_t ps_memory_limit_of_groups(const char *root)
{
    char path[PATH_BYTES_MAX];
    char lines[LINES_BYTES_MAX];
    uint64_t lowest = UINT64_MAX;
    PS_ASSERT(root != NULL);
    int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (length < 0 || (size_t)length >= sizeof path || !read_text(path, lines, sizeof lines))
        return lowest;
    /* What was cut off at the end of the buffer is the end of a path, which is then not found; the
     * groups around it are. */
    char *rest = lines;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        const char *group = NULL;
        const struct group_kind *kind = kind_of(line, &group);
        uint64_t limit = kind != NULL ? lowest_above(root, kind, group) : UINT64_MAX;
        lowest = limit < lowest ? limit : lowest;
    }
    return lowest;
}

/* "0::/path" is version 2, "9:memory:/path" the memory of version 1; a machine may have both. */
static const struct group_kind *kind_of(const char *line, const char **path)
{
    const char *controllers = strchr(line, ':');
    const char *after = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (after == NULL)
        return NULL;
    *path = after + 1;
    if (after == controllers + 1)
        return &version_2;
    /* Controllers that are mounted together are one list: "memory,hugetlb". */
    const char *memory = strstr(controllers, "memory");
    return memory != NULL && memory < after ? &version_1 : NULL;
}

/* One file; UINT64_MAX for "max", and where there is none: the root of version 2 has no limit and
 * no file, and a controller may not be mounted at all. A limit of 0 is taken as it is, and the
 * bounds that are derived from it have least values of their own. */
static uint64_t limit_of(const char *path)
{
    char text[64];
    char *end;
    if (!read_text(path, text, sizeof text))
        return UINT64_MAX;
    unsigned long long limit = strtoull(text, &end, 10);
    return end == text ? UINT64_MAX : (uint64_t)limit;
}

/* A path of the host may be longer than any that exists here: what does not fit is not there. */
static uint64_t lowest_above(const char *root, const struct group_kind *kind, const char *path)
{
    char group[PATH_BYTES_MAX];
    char file[PATH_BYTES_MAX];
    uint64_t lowest = UINT64_MAX;
    int length = snprintf(group, sizeof group, "%s", path);
    if (length < 0 || (size_t)length >= sizeof group)
        group[0] = '\0';
    for (;;) {
        length = snprintf(file, sizeof file, "%s%s%s/%s", root, kind->folder, group, kind->file);
        uint64_t limit = length > 0 && (size_t)length < sizeof file ? limit_of(file) : UINT64_MAX;
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(group, '/');
        /* Behind the group above all, which is where the version is mounted. */
        if (slash == NULL)
            return lowest;
        *slash = '\0';
    }
}

/* Files of the kernel have no size that could be asked for; each of these is one read. */
static bool read_text(const char *path, char *text, size_t size)
{
    PS_ASSERT(size > 1);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    ssize_t count = read(descriptor, text, size - 1);
    (void)close(descriptor);
    if (count <= 0)
        return false;
    text[count] = '\0';
    return true;
}
