/* Reads /proc for what a reader of figures wants to know. */
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

#define PAGE_BYTES 8192

static void read_text(const char *path, char text[PAGE_BYTES]);
static void copy_line(char *destination, size_t size, const char *text);
static void learn_processor(struct ps_bench_machine *machine);
static const char *file_system_name(const char *folder);

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
    read_text("/proc/sys/net/ipv4/tcp_congestion_control", text);
    copy_line(machine->congestion_control, sizeof machine->congestion_control, text);
    (void)snprintf(machine->file_system, sizeof machine->file_system, "%s",
                   file_system_name(folder));
    (void)snprintf(machine->allocator, sizeof machine->allocator, "glibc %.20s, %s",
                   gnu_get_libc_version(), tuned ? "freed buffers kept" : "defaults");
}

static void learn_processor(struct ps_bench_machine *machine)
{
    char text[PAGE_BYTES];
    read_text("/proc/cpuinfo", text);
    const char *found = strstr(text, "model name");
    const char *colon = found != NULL ? strchr(found, ':') : NULL;
    copy_line(machine->processor, sizeof machine->processor,
              colon != NULL ? colon + strspn(colon, ": \t") : "");
}

/* The first bytes of a file as text; empty when it cannot be read. */
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

static void copy_line(char *destination, size_t size, const char *text)
{
    int length = (int)strcspn(text, "\n");
    (void)snprintf(destination, size, "%.*s", length > 0 ? length : 7,
                   length > 0 ? text : "unknown");
}

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
