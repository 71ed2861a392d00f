/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the kernel knows about this process, each time a page is rendered: nothing is kept, so
 * nothing can be stale. The names are those of Prometheus' own client libraries, so that dashboards
 * made for other programs work for this one. What cannot be read is left out of the page; a
 * container without /proc still has its other metrics. */
#include "base/metrics_process.h"

#include "base/assert.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void append_family(struct ps_buffer *page, const char *name, const char *type,
                          const char *help);
static bool read_text(const char *path, char *text, size_t capacity);
static void render_stat(struct ps_buffer *page);
static void render_descriptors(struct ps_buffer *page);

void ps_metrics_render_process(struct ps_buffer *page)
{
    PS_ASSERT(page != NULL);
    append_family(page, "ps_build_info", "gauge", "What this program was built from. Always 1.");
    ps_buffer_append_text(page, "ps_build_info{version=\"" PS_VERSION "\"} 1\n");
    render_stat(page);
    render_descriptors(page);
}

static void append_family(struct ps_buffer *page, const char *name, const char *type,
                          const char *help)
{
    ps_buffer_append_format(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The text of a small file; what does not fit is left out. */
static bool read_text(const char *path, char *text, size_t capacity)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    size_t size = 0;
    ssize_t got = 1;
    /* Files of /proc may come in several reads and have no size to ask for. */
    while (got > 0 && size < capacity - 1) {
        got = read(descriptor, text + size, capacity - 1 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    text[size] = '\0';
    (void)close(descriptor);
    return got >= 0;
}

/* Field numbers are those of proc(5). The second field is the program's name in parentheses, which
 * may itself hold spaces and parentheses, so the line is read from the last ')' on: a process
 * renamed to "a) R 1" would otherwise choose the numbers that are reported. Field 3 is one letter
 * (the state); numbers begin with field 4. */
bool ps_process_stat_parse(const char *line, struct ps_process_stat *stat)
{
    PS_ASSERT(line != NULL && stat != NULL);
    enum { UTIME = 14, STIME = 15, THREADS = 20, START = 22, VSIZE = 23, RSS = 24 };
    const char *next = strrchr(line, ')');
    if (next == NULL || next[1] != ' ' || next[2] == '\0' || next[3] != ' ')
        return false;
    next += 3;
    uint64_t fields[RSS + 1] = {0};
    for (int i = 4; i <= RSS; i++) {
        char *end = NULL;
        /* Signed, because some fields (nice, tty) are negative; those that are kept never are. */
        fields[i] = (uint64_t)strtoll(next, &end, 10);
        if (end == next)
            return false;
        next = end;
    }
    *stat = (struct ps_process_stat){.cpu_ticks = fields[UTIME] + fields[STIME],
                                     .start_ticks = fields[START],
                                     .virtual_bytes = fields[VSIZE],
                                     .resident_pages = fields[RSS],
                                     .thread_count = fields[THREADS]};
    return true;
}

/* When the machine started, in seconds since 1970; 0 when unknown. Read in small pieces, since the
 * file's line of interrupts grows with the machine. */
static uint64_t machine_start_seconds(void)
{
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return 0;
    uint64_t seconds = 0;
    char piece[256];
    /* A piece may begin in the middle of a long line; "btime " counts only at the start of one. */
    bool at_line_start = true;
    while (seconds == 0 && fgets(piece, sizeof piece, file) != NULL) {
        if (at_line_start && strncmp(piece, "btime ", strlen("btime ")) == 0)
            seconds = strtoull(piece + strlen("btime "), NULL, 10);
        at_line_start = strchr(piece, '\n') != NULL;
    }
    (void)fclose(file);
    return seconds;
}

static void render_stat(struct ps_buffer *page)
{
    char line[4096];
    struct ps_process_stat stat;
    if (!read_text("/proc/self/stat", line, sizeof line) || !ps_process_stat_parse(line, &stat))
        return;
    /* Times are counted in ticks of this many to the second (100 nearly everywhere), sizes partly
     * in bytes and partly in pages. Prometheus wants seconds and bytes. */
    double hertz = (double)sysconf(_SC_CLK_TCK);
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

    append_family(page, "process_cpu_seconds_total", "counter",
                  "Processor time used, user and system.");
    ps_buffer_append_format(page, "process_cpu_seconds_total %.2f\n",
                            (double)stat.cpu_ticks / hertz);
    append_family(page, "process_resident_memory_bytes", "gauge", "Memory in use.");
    ps_buffer_append_format(page, "process_resident_memory_bytes %" PRIu64 "\n",
                            stat.resident_pages * page_bytes);
    append_family(page, "process_virtual_memory_bytes", "gauge", "Address space in use.");
    ps_buffer_append_format(page, "process_virtual_memory_bytes %" PRIu64 "\n", stat.virtual_bytes);
    append_family(page, "process_threads", "gauge", "Threads of this process.");
    ps_buffer_append_format(page, "process_threads %" PRIu64 "\n", stat.thread_count);
    /* The start is given in ticks since the machine's own start; it identifies a restart, which is
     * why scrapers want it as an absolute time. */
    uint64_t start = machine_start_seconds();
    if (start == 0)
        return;
    append_family(page, "process_start_time_seconds", "gauge",
                  "When this process started, since 1970.");
    ps_buffer_append_format(page, "process_start_time_seconds %.2f\n",
                            (double)start + (double)stat.start_ticks / hertz);
}

/* A leak of descriptors is the slowest way for a server to die; this number shows it days
 * before. */
static void render_descriptors(struct ps_buffer *page)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    uint64_t count = 0;
    /* Every entry is one open descriptor but "." and "..", which begin with a dot; numbers never
     * do. */
    for (struct dirent *next = readdir(folder); next != NULL; next = readdir(folder))
        count += next->d_name[0] != '.';
    (void)closedir(folder);
    append_family(page, "process_open_fds", "gauge", "Open file descriptors.");
    /* Without the one that the look itself needs. */
    ps_buffer_append_format(page, "process_open_fds %" PRIu64 "\n", count - 1);

    /* The limit beside the count: alerts are written on the quotient of both. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    append_family(page, "process_max_fds", "gauge", "Most file descriptors allowed.");
    ps_buffer_append_format(page, "process_max_fds %" PRIu64 "\n", (uint64_t)limit.rlim_cur);
}
