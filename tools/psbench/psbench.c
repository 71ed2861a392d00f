/* SPDX-License-Identifier: Apache-2.0 */
/* psbench: measures the server beside what the machine can do. A figure of a server alone says
 * little: it is the machine's as much as the program's. So every benchmark measures, in the same
 * run and between its own repeats, what the machine can do without us (sockets, gRPC, memory,
 * disk), and reports the quotient. The results are checked as well: a fast server that loses
 * updates would otherwise win. */
#include "tools/psbench/psbench.h"

#include "base/alloc.h"
#include "base/output.h"
#include "base/program.h"
#include "tools/psbench/psbench_guard.h"
#include "tools/psbench/psbench_output.h"
#include "tools/psbench/psbench_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static int run_guarded(struct ps_bench_options *options);
static int measure(void *context, const char *folder);
static void forget_server_settings(void);
static enum ps_status run_and_print(const struct ps_bench_options *options, const char *folder,
                                    struct ps_error *error);
static bool find_program(const struct ps_bench_options *options, char path[PS_BENCH_PATH_MAX]);

/* Nothing is started before the options are right, and then everything happens in a child process
 * under a guard that cleans up after it. */
int main(int argc, char **argv)
{
    struct ps_bench_options options;
    struct ps_error error = {0};
    if (ps_bench_options_init(&options, argc, argv, &error) != PS_OK) {
        (void)fprintf(stderr, "psbench: %s\n", error.text);
        return EX_USAGE;
    }
    if (options.help)
        return ps_output_end("psbench", ps_program_print(ps_bench_option_set(), ps_options_help));
    if (options.man)
        return ps_output_end("psbench", ps_program_print(ps_bench_option_set(), ps_options_man));
    if (options.version) {
        (void)printf("psbench %s (%s)\n", PS_VERSION, ps_bench_commit);
        return ps_output_end("psbench", EXIT_SUCCESS);
    }
    return run_guarded(&options);
}

/* The private folder decides which disk is measured; /tmp is memory on many machines, which the
 * report shows as the file system's name. */
static int run_guarded(struct ps_bench_options *options)
{
    const char *parent = options->folder;
    if (parent == NULL)
        parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0')
        parent = "/tmp";
    return ps_bench_guard(parent, measure, options);
}

/* In the process that measures; returns its exit code. The namespace is entered first, because
 * every socket and every server has to be inside it. A refusal of rights has a status of its own,
 * so that a script can try again without the namespace. */
static int measure(void *context, const char *folder)
{
    const struct ps_bench_options *options = context;
    struct ps_error error = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    forget_server_settings();
    /* A server that is killed on purpose makes gRPC complain on standard error; a caller who wants
     * to see that sets the variable. */
    (void)setenv("GRPC_VERBOSITY", "NONE", 0);
    /* A trainer that links the library would choose this for itself; the report says which it
     * was. */
    if (options->tune_malloc)
        ps_allocator_keep_freed();
    enum ps_status status = PS_OK;
    if (options->name_space != NULL)
        status = ps_bench_enter_namespace(options->name_space, &error);
    if (status == PS_OK)
        status = run_and_print(options, folder, &error);
    if (status != PS_OK)
        (void)fprintf(stderr, "psbench: %s: %s\n", options->name, error.text);
    int code = status == PS_OK ? EXIT_SUCCESS : EX_SOFTWARE;
    if (status == PS_ERR_DENIED)
        code = EX_NOPERM;
    return ps_output_end("psbench", code);
}

/* PSERVER_... in the environment is meant for other servers than the private ones: a PSERVER_ACK
 * left over in a shell would change what is measured without a word in the report. The walk begins
 * anew after each removal, since unsetenv moves the rest of the list. */
static void forget_server_settings(void)
{
    static const char prefix[] = "PSERVER_";
    for (size_t i = 0; environ[i] != NULL;) {
        char name[256];
        size_t size = strcspn(environ[i], "=");
        bool other = strncmp(environ[i], prefix, sizeof prefix - 1) != 0 || size >= sizeof name;
        if (!other) {
            memcpy(name, environ[i], size);
            name[size] = '\0';
        }
        if (other || unsetenv(name) != 0)
            i++;
        else
            i = 0;
    }
}

/* The report is printed only when it is whole and its results were right: a median over half the
 * repeats, or of a run that lost pushes, would be quoted all the same. The machine is described
 * before the run, while it is still quiet. */
static enum ps_status run_and_print(const struct ps_bench_options *options, const char *folder,
                                    struct ps_error *error)
{
    /* The report has room for all rows and repeats and is too large for a stack. */
    struct ps_bench *bench = ps_zeroed(ps_allocator_heap(), sizeof *bench);
    if (bench == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the report");
    char program[PS_BENCH_PATH_MAX];
    bench->options = options;
    bench->folder = folder;
    bench->program = program;
    ps_bench_machine_learn(&bench->machine, folder, options->tune_malloc);
    enum ps_status status = PS_OK;
    if (!find_program(options, program))
        status = ps_fail(error, PS_ERR_NOT_FOUND, "no server to measure at %s: use --pserver FILE",
                         program);
    if (status == PS_OK)
        status = ps_bench_run(bench, error);
    /* A page was written already. */
    if (status == PS_OK && bench->report.row_count > 0)
        ps_bench_print(options, &bench->machine, &bench->report);
    if (status == PS_OK && options->plot != NULL)
        status = ps_bench_plot(options->plot, options, &bench->machine, &bench->report, error);
    ps_release(ps_allocator_heap(), bench);
    return status;
}

/* The server beside this program, unless another was named. False: it cannot be run. */
static bool find_program(const struct ps_bench_options *options, char path[PS_BENCH_PATH_MAX])
{
    if (options->program == NULL)
        return ps_bench_program_beside("pserver", path);
    (void)snprintf(path, PS_BENCH_PATH_MAX, "%s", options->program);
    return access(path, X_OK) == 0;
}
