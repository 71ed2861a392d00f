/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc for what a reader of figures wants to know. Figures travel: into notes, tickets,
 * other people's tables. Everything they depend on has to be printed in the same report, and from
 * the machine itself, since people remember it wrongly. */
#include "tools/psbench/psbench_machine.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Enough for the first processor's part of /proc/cpuinfo. */
#define PAGE_BYTES 8192

static void read_text(const char *path, char text[PAGE_BYTES]);
static void copy_line(char *destination, size_t size, const char *text);
static void learn_processor(struct ps_bench_machine *machine);
static const char *file_system_name(const char *folder);

/* Cores are those that this process may use: in a container they are fewer than the machine has.
 * The load average shows whether somebody else was at work. Whether freed buffers are kept changes
 * large messages by half, so the allocator's setting is part of the machine here. */
void ps_bench_machine_learn(struct ps_bench_machine *machine, const char *folder, bool tuned)
{
    char text[PAGE_BYTES];
    *machine = (struct ps_bench_machine){.commit = ps_bench_commit};
    learn_processor(machine);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        machine->cores = (uint32_t)CPU_COUNT(&cores);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        machine->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    struct utsname name;
    if (uname(&name) == 0)
        (void)snprintf(machine->kernel, sizeof machine->kernel, "%.60s %.60s", name.sysname,
                       name.release);
    read_text("/proc/loadavg", text);
    machine->load = strtod(text, NULL);
    /* Of the namespace that the process is in. */
    read_text("/proc/sys/net/ipv4/tcp_congestion_control", text);
    copy_line(machine->congestion_control, sizeof machine->congestion_control, text);
    (void)snprintf(machine->file_system, sizeof machine->file_system, "%s",
                   file_system_name(folder));
    (void)snprintf(machine->allocator, sizeof machine->allocator, "glibc %.20s, %s",
                   gnu_get_libc_version(), tuned ? "freed buffers kept" : "defaults");
}

/* The first of all processors; machines with two kinds of cores are not distinguished. On machines
 * whose /proc/cpuinfo has no such line (some ARM systems) the name is "unknown", and cores and
 * kernel have to do. */
static void learn_processor(struct ps_bench_machine *machine)
{
    char text[PAGE_BYTES];
    read_text("/proc/cpuinfo", text);
    const char *found = strstr(text, "model name");
    const char *colon = found != NULL ? strchr(found, ':') : NULL;
    copy_line(machine->processor, sizeof machine->processor,
              colon != NULL ? colon + strspn(colon, ": \t") : "");
}

/* The first bytes of a file as text; empty when it cannot be read. Files of /proc have no size; one
 * read gets as much as is wanted of them. A file that is not there reads as empty, so that every
 * caller needs one case only. */
static void read_text(const char *path, char text[PAGE_BYTES])
{
    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t got = read(file, text, PAGE_BYTES - 1);
    text[got > 0 ? got : 0] = '\0';
    (void)close(file);
}

/* An empty line says "unknown", so that a reader does not take it for a fault of the table. The
 * first line only, and cut to the room there is. */
static void copy_line(char *destination, size_t size, const char *text)
{
    int length = (int)strcspn(text, "\n");
    (void)snprintf(destination, size, "%.*s", length > 0 ? length : 7,
                   length > 0 ? text : "unknown");
}

/* tmpfs is the one that matters: a disk benchmark on it measures memory. Numbers from statfs(2). An
 * unknown file system is no error: its figures are as good as any, only its name is missing. */
static const char *file_system_name(const char *folder)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } known[] = {
        {0xEF53, "ext4"},      {0x58465342, "xfs"},       {0x9123683E, "btrfs"},
        {0x01021994, "tmpfs"}, {0x794C7630, "overlayfs"}, {0x6969, "nfs"},
    };
    struct statfs facts;
    if (statfs(folder, &facts) != 0)
        return "unknown";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if ((uint32_t)facts.f_type == known[i].magic)
            return known[i].name;
    }
    return "unknown";
}
