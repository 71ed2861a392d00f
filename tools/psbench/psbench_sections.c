/* SPDX-License-Identifier: Apache-2.0 */
/* Each section is a benchmark that could be run by hand, in a child process: benchmarks fork before
 * they start threads, and what one of them leaves behind in memory or on the disk must not be in
 * the figures of the next. The report comes back through memory that both processes share. */
#include "tools/psbench/psbench_sections.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "tools/psbench/psbench_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a test has time for. Large enough that content still travels through shared memory. */
#define QUICK_SIZE_MAX ((uint64_t)256 << 10)

/* From the smallest model to the largest, then what keeps several workers busy, then the disk. */
static const struct ps_bench_section sections[PS_BENCH_SECTION_COUNT] = {
    /* A model so small that only the call itself counts. */
    [PS_BENCH_SECTION_4_KIB] = {"pushpull", "A parameter of 4 KiB, pushed and pulled", "4KiB",
                                4 << 10, 1, "tcp"},
    /* Call and bytes cost about the same. */
    [PS_BENCH_SECTION_64_KIB] = {"pushpull", "A parameter of 64 KiB, pushed and pulled", "64KiB",
                                 64 << 10, 1, "tcp"},
    /* One layer; gradients still fit the caches. */
    [PS_BENCH_SECTION_1_MIB] = {"pushpull", "A parameter of 1 MiB, pushed and pulled", "1MiB",
                                1 << 20, 1, "tcp"},
    /* Travels in ranges, and fits no cache. */
    [PS_BENCH_SECTION_64_MIB] = {"pushpull", "A parameter of 64 MiB, pushed and pulled", "64MiB",
                                 64 << 20, 1, "tcp"},
    /* What a trainer beside the server saves of the network. */
    [PS_BENCH_SECTION_SHARED] = {"pushpull", "The same on one host, through shared memory",
                                 "shared", 64 << 20, 1, "auto"},
    /* A real model is many parameters, most of them small. */
    [PS_BENCH_SECTION_BATCH] = {"batch", "1,000 parameters of 16 KiB as one step", "batch", 0, 1,
                                "tcp"},
    /* As many workers push: the rate of the server, not of one round trip. */
    [PS_BENCH_SECTION_PUSH] = {"push", "Pushes of 1 MiB, eight at a time", "push", 1 << 20, 8,
                               "tcp"},
    /* Fewer bytes for network and disk, against the time that encoding takes. */
    [PS_BENCH_SECTION_ENCODING] = {"encoding", "Pushes of 1 MiB in each encoding, eight at a time",
                                   "encoding", 1 << 20, 8, "tcp"},
    /* Whether more machines would help; on one machine, whether its cores are used up. */
    [PS_BENCH_SECTION_SCALE] = {"scale", "Two workers on two servers", "scale", 1 << 20, 1, "tcp"},
    /* A trainer that computes: what a user's own program may come to. */
    [PS_BENCH_SECTION_TRAIN] = {"train", "Logistic regression by two workers on two servers",
                                "train", 0, 0, "tcp"},
    /* The price of the promise, in the shapes that differ most. */
    [PS_BENCH_SECTION_JOURNAL] = {"journal", "What it costs to be on the disk", "journal", 0, 0,
                                  "tcp"},
    /* Whether pushes stop while the shard is saved. */
    [PS_BENCH_SECTION_CHECKPOINT] = {"checkpoint", "Pushes while a checkpoint is written",
                                     "checkpoint", 0, 0, "tcp"},
    /* How long nobody is served after a server was killed. */
    [PS_BENCH_SECTION_RECOVER] = {"recover", "Coming back after a crash", "recover", 0, 0, "tcp"},
};

/* In memory that parent and child share. */
struct apart {
    struct ps_bench_report report; /* names of series are static: the same in both processes */
    struct ps_error error;         /* why there is no report */
    enum ps_status status;         /* of the benchmark */
};

static void set_options(const struct ps_bench *bench, const struct ps_bench_section *section,
                        struct ps_bench_options *options);
static enum ps_status run_apart(const struct ps_bench *bench, const char *folder,
                                struct ps_bench_section_result *result, struct ps_error *error);
static void run_in_child(const struct ps_bench *bench, const char *folder,
                         const struct ps_bench_options *options, struct apart *apart);
static enum ps_status wait_for(pid_t child, const struct apart *apart, struct ps_error *error);

/* The table is the only place that says what a section is. */
const struct ps_bench_section *ps_bench_section_of(enum ps_bench_section_id id)
{
    PS_ASSERT(id < PS_BENCH_SECTION_COUNT);
    return &sections[id];
}

/* The folder goes at once, since a shard of a section may be as large as a disk has room for. */
enum ps_status ps_bench_section_run(const struct ps_bench *bench, enum ps_bench_section_id id,
                                    struct ps_bench_section_result *result, struct ps_error *error)
{
    char folder[PS_BENCH_PATH_MAX];
    const struct ps_bench_section *section = ps_bench_section_of(id);
    int length = snprintf(folder, sizeof folder, "%s/%s", bench->folder, section->picture);
    if (length >= PS_BENCH_PATH_MAX || mkdir(folder, 0700) != 0)
        return ps_fail(error, PS_ERR_IO, "%.400s: %s", folder, strerror(errno));
    set_options(bench, section, &result->options);
    /* A text of its own, because the section's title goes before it. */
    struct ps_error why = {0};
    enum ps_status status = run_apart(bench, folder, result, &why);
    ps_bench_remove_folder(folder);
    return status == PS_OK ? PS_OK : ps_fail(error, status, "%s: %s", section->title, why.text);
}

/* The user's own settings, but for what makes the section. */
static void set_options(const struct ps_bench *bench, const struct ps_bench_section *section,
                        struct ps_bench_options *options)
{
    *options = *bench->options;
    options->name = section->benchmark;
    options->kind = ps_bench_kind_named(section->benchmark);
    PS_ASSERT(options->kind != NULL);
    options->transport = section->transport;
    options->size = section->size > 0 ? section->size : options->kind->size;
    options->outstanding =
        section->outstanding > 0 ? section->outstanding : options->kind->outstanding;
    if (options->quick && options->size > QUICK_SIZE_MAX)
        options->size = QUICK_SIZE_MAX;
    /* A shard has one parameter at least. */
    if (options->shard_size < options->size)
        options->shard_size = options->size;
}

/* The memory is as large as a report; it is given back at once, since what a machine has free is a
 * part of what is measured. */
static enum ps_status run_apart(const struct ps_bench *bench, const char *folder,
                                struct ps_bench_section_result *result, struct ps_error *error)
{
    struct apart *apart =
        mmap(NULL, sizeof *apart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (apart == MAP_FAILED)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the report");
    /* What is buffered would be printed by both. */
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_in_child(bench, folder, &result->options, apart);
    enum ps_status status = PS_OK;
    if (child < 0)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no process: %s", strerror(errno));
    else
        status = wait_for(child, apart, error);
    if (status == PS_OK)
        result->report = apart->report;
    (void)munmap(apart, sizeof *apart);
    return status;
}

/* Servers die with this process, and this process with its parent. */
static void run_in_child(const struct ps_bench *bench, const char *folder,
                         const struct ps_bench_options *options, struct apart *apart)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A bench of its own: steps and disk belong to one run. */
    struct ps_bench *own = ps_zeroed(ps_allocator_heap(), sizeof *own);
    apart->status = PS_ERR_NO_MEMORY;
    if (own != NULL) {
        own->options = options;
        own->program = bench->program;
        own->folder = folder;
        apart->status = ps_bench_run(own, &apart->error);
        apart->report = own->report;
    }
    _exit(EXIT_SUCCESS);
}

/* A child that did not end by itself has no result: it has said why, or the kernel's log does. */
static enum ps_status wait_for(pid_t child, const struct apart *apart, struct ps_error *error)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "it ended with status %d",
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if (apart->status != PS_OK)
        return ps_fail(error, apart->status, "%s", apart->error.text);
    return PS_OK;
}
