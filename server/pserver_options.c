/* SPDX-License-Identifier: Apache-2.0 */
/* The option table of pserver, and what holds between options. The table is the only list: the
 * help, the man page, the shell's completion, the configuration file, the variables of the
 * environment and the printed configuration are made of it, so that an option cannot be in one of
 * them and not in the others. Defaults are written as people write them, and parsed like a value
 * that somebody gave. */
#include "server/pserver_options.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "base/bytes.h"
#include "server/pserver_rules.h"
#include "server/store.h"

#include <string.h>

/* One row of the table. The compiler checks that the options have the field, and not that the field
 * has the C type of the row (base/options.h): a size read into a pointer would compile. */
#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                    \
    {                                                                                     \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_), \
        .choices = (choices_), .help = (help_),                                           \
        .offset = offsetof(struct ps_pserver_options, field)                              \
    }

/* The order of the rows is that of --help and of the man page, so options that are decided together
 * stand together. Durations are kept in milliseconds and sizes in bytes, as the ends of the fields'
 * names say. A row without a fallback begins as NULL, 0 or false. */
static const struct ps_option table[] = {
    /* Where the server is reached. */
    OPTION(
        listen, "listen", PS_OPTION_TEXT, "HOST:PORT", "0.0.0.0:8000", NULL,
        "Address to serve gRPC on. Port 0 picks a free one and logs it. One that another process "
        "has is waited for, 10 s long: it may be the server before this one, still ending."),
    OPTION(listen_unix, "listen-unix", PS_OPTION_TEXT, "PATH", NULL, NULL,
           "Serve through a unix socket at this file, too, open to its owner and group, for "
           "clients that name it (unix:PATH)."),
    OPTION(advertise, "advertise", PS_OPTION_TEXT, "HOST:PORT", NULL, NULL,
           "Address that clients are told, where it differs from the one listened on. Needed when "
           "listening on 0.0.0.0 with --etcd and the host name is not one that clients resolve."),
    OPTION(http, "http", PS_OPTION_TEXT, "HOST:PORT", NULL, NULL,
           "Address for /metrics, /livez and /readyz; https with --tls-cert. Where clients need a "
           "certificate, /metrics does, too, and the probes do not."),
    /* Who may come in. Files are looked at again every second. */
    OPTION(tls_cert, "tls-cert", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "Serve gRPC with TLS (1.2 and up): the certificate and those between it and its "
           "authority, PEM. What is put in its place is taken within seconds."),
    OPTION(tls_key, "tls-key", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "The certificate's private key, PEM, without a password."),
    OPTION(tls_ca, "tls-ca", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "Authorities, PEM, that clients' certificates are checked against."),
    OPTION(tls_client_auth_text, "tls-client-auth", PS_OPTION_CHOICE, "WHEN", NULL,
           "none|request|require",
           "Whether clients show a certificate; one that is shown is checked. Without it: require "
           "with --tls-ca, else none."),
    OPTION(
        tokens, "tokens", PS_OPTION_TEXT, "FILE", NULL, NULL,
        "Bearer tokens of clients, a line for each: NAME sha256:DIGITS. With it every call shows "
        "one, or a certificate."),
    OPTION(roles, "roles", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "Who may do what, YAML: reader, trainer or admin for jobs and prefixes of parameters. "
           "Without it everybody who comes in may do everything."),
    OPTION(
        local_uids_text, "local-uids", PS_OPTION_TEXT, "N[,N]|none", NULL, NULL,
        "Users, by number, whose processes on this host may come in by the unix socket and by "
        "shared memory. Without it: with TLS the server's own, else as the socket's file and its "
        "folder let them."),
    OPTION(insecure, "insecure", PS_OPTION_FLAG, NULL, NULL, NULL,
           "Say nothing about listening beyond loopback without TLS."),
    /* Where servers coordinate, and how long a dead one is waited for. */
    OPTION(etcd, "etcd", PS_OPTION_TEXT, "URL[,URL]", NULL, NULL,
           "etcd's client URLs. Without it the server runs alone, on its data directory."),
    PS_ETCD_ACCESS_OPTIONS(struct ps_pserver_options, etcd_access),
    /* A short lease notices a death sooner, a long one survives a pause of etcd or of this
     * process. */
    OPTION(etcd_ttl_ms, "etcd-ttl", PS_OPTION_DURATION, "TIME", "10s", NULL,
           "Lease on the shard: a dead server is replaced after this long."),
    /* Which shard this is to be. */
    OPTION(num_pservers, "num-pservers", PS_OPTION_UINT, "N", "1", NULL,
           "Shards of the job, written to /ps_desired if nobody has yet."),
    /* The index is read as text, so that "not given" differs from shard 0; parse_index makes the
     * number. */
    OPTION(index_text, "index", PS_OPTION_TEXT, "N", NULL, NULL,
           "The one shard to serve. Without it: the lowest that is free."),
    OPTION(job, "job", PS_OPTION_TEXT, "NAME", "", NULL,
           "Prefix of the job's keys in etcd and of its folder in the data directory."),
    OPTION(
        data_dir, "data-dir", PS_OPTION_TEXT, "DIR", NULL, NULL,
        "Where checkpoints go. Servers that may take over each other's shards need the same one."),
    OPTION(
        checkpoint_interval_ms, "checkpoint-interval", PS_OPTION_DURATION, "TIME", "60s", NULL,
        "Time between checkpoints; what a crash can cost without a journal. None is written while "
        "nothing changes."),
    OPTION(increments, "increments", PS_OPTION_UINT, "N", "0", NULL,
           "Most checkpoints between two whole ones that have only what changed since the last "
           "whole one: rows of tables that were pushed to, and other parameters. As many times as "
           "much journal is kept. 0: every checkpoint is whole."),
    OPTION(
        model_checkpoint_interval_ms, "model-checkpoint-interval", PS_OPTION_DURATION, "TIME", "0s",
        NULL,
        "Time between snapshots of the whole model, which the server of shard 0 asks for; of what "
        "nobody changes, too. 0: only when asked (psctl checkpoint --model)."),
    OPTION(model_checkpoints_keep, "model-checkpoints-keep", PS_OPTION_UINT, "N", "2", NULL,
           "Snapshots of the whole model (psctl checkpoint --model) that stay: the newest N, 1 to "
           "64. Servers of a job are given the same number."),
    /* What is kept on the disk, and what a push waits for before it is acknowledged. */
    OPTION(checkpoint_journal_bytes, "checkpoint-journal-bytes", PS_OPTION_BYTES, "SIZE", "0", NULL,
           "Most journal that is kept, besides what is written while a checkpoint is, and a file: "
           "when half of it was written since the last checkpoint, another is begun. 0: twice the "
           "bytes of the shard's values and optimizer state, at least 1GiB."),
    /* The right level depends on whether there is a journal: check_journal fills the default in,
     * and not the table. */
    OPTION(ack, "ack", PS_OPTION_CHOICE, "LEVEL", NULL, "memory|logged",
           "When a push counts as acknowledged, unless it says so itself: applied in memory, or "
           "durable in the journal. Without it: logged when there is a journal, else memory."),
    OPTION(journal, "journal", PS_OPTION_FLAG, NULL, "true", NULL,
           "Keep a journal of all pushes in the data directory."),
    OPTION(journal_keep, "journal-keep", PS_OPTION_FLAG, NULL, NULL, NULL,
           "Keep journal files that no recovery needs any more, as a record of all pushes."),
    OPTION(journal_segment_bytes, "journal-segment-bytes", PS_OPTION_BYTES, "SIZE", "64MiB", NULL,
           "Size at which another journal file is begun."),
    OPTION(
        journal_sync, "journal-sync", PS_OPTION_CHOICE, "WAY", "auto", "auto|direct|buffered",
        "How the journal goes to the disk: past the system's cache, which is faster and takes no "
        "memory for pages that nobody reads, or through it. auto: direct where the file system "
        "can; the log says which. direct: where it cannot, the server does not serve."),
    /* A bound on memory and not on time: a disk that stands still must not take the memory that the
     * shard needs, and a refused push can be sent again. */
    OPTION(
        journal_queue_bytes, "journal-queue-bytes", PS_OPTION_BYTES, "SIZE", "64MiB", NULL,
        "Gradients, in bytes, that may wait for the disk; when so much waits, pushes are refused."),
    /* What clients may take of this server's memory and memory for them. */
    OPTION(staging_bytes, "staging-bytes", PS_OPTION_BYTES, "SIZE", "1GiB", NULL,
           "Most bytes that wait for the rest of their ranges; a client may have half of it, and "
           "one request always fits."),
    OPTION(rendezvous_bytes, "rendezvous-bytes", PS_OPTION_BYTES, "SIZE", "1GiB", NULL,
           "Most bytes of values that processes have sent each other and nobody has received; "
           "more are refused (RESOURCE_EXHAUSTED), to be sent again."),
    OPTION(rendezvous_step_bytes, "rendezvous-step-bytes", PS_OPTION_BYTES, "SIZE", "1GiB", NULL,
           "Of these, in one step."),
    OPTION(rendezvous_steps, "rendezvous-steps", PS_OPTION_UINT, "N", "4096", NULL,
           "Steps in which processes send and receive values, at the same time."),
    OPTION(rendezvous_keys, "rendezvous-keys", PS_OPTION_UINT, "N", "65536", NULL,
           "Keys and receives of one step together. A strict step remembers its keys."),
    OPTION(rendezvous_idle_ms, "rendezvous-idle", PS_OPTION_DURATION, "TIME", "10m", NULL,
           "A step that nobody has used for so long ends, unless it was begun with another time; "
           "whoever waits in it is told."),
    OPTION(
        program_bytes, "program-bytes", PS_OPTION_BYTES, "SIZE", "1GiB", NULL,
        "Most bytes of requests to server programs that are not answered, and of answers that are "
        "kept for repeats, an eighth of it at most; more are refused (RESOURCE_EXHAUSTED)."),
    OPTION(program_requests, "program-requests", PS_OPTION_UINT, "N", "65536", NULL,
           "Requests to one server program that are not answered."),
    OPTION(clients_max, "clients-max", PS_OPTION_UINT, "N", "16384", NULL,
           "Clients whose requests are remembered, so that a retry is answered and not applied "
           "twice. When one more comes, the one that was silent the longest is forgotten: its "
           "retries are refused."),
    /* This age decides only which forgotten clients are counted as forgotten early, never which
     * client is forgotten. */
    OPTION(client_idle_ms, "client-idle", PS_OPTION_DURATION, "TIME", "1h", NULL,
           "A client that has to be forgotten after a shorter silence is counted in "
           "ps_clients_forgotten_early_total: --clients-max is too low then."),
    /* Where parameters live. */
    OPTION(device, "device", PS_OPTION_TEXT, "auto|cpu|cuda:N|cuda:UUID", "auto", NULL,
           "Where parameters live and updates are computed. auto: on the first GPU that can be "
           "had, else on the CPU; the log says why. A GPU that is named and cannot be had ends the "
           "server with code 69. The bits are the same everywhere."),
    OPTION(device_memory_bytes, "device-memory", PS_OPTION_BYTES, "SIZE", "0", NULL,
           "Most memory of the GPU for values and optimizer state; 0: what is free, but for 1GiB "
           "or 5 %. A parameter beyond it lives on the CPU."),
    OPTION(device_min_bytes, "device-min-bytes", PS_OPTION_BYTES, "SIZE", "64KiB", NULL,
           "Parameters whose values are smaller live on the CPU, also where there is a GPU: asking "
           "it takes longer than the update."),
    OPTION(device_readers_bytes, "device-readers-bytes", PS_OPTION_BYTES, "SIZE", "0", NULL,
           "Most memory of the host for values that readers still hold while newer ones are read, "
           "beyond one copy of each parameter on the GPU; 0: as much as those, at least 1GiB. A "
           "pull beyond it is refused (RESOURCE_EXHAUSTED), to be sent again."),
    /* Work that a GPU has begun cannot be taken back, so after this time only another server can go
     * on. */
    OPTION(device_timeout_ms, "device-timeout", PS_OPTION_DURATION, "TIME", "30s", NULL,
           "A GPU that does not answer for so long is dead: the shard is given back, and the "
           "server ends with code 70."),
    /* Limits, so that one client or one model cannot take what others need. */
    OPTION(memory_bytes, "memory-bytes", PS_OPTION_BYTES, "SIZE", "0", NULL,
           "Most memory of the host for values and optimizer state; 0: no limit."),
    OPTION(message_bytes, "message-bytes", PS_OPTION_BYTES, "SIZE", "64MiB", NULL,
           "Largest request. Below 3MiB pserver's own clients, too, are refused what is larger; "
           "from there on they cut it."),
    OPTION(client_bytes, "client-bytes", PS_OPTION_BYTES, "SIZE", "1GiB", NULL,
           "Most bytes of one connection that are on their way at once: requests that are not "
           "answered and replies that are not taken. More is refused (RESOURCE_EXHAUSTED), to be "
           "sent again; one message always goes. 0: no limit."),
    OPTION(client_calls, "client-calls", PS_OPTION_UINT, "N", "256", NULL,
           "Most calls of one connection at once; more wait at the client. A connection that has "
           "twice as many all the same is closed."),
    OPTION(waiting_calls, "waiting-calls", PS_OPTION_UINT, "N", "4096", NULL,
           "Most calls that wait for what other clients do (pulls before the initialisation is "
           "finished, barriers, health watches, reflection streams), half of --client-calls of "
           "one connection. More are refused (RESOURCE_EXHAUSTED), to be sent again."),
    OPTION(open_calls, "open-calls", PS_OPTION_UINT, "N", "16384", NULL,
           "Most calls of all connections at once; beyond it the connection that has the most is "
           "closed."),
    OPTION(
        connections, "connections", PS_OPTION_UINT, "N", "0", NULL,
        "Most connections of clients at once; 0: as many as there are descriptors for, less what "
        "the journal and checkpoints need. A host other than this one may have a quarter, and "
        "at least 64."),
    OPTION(
        unfinished_bytes, "unfinished-bytes", PS_OPTION_BYTES, "SIZE", "0", NULL,
        "Most bytes of requests that have begun to come and are not whole, of all connections "
        "together; beyond it the connection that has the most is closed. 0: a quarter of the "
        "memory. Never less than two of the largest requests; of one connection --client-bytes."),
    /* Threads. Zero and auto follow the machine. */
    OPTION(lanes, "lanes", PS_OPTION_UINT, "N", "0", NULL,
           "Threads that serve calls; 0: one for every two cores."),
    OPTION(update_threads_text, "update-threads", PS_OPTION_TEXT, "N|auto", "auto", NULL,
           "Most threads at one update of 4MiB or more; 1: each is done by one thread. auto: one "
           "for each core, at most 4. The bits do not depend on it."),
    OPTION(
        busy_poll_text, "busy-poll", PS_OPTION_TEXT, "TIME|auto|off", "auto", NULL,
        "How long such a thread looks for the next call before it sleeps: 50us, say. It costs a "
        "processor and saves the time of waking up. auto: up to 250us, while nobody else wants the "
        "processor."),
    OPTION(
        reply_ms, "reply-timeout", PS_OPTION_DURATION, "TIME", "30s", NULL,
        "How long a client may leave a reply lying, and a second more for each MiB; then the call "
        "is given up. How long a request that is not whole may stand still; then its connection is "
        "closed."),
    /* How the server ends. */
    OPTION(drain_ms, "drain", PS_OPTION_DURATION, "TIME", "10s", NULL,
           "How long calls in flight may go on after SIGTERM."),
    OPTION(drain_delay_ms, "drain-delay", PS_OPTION_DURATION, "TIME", "0s", NULL,
           "Pause between telling probes that the server is going and refusing calls."),
    /* What only clients of the same host or old tools need. */
    OPTION(shared_memory, "shared-memory", PS_OPTION_CHOICE, "WHEN", "auto", "auto|on|off",
           "Offer clients on this host to pass content through memory that both share. on: do not "
           "start where that is impossible."),
    OPTION(shared_memory_bytes, "shared-memory-bytes", PS_OPTION_BYTES, "SIZE", "4GiB", NULL,
           "Most memory that all of them together share; what a client brings is its own."),
    OPTION(reflection, "reflection", PS_OPTION_FLAG, NULL, "true", NULL,
           "Offer gRPC server reflection."),
    OPTION(tune_malloc, "tune-malloc", PS_OPTION_FLAG, NULL, "true", NULL,
           "Keep freed message buffers in the process (faster for large messages)."),
    /* What people read. */
    OPTION(log_level_text, "log-level", PS_OPTION_CHOICE, "LEVEL", "info", "debug|info|warn|error",
           "Least important lines that are logged."),
    OPTION(log_format_text, "log-format", PS_OPTION_CHOICE, "FORM", "text", "text|json",
           "Log lines for people or for machines."),
    /* These say what the program does, and are not part of a configuration. */
    OPTION(config, "config", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "YAML file with any of these options, one \"name: value\" a line."),
    OPTION(check_config, "check-config", PS_OPTION_FLAG, NULL, NULL, NULL,
           "Check the options and exit."),
    OPTION(print_config, "print-config", PS_OPTION_FLAG, NULL, NULL, NULL,
           "Print all options with their values as YAML and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

/* Statuses and examples go into --help and the man page as they stand here. Supervisors act on the
 * numbers: a new result of ps_instance_exit_code needs its line. */
static const struct ps_option_set set = {
    .program = "pserver",
    .usage = "pserver [OPTION]...",
    .summary = "Serves one shard of a model's parameters over gRPC.",
    .statuses = "  0   told to stop, and did\n"
                "  64  wrong options: starting again does not help\n"
                "  65  acknowledged state is damaged or not there: the log says what to do\n"
                "  69  it cannot start or go on: an address, a folder, a device, etcd\n"
                "  70  the GPU failed at work\n",
    .examples = "  pserver --listen 127.0.0.1:8000 --data-dir /var/lib/pserver\n"
                "  pserver --listen 0.0.0.0:0 --advertise node7:8000 --etcd http://etcd:2379 \\\n"
                "          --num-pservers 4 --data-dir /shared/checkpoints --http 0.0.0.0:9090\n"
                "  PSERVER_LOG_FORMAT=json pserver --config /etc/pserver.yaml --check-config\n",
    .environment = "PSERVER_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

static enum ps_status read_sources(struct ps_pserver_options *options, int argc, char **argv,
                                   struct ps_error *error);
static enum ps_status find_config(struct ps_pserver_options *options, int argc, char **argv,
                                  struct ps_error *error);
static enum ps_status check_rules(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status check_store(const struct ps_pserver_options *options, struct ps_error *error);

/* For the help, the man page and the tests, which read the table. */
const struct ps_option_set *ps_pserver_option_set(void)
{
    return &set;
}

/* What only prints something is not judged: --help works also beside an option that is wrong. */
enum ps_status ps_pserver_options_init(struct ps_pserver_options *options, int argc, char **argv,
                                       struct ps_error *error)
{
    /* Ended by fini in any case, also when the first flag was wrong. */
    *options = (struct ps_pserver_options){0};
    enum ps_status status = read_sources(options, argc, argv, error);
    if (status == PS_OK && !options->help && !options->man && !options->version)
        status = check_rules(options, error);
    /* The caller ends nothing after a failure, so the texts that were read so far go here. */
    if (status != PS_OK)
        ps_pserver_options_fini(options);
    return status;
}

/* The texts of the configuration file go with it, and every option that points to them. Texts of
 * the command line and of the environment belong to the process and stay. */
void ps_pserver_options_fini(struct ps_pserver_options *options)
{
    ps_config_file_fini(&options->file);
}

/* The flags are read twice: once to learn where the file is, and once more to win over it.
 * Defaults, file, environment, flags: the later one wins, as everywhere. The file's name may come
 * from the environment or a flag, which is why those are read before it, too. */
static enum ps_status read_sources(struct ps_pserver_options *options, int argc, char **argv,
                                   struct ps_error *error)
{
    PS_TRY(find_config(options, argc, argv, error));
    /* The name is kept here because the defaults of the second pass clear the field; its text lies
     * in argv or the environment and stays valid. */
    const char *config = options->config;
    PS_TRY(ps_options_defaults(&set, options, error));
    if (config != NULL)
        PS_TRY(ps_config_file_init(&options->file, &set, options, config, error));
    PS_TRY(ps_options_environment(&set, options, error));
    int words = 0;
    PS_TRY(ps_options_arguments(&set, options, argc, argv, &words, error));
    /* A word without a flag is a flag that was misspelt, or a value with a blank too many. */
    if (words > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "unexpected word \"%s\"; see pserver --help",
                       argv[1]);
    return PS_OK;
}

/* What this pass sets is thrown away but for the file's name: a value that the file is to override
 * must not stay. A mistake on the command line ends the program in this pass already, before a file
 * is opened. */
static enum ps_status find_config(struct ps_pserver_options *options, int argc, char **argv,
                                  struct ps_error *error)
{
    int words = 0;
    PS_TRY(ps_options_defaults(&set, options, error));
    PS_TRY(ps_options_environment(&set, options, error));
    return ps_options_arguments(&set, options, argc, argv, &words, error);
}

/* What one option alone can say was checked when it was set; here is what only several together can
 * say, so that a server refuses to start rather than doing half of what was meant. */
static enum ps_status check_rules(struct ps_pserver_options *options, struct ps_error *error)
{
    PS_ASSERT(options->log_level_text != NULL && options->log_format_text != NULL);
    bool known = ps_log_level_from_text(options->log_level_text, &options->log_level);
    PS_ASSERT(known);
    /* The table has refused every other word. */
    options->log_format = strcmp(options->log_format_text, "json") == 0 ? PS_LOG_JSON : PS_LOG_TEXT;
    PS_TRY(ps_pserver_rules_check(options, error));
    return check_store(options, error);
}

/* Opens what takes no network: that finds URLs and names that are none, and a password whose file
 * is missing. Credentials are not tried, since the store may not be up yet. */
static enum ps_status check_store(const struct ps_pserver_options *options, struct ps_error *error)
{
    PS_ASSERT(options->job != NULL);
    struct ps_store_options wish = {
        .job = options->job, .clock = ps_clock_real(), .memory = ps_allocator_heap()};
    struct ps_error reason = {0};
    struct ps_store *store = NULL;
    /* The job's name is judged alone first, so that a bad name is not reported as a bad URL. */
    if (ps_store_open(&wish, &store, &reason) != PS_OK)
        return ps_fail(error, reason.status, "--job: %s", reason.text);
    ps_store_close(store);
    if (options->etcd == NULL)
        return PS_OK;
    wish.etcd = options->etcd;
    wish.access = options->etcd_access;
    if (ps_store_open(&wish, &store, &reason) != PS_OK)
        return ps_fail(error, reason.status, "--etcd: %s", reason.text);
    ps_store_close(store);
    return PS_OK;
}
