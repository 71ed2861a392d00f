/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as users run them: a process with a command line, whose output is read when it has
 * ended. Standard output of psbench itself is for figures alone, so everything that a program says
 * goes to files of the private folder. */
#include "tools/psbench/psbench_program.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

/* A program that complains more than that is cut; its last line is what counts. */
#define LOG_BYTES_MAX ((size_t)1 << 20)

static void become_program(const char *const *words, int output, int log);
static enum ps_status wait_for(pid_t child, const char *log, struct ps_error *error);
static enum ps_status last_words(const char *log, struct ps_error *error);

/* By the link of the running program and not by argv[0], which is whatever the caller wrote. */
bool ps_bench_program_beside(const char *name, char path[PS_BENCH_PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", path, PS_BENCH_PATH_MAX - 1);
    path[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t room = slash != NULL ? (size_t)(path + PS_BENCH_PATH_MAX - slash - 1) : 0;
    if (slash == NULL || strlen(name) >= room)
        return false;
    (void)snprintf(slash + 1, room, "%s", name);
    return access(path, X_OK) == 0;
}

/* Files are opened before the fork, so that a folder that is not there is told in words. */
enum ps_status ps_bench_program_run(const char *const *words, const char *output,
                                    struct ps_error *error)
{
    char log[PS_BENCH_PATH_MAX + 8];
    (void)snprintf(log, sizeof log, "%s.log", output);
    int out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int err = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_t child = -1;
    if (out >= 0 && err >= 0)
        child = fork();
    if (child == 0)
        become_program(words, out, err);
    /* Of whichever of the three failed first; closing may change it. */
    int why = errno;
    if (out >= 0)
        (void)close(out);
    if (err >= 0)
        (void)close(err);
    if (child < 0)
        return ps_fail(error, PS_ERR_IO, "%s cannot be run: %s", words[0], strerror(why));
    return wait_for(child, log, error);
}

/* In the child, between fork and exec, where only what a signal handler may do is allowed. */
static void become_program(const char *const *words, int output, int log)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(output, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    (void)execv(words[0], (char *const *)(uintptr_t)words);
    _exit(EX_UNAVAILABLE);
}

/* A signal is like any other end but the good one. */
static enum ps_status wait_for(pid_t child, const char *log, struct ps_error *error)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? PS_OK : last_words(log, error);
}

/* The last line that it wrote; a program that ends without a word has only its status. */
static enum ps_status last_words(const char *log, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    uint8_t *content = NULL;
    size_t size = 0;
    if (ps_file_read_all(ps_files_real(), log, LOG_BYTES_MAX, memory, &content, &size, NULL) !=
        PS_OK)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the program ended early");
    while (size > 0 && content[size - 1] == '\n')
        content[--size] = '\0';
    const char *line = strrchr((const char *)content, '\n');
    line = line != NULL ? line + 1 : (const char *)content;
    enum ps_status status = ps_fail(error, PS_ERR_UNAVAILABLE, "the program ended: %.200s", line);
    ps_release(memory, content);
    return status;
}
