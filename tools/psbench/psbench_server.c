/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, watches and kills a server; reads its log. The server is a process like an operator's,
 * with nothing changed inside for measuring: everything about it is learnt from its log alone. The
 * server listens on a port that the kernel chooses, which the log says, and dies with psbench. */
#include "tools/psbench/psbench_server.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

/* A recovery of a large shard counts as starting. */
#define START_MS 60000
#define LOG_BYTES_MAX ((size_t)16 << 20)
#define TEXT_BYTES 64
#define NUMBERS_MAX 8
/* Longer than any line that a server logs; a line that is cut still has its beginning. */
#define LINE_BYTES 2048

/* The command line: words point to the wish and to `texts`. The words of a process's command line
 * must stay where they are until exec; numbers are printed into the structure itself. */
struct command {
    const char *words[PS_BENCH_SERVER_ARGUMENTS_MAX];
    size_t count;
    char numbers[NUMBERS_MAX][TEXT_BYTES]; /* that some of the words point to */
    size_t number_count;
};

static void build_command(struct command *command, const struct ps_bench_server *server,
                          const struct ps_bench_server_wish *wish);
static void add(struct command *command, const char *flag, const char *value);
static void add_number(struct command *command, const char *flag, uint64_t number,
                       const char *unit);
static void become_server(const struct command *command, int log);
static enum ps_status wait_until_serving(struct ps_bench_server *server, struct ps_error *error);
static enum ps_status start_warden(struct ps_bench_server *server, struct ps_error *error);
static void watch(void *argument);
static enum ps_status last_words(const struct ps_bench_server *server, struct ps_error *error);
static bool read_event(const struct ps_bench_server *server, const char *event,
                       char line[LINE_BYTES]);
static char *read_log(const struct ps_bench_server *server);
static const char *last_line_with(const char *log, const char *text);

/* The log is emptied, so that lines of an earlier life are not taken for this one's. The clock of a
 * start begins before the fork. On failure the process is gone and collected, so the structure may
 * be used for another try. */
enum ps_status ps_bench_server_start(struct ps_bench_server *server,
                                     const struct ps_bench_server_wish *wish,
                                     struct ps_error *error)
{
    /* A server that runs would be lost, and with it its process. */
    PS_ASSERT(server->pid == 0);
    (void)snprintf(server->log, sizeof server->log, "%s/%s.log", wish->folder, wish->name);
    server->data[0] = '\0';
    if (wish->ack != NULL)
        (void)snprintf(server->data, sizeof server->data, "%s/%s", wish->folder, wish->name);
    struct command command;
    build_command(&command, server, wish);
    int log = open(server->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log < 0)
        return ps_fail(error, PS_ERR_IO, "%s: %s", server->log, strerror(errno));
    server->started_ns = ps_clock_precise_ns();
    server->pid = fork();
    if (server->pid == 0)
        become_server(&command, log);
    (void)close(log);
    if (server->pid < 0) {
        server->pid = 0;
        return ps_fail(error, PS_ERR_NO_MEMORY, "no process for the server: %s", strerror(errno));
    }
    PS_TRY(wait_until_serving(server, error));
    return start_warden(server, error);
}

/* Checkpoints of its own accord would disturb any measurement, so the interval is a day. Options
 * that a wish does not set are left to the server, so that its defaults are what is measured. The
 * order has no meaning. */
static void build_command(struct command *command, const struct ps_bench_server *server,
                          const struct ps_bench_server_wish *wish)
{
    *command = (struct command){.words = {wish->program, "--listen", "127.0.0.1:0"}, .count = 3};
    add_number(command, "--message-bytes", wish->message_bytes, "");
    add(command, "--checkpoint-interval", "24h");
    /* Servers are killed, not drained; should one be stopped in an orderly way, it must not wait
     * for clients. */
    add(command, "--drain", "1s");
    /* One step may have all of it. */
    if (wish->rendezvous_bytes > 0) {
        add_number(command, "--rendezvous-bytes", wish->rendezvous_bytes, "");
        add_number(command, "--rendezvous-step-bytes", wish->rendezvous_bytes, "");
    }
    if (wish->lanes > 0)
        add_number(command, "--lanes", wish->lanes, "");
    if (wish->busy_poll != NULL)
        add(command, "--busy-poll", wish->busy_poll);
    if (wish->ack != NULL) {
        add(command, "--data-dir", server->data);
        add(command, "--ack", wish->ack);
        if (wish->no_journal)
            add(command, "--no-journal", NULL);
    }
    if (wish->count > 0) {
        add_number(command, "--index", wish->index, "");
        add_number(command, "--num-pservers", wish->count, "");
    }
    if (wish->ttl_ms > 0)
        add_number(command, "--etcd-ttl", wish->ttl_ms, "ms");
    /* Clients show none: who they are makes no difference to what their calls cost. */
    if (wish->certificate != NULL) {
        add(command, "--tls-cert", wish->certificate);
        add(command, "--tls-key", wish->key);
    }
    if (!wish->tune_malloc)
        add(command, "--no-tune-malloc", NULL);
}

/* One place stays free: the list ends with NULL. */
static void add(struct command *command, const char *flag, const char *value)
{
    PS_ASSERT(command->count + 3 < PS_BENCH_SERVER_ARGUMENTS_MAX);
    command->words[command->count++] = flag;
    if (value != NULL)
        command->words[command->count++] = value;
}

/* The unit is part of the text, as on a command line. */
static void add_number(struct command *command, const char *flag, uint64_t number, const char *unit)
{
    PS_ASSERT(command->number_count < NUMBERS_MAX);
    char *text = command->numbers[command->number_count++];
    (void)snprintf(text, TEXT_BYTES, "%llu%s", (unsigned long long)number, unit);
    add(command, flag, text);
}

/* In the child, between fork and exec, where only what a signal handler may do is allowed: other
 * threads of the parent may have held any lock. The signal mask is inherited from the guard and has
 * to be cleared, or the server could not be stopped. */
static void become_server(const struct command *command, int log)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    (void)execv(command->words[0], (char *const *)(uintptr_t)command->words);
    static const char sorry[] = "psbench: cannot run the server's program\n";
    (void)!write(STDERR_FILENO, sorry, sizeof sorry - 1);
    _exit(127);
}

/* A server that listens does not yet serve: it may be loading for minutes. Reading the log again
 * each millisecond is cheap while nothing is measured. The address is taken from the line that
 * names the port which the kernel chose. */
static enum ps_status wait_until_serving(struct ps_bench_server *server, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, START_MS);
    while (ps_time_left_ms(clock, deadline_ms) > 0) {
        char line[LINE_BYTES];
        bool serving = read_event(server, "serving index=", line) &&
                       read_event(server, "listening address=", line) &&
                       sscanf(strstr(line, "address="), "address=%63s", server->address) == 1;
        if (serving) {
            server->serving_ns = ps_clock_precise_ns();
            return PS_OK;
        }
        /* The server ended before it served: the port was taken, the disk is full, or an option is
         * wrong. */
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return last_words(server, error);
        }
        (void)usleep(1000);
    }
    ps_bench_server_kill(server);
    return ps_fail(error, PS_ERR_TIMEOUT, "the server did not serve within a minute");
}

/* Only a server that serves has a warden: one that ends before is reported by the start. */
static enum ps_status start_warden(struct ps_bench_server *server, struct ps_error *error)
{
    atomic_store(&server->ending, false);
    enum ps_status status = ps_thread_start(&server->warden, "warden", watch, server, error);
    if (status != PS_OK)
        ps_bench_server_kill(server);
    return status;
}

/* Waits for the server's end without collecting it, so that its process id stays valid for whoever
 * kills it. An end that nobody ordered ends the whole benchmark at once: clients would look for the
 * server for a minute, and the figures would be worth nothing. The text is printed from this
 * thread, because the main one sleeps or waits for clients that will not come back. */
static void watch(void *argument)
{
    struct ps_bench_server *server = argument;
    siginfo_t end;
    while (waitid(P_PID, (id_t)server->pid, &end, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
    if (atomic_load(&server->ending))
        return;
    struct ps_error error = {0};
    (void)last_words(server, &error);
    (void)fprintf(stderr, "psbench: %s\n", error.text);
    _exit(EX_SOFTWARE);
}

/* Why it ended, in its own words. The last line of the log, which for a failed start is the reason.
 * An empty log gives an empty sentence; the status says enough then. */
static enum ps_status last_words(const struct ps_bench_server *server, struct ps_error *error)
{
    char line[LINE_BYTES];
    (void)read_event(server, "", line);
    return ps_fail(error, PS_ERR_UNAVAILABLE, "the server ended: %s", line);
}

/* The warden is told first; after the kill it wakes up, sees that the end was meant, and can be
 * joined. */
void ps_bench_server_kill(struct ps_bench_server *server)
{
    if (server->pid == 0)
        return;
    atomic_store(&server->ending, true);
    (void)kill(server->pid, SIGKILL);
    if (server->warden.started)
        ps_thread_join(&server->warden);
    ps_bench_process_end(&server->pid);
}

/* Milliseconds of the day, as the log has them; differences across midnight are the caller's to
 * mend. */
int64_t ps_bench_server_event_ms(const struct ps_bench_server *server, const char *event)
{
    char line[LINE_BYTES];
    int hour = 0, minute = 0, second = 0, ms = 0;
    if (!read_event(server, event, line) ||
        sscanf(line, "%*d-%*d-%*dT%2d:%2d:%2d.%3dZ", &hour, &minute, &second, &ms) != 4)
        return -1;
    return (((int64_t)hour * 60 + minute) * 60 + second) * 1000 + ms;
}

/* Fields are "name=value", separated by spaces. */
int64_t ps_bench_server_event_field(const struct ps_bench_server *server, const char *event,
                                    const char *field)
{
    char line[LINE_BYTES];
    char wanted[TEXT_BYTES];
    (void)snprintf(wanted, sizeof wanted, " %s=", field);
    const char *found = read_event(server, event, line) ? strstr(line, wanted) : NULL;
    return found != NULL ? strtoll(found + strlen(wanted), NULL, 10) : -1;
}

/* The last complete line of the log with `event` in it; false when there is none. The whole log is
 * read each time: it is small, and the server writes it while we look. A line is copied out, so
 * that nobody keeps a pointer into a log that is released. */
static bool read_event(const struct ps_bench_server *server, const char *event,
                       char line[LINE_BYTES])
{
    char *log = read_log(server);
    const char *last = log != NULL ? last_line_with(log, event) : NULL;
    (void)snprintf(line, LINE_BYTES, "%.*s", last != NULL ? (int)strcspn(last, "\n") : 0,
                   last != NULL ? last : "");
    ps_release(ps_allocator_heap(), log);
    return last != NULL;
}

/* The whole log, to be released; NULL when it cannot be read. ps_file_read_all puts a NUL behind
 * the content. */
static char *read_log(const struct ps_bench_server *server)
{
    uint8_t *content = NULL;
    size_t size = 0;
    if (ps_file_read_all(ps_files_real(), server->log, LOG_BYTES_MAX, ps_allocator_heap(), &content,
                         &size, NULL) != PS_OK)
        return NULL;
    return (char *)content;
}

/* The start of the last complete line that has `text` in it. A line without its newline is still
 * being written, and half a number would be a wrong number. */
static const char *last_line_with(const char *log, const char *text)
{
    const char *last = NULL;
    for (const char *line = log; *line != '\0';) {
        const char *end = strchr(line, '\n');
        const char *found = strstr(line, text);
        if (end == NULL)
            break;
        if (found != NULL && found <= end)
            last = line;
        line = end + 1;
    }
    return last;
}
