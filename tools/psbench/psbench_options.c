/* SPDX-License-Identifier: Apache-2.0 */
/* The option table of psbench, and what holds between options. The table of benchmarks and the
 * table of options are the only places that know their names; messages, defaults and the choice of
 * the function come from them. */
#include "tools/psbench/psbench_options.h"

#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_team.h"

#include <stdio.h>
#include <string.h>

/* As many as the bare gRPC and the raw sockets have slots for. */
#define OUTSTANDING_MAX 256
/* Half of what a gRPC message can have, so that a request and its answer fit together. */
#define SIZE_BYTES_MAX ((uint64_t)1 << 30)
/* Of report --quick: a few parameters of the largest size that it has. */
#define QUICK_SHARD_BYTES ((uint64_t)4 << 20)

/* A row of the table; the macro's parameters end in underscores where a field has the same name. */
#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                             \
    {                                                                                              \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_),          \
        .choices = (choices_), .help = (help_), .offset = offsetof(struct ps_bench_options, field) \
    }

/* A default of 0 means that the benchmark chooses: 4 KiB is a good size for a latency and a bad one
 * for a throughput. */
static const struct ps_option table[] = {
    /* What is sent, how much of it at a time, how often and for how long. */
    OPTION(size, "size", PS_OPTION_BYTES, "SIZE", "0", NULL,
           "Bytes of one gradient or parameter; a multiple of 4. 0: 4KiB for latency, 64MiB and "
           "1GiB for update, 1KiB, 1MiB, 64MiB and 1GiB for rendezvous, else 1MiB."),
    OPTION(outstanding, "outstanding", PS_OPTION_UINT, "N", "0", NULL,
           "Operations in flight at once. 0: 8 for journal, checkpoint and recover, else 1."),
    OPTION(repeat, "repeat", PS_OPTION_UINT, "N", "0", NULL,
           "Measure everything this often and print medians, lowest and highest. 0: 7 for journal, "
           "9 for "
           "table, 1 with --pause, 3 for report, else 5."),
    OPTION(time_ms, "time", PS_OPTION_DURATION, "TIME", "0", NULL,
           "Length of one measurement; what it is compared with gets a quarter of it each. 0: 10s "
           "with --pause, 500ms for report, else 1s."),
    /* The shape of a job, where a benchmark has one. */
    OPTION(shard_size, "shard-size", PS_OPTION_BYTES, "SIZE", "256MiB", NULL,
           "checkpoint, recover: bytes of all parameters together."),
    OPTION(journal_size, "journal-size", PS_OPTION_BYTES, "SIZE", "64MiB", NULL,
           "recover: bytes of gradients pushed behind the checkpoint, to be replayed."),
    OPTION(workers, "workers", PS_OPTION_UINT, "N", "0", NULL,
           "scale, train, rounds, program: clients, each with connections and threads of its own. "
           "0: 16 for "
           "rounds, 1 for program, else 2."),
    OPTION(server_count, "num-pservers", PS_OPTION_UINT, "N", "2", NULL,
           "scale, train, rounds, program: servers."),
    OPTION(rows, "rows", PS_OPTION_UINT, "N", "0", NULL,
           "table: rows of it. 0: a million with --part remote, else ten; a client beside other "
           "parts has a million at most."),
    OPTION(width, "width", PS_OPTION_UINT, "N", "0", NULL,
           "table: elements of a row, 1, 16 or 64. 0: each of them."),
    OPTION(keys, "keys", PS_OPTION_UINT, "N", "100000", NULL,
           "table: keys of one call of a client, --outstanding of which are in flight."),
    OPTION(part, "part", PS_OPTION_CHOICE, "PART", "all", "all|arrays|growth|saving|remote",
           "table: only rows beside plain arrays, or pushes while a table grows, or while it is "
           "saved; remote: only what goes through a client, for --time each, with as many --rows "
           "as are asked for."),
    /* Servers that somebody else has started. */
    OPTION(servers, "servers", PS_OPTION_TEXT, "HOST:PORT[,HOST:PORT]", NULL, NULL,
           "push, pull, pushpull, latency: measure these servers instead of one of its own; "
           "unix:PATH is a server's socket on this host. They must be fresh, or have been measured "
           "with the same size before."),
    OPTION(etcd, "etcd", PS_OPTION_TEXT, "URL[,URL]", NULL, NULL, "The same, found through etcd."),
    OPTION(job, "job", PS_OPTION_TEXT, "NAME", NULL, NULL, "Prefix of the job's keys in etcd."),
    /* What pushes are promised, and which way they take. */
    OPTION(
        ack, "ack", PS_OPTION_CHOICE, "LEVEL", "both", "memory|logged|both",
        "push, pushpull, batch, latency, scale, train, rounds, encoding: memory keeps no journal; "
        "logged "
        "acknowledges a push when it is on the disk of --dir, as users with a data directory have "
        "it; both measures one beside the other. pull and checkpoint take both for memory."),
    OPTION(
        pause, "pause", PS_OPTION_FLAG, NULL, NULL, NULL,
        "journal: only pushes that do not wait for the disk, of a server that keeps a journal; how "
        "long the longest took, beside the disk's own writes."),
    OPTION(
        via, "via", PS_OPTION_CHOICE, "PATH", "client", "client|threads|channel",
        "client: libpsclient, from one thread that does not wait. threads: from one that waits for "
        "each operation in flight. channel: the library's gRPC channel without what decides about "
        "retries, from one thread."),
    OPTION(transport, "transport", PS_OPTION_CHOICE, "WAY", "tcp", "tcp|shared|auto",
           "How content gets to the server. tcp: in messages, over the connection. shared: large "
           "content through memory shared with the server, or it is an error. auto: as libpsclient "
           "chooses by itself. The report says what was used."),
    OPTION(
        tls, "tls", PS_OPTION_FLAG, NULL, NULL, NULL,
        "push, pull, pushpull, latency: measure a server with TLS as well, beside bare gRPC with "
        "TLS; the openssl command makes the certificate."),
    /* The server that is started, the disk and the network under it. */
    OPTION(program, "pserver", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "The server to start; without it the pserver beside this program."),
    OPTION(folder, "dir", PS_OPTION_TEXT, "DIR", NULL, NULL,
           "Where the private folder of a run is made, and so which disk is measured; without it "
           "$TMPDIR or /tmp."),
    OPTION(name_space, "namespace", PS_OPTION_TEXT, "ALGORITHM", NULL, NULL,
           "Run in a network namespace of its own (made for the run, gone after it), with this TCP "
           "congestion control: reno, cubic, bbr. Needs root."),
    /* Settings of single benchmarks, of servers and of the client. */
    OPTION(cache, "cache", PS_OPTION_CHOICE, "STATE", "warm", "warm|cold",
           "recover: cold asks the kernel to forget the files before each reading."),
    OPTION(lanes, "lanes", PS_OPTION_UINT, "N", "0", NULL,
           "Threads of a server that serve calls; 0: as the server chooses."),
    OPTION(busy_poll_text, "busy-poll", PS_OPTION_TEXT, "TIME|auto|off", "auto", NULL,
           "Of the servers' threads and of the client, as pserver's option of this name."),
    OPTION(tune_malloc, "tune-malloc", PS_OPTION_FLAG, NULL, "true", NULL,
           "Keep freed buffers in the process, on both sides."),
    /* What becomes of the figures. */
    OPTION(
        output, "output", PS_OPTION_TEXT, "FORM|DIR", NULL, NULL,
        "table (the default), json or csv; json prints one document on standard output and nothing "
        "else there. report: the folder of the page and its pictures, docs unless said."),
    OPTION(quick, "quick", PS_OPTION_FLAG, NULL, NULL, NULL,
           "report: tiny sizes and times, to see that everything works; the figures mean nothing."),
    OPTION(plot, "plot", PS_OPTION_TEXT, "FILE.svg", NULL, NULL, "Draw the rows into this file."),
    OPTION(progress, "progress", PS_OPTION_FLAG, NULL, "true", NULL,
           "A bar on standard error while it runs, where that is a terminal."),
    /* Pages; nothing is measured then. */
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

/* The prefix is not PSERVER_: settings of a server in the environment must not reach the benchmark,
 * nor its own the servers. */
static const struct ps_option_set set = {
    .program = "psbench",
    .usage = "psbench NAME [OPTION]...",
    .summary =
        "Measures a server of its own, checks the results, and prints every figure beside what the "
        "machine can do, measured in the same run.",
    .commands = "  push        gradients to a server\n"
                "  pull        parameters from it\n"
                "  pushpull    both in one\n"
                "  batch       many small parameters in one call\n"
                "  latency     one small push or pull at a time\n"
                "  journal     pushes that are acknowledged when they are on the disk\n"
                "  checkpoint  what saving takes, and pushes meanwhile\n"
                "  recover     loading a checkpoint and replaying a journal\n"
                "  scale       several clients and servers\n"
                "  train       steps of pstrain, which computes between its pushes\n"
                "  rounds      workers that train in rounds: --size is the model's\n"
                "  rendezvous  values from process to process, of 1 KiB to 1 GiB\n"
                "  program     requests to a server program that adds, in a process of its own\n"
                "  update      the optimizer's loops alone\n"
                "  encoding    pushes in each encoding\n"
                "  table       rows by key, beside plain arrays of the same rows\n"
                "  delta       pulls of what has changed\n"
                "  report      most of these, as the page figures.md with pictures\n",
    .examples = "  psbench pushpull --size 64KiB\n"
                "  psbench push --size 1MiB --outstanding 8 --namespace reno\n"
                "  psbench push --ack logged --size 64KiB --outstanding 16\n"
                "  psbench journal --dir /var/lib/pserver\n"
                "  psbench journal --pause --time 60s\n"
                "  psbench checkpoint --shard-size 1GiB --output json\n"
                "  psbench recover --cache cold --plot recover.svg\n"
                "  psbench report --output docs --dir /var/lib/pserver\n",
    .environment = "PSBENCH_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

/* All of them, in the order in which messages name them. Defaults are what is asked most often: one
 * operation at a time for whoever waits, eight where the disk or several workers are to be kept
 * busy. The journal has more repeats than the others, since single ones scatter by half with the
 * disk. */
static const struct ps_bench_kind kinds[] = {
    {"push", ps_bench_transfer, 1 << 20, 1, 5, true},
    {"pull", ps_bench_transfer, 1 << 20, 1, 5, true},
    {"pushpull", ps_bench_transfer, 1 << 20, 1, 5, true},
    {"batch", ps_bench_batch, 16 << 10, 1, 5, false},
    {"latency", ps_bench_transfer, 4 << 10, 1, 5, true},
    {"journal", ps_bench_journal, 1 << 20, 8, 7, false},
    {"checkpoint", ps_bench_checkpoint, 1 << 20, 8, 5, false},
    {"recover", ps_bench_recover, 1 << 20, 8, 5, false},
    {"scale", ps_bench_scale, 1 << 20, 1, 5, false},
    {"train", ps_bench_train, 0, 1, 5, false}, /* the size is the trainer's */
    {"rounds", ps_bench_rounds, 1 << 20, 1, 5, false},
    {"rendezvous", ps_bench_rendezvous, 0, 1, 5, false}, /* 0: four sizes of its own */
    {"program", ps_bench_asks, 1 << 20, 1, 5, false},
    {"update", ps_bench_update, 0, 1, 5, false}, /* 0: two sizes of its own */
    {"encoding", ps_bench_encoding, 1 << 20, 1, 5, false},
    {"delta", ps_bench_delta, 256 << 10, 1, 5, false},
    {"table", ps_bench_table, 0, 1, 9, false},        /* the size is that of so many keys */
    {"report", ps_bench_make_report, 0, 0, 3, false}, /* each section has a size of its own */
};
/* --pause measures one long time instead of several short ones: what it looks for is rare. */
static const struct ps_bench_kind pause_kind = {"journal", ps_bench_pause, 1 << 20, 8, 1, false};
/* The names of all kinds, with commas between them, have about a hundred bytes. */
enum { KINDS = sizeof kinds / sizeof kinds[0], NAMES_BYTES = 220 };

static void write_names(char names[NAMES_BYTES], const char *before_last);
static enum ps_status choose_kind(struct ps_bench_options *options, struct ps_error *error);
static void set_defaults(struct ps_bench_options *options);
static enum ps_status check_form(struct ps_bench_options *options, struct ps_error *error);
static enum ps_status check_report(struct ps_bench_options *options, struct ps_error *error);
static enum ps_status check(struct ps_bench_options *options, struct ps_error *error);
static enum ps_status check_ranges(const struct ps_bench_options *options, struct ps_error *error);

/* For --help and --man, which print more than values. One set for parsing and for all pages, so
 * that help cannot lag behind. */
const struct ps_option_set *ps_bench_option_set(void)
{
    return &set;
}

/* Pages that were asked for are printed whatever else is wrong with the command line. Environment
 * before arguments: what is typed wins. The name of the benchmark is a word and may stand before,
 * behind or between options. The structure is zeroed first, so that a failure leaves no pointer
 * undefined. */
enum ps_status ps_bench_options_init(struct ps_bench_options *options, int argc, char **argv,
                                     struct ps_error *error)
{
    *options = (struct ps_bench_options){0};
    int words = 0;
    PS_TRY(ps_options_defaults(&set, options, error));
    PS_TRY(ps_options_environment(&set, options, error));
    PS_TRY(ps_options_arguments(&set, options, argc, argv, &words, error));
    if (options->help || options->man || options->version)
        return PS_OK;
    if (words != 1) {
        char names[NAMES_BYTES];
        write_names(names, ", ");
        return ps_fail(error, PS_ERR_BAD_INPUT, "name one benchmark (%s); see psbench --help",
                       names);
    }
    options->name = argv[1];
    return check(options, error);
}

/* Cut off rather than overflowing; the room is enough for all. The same list serves two sentences,
 * which differ in the word before the last name. */
static void write_names(char names[NAMES_BYTES], const char *before_last)
{
    size_t used = 0;
    for (size_t i = 0; i < KINDS; i++) {
        const char *before = i == 0 ? "" : i + 1 < KINDS ? ", " : before_last;
        int length = snprintf(names + used, NAMES_BYTES - used, "%s%s", before, kinds[i].name);
        used += length > 0 && (size_t)length < NAMES_BYTES - used ? (size_t)length : 0;
    }
}

/* Both kinds of journal are one word on the command line: --pause asks another question of the same
 * thing. Names are compared whole: "pus" is a typing error and not a benchmark. The message lists
 * all names, because there are only a dozen. */
static enum ps_status choose_kind(struct ps_bench_options *options, struct ps_error *error)
{
    options->kind = ps_bench_kind_named(options->name);
    if (options->kind == NULL) {
        char names[NAMES_BYTES];
        write_names(names, " or ");
        return ps_fail(error, PS_ERR_BAD_INPUT, "unknown benchmark \"%s\": choose %s",
                       options->name, names);
    }
    if (options->pause && options->kind->run != ps_bench_journal)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--pause is an option of journal");
    if (options->pause)
        options->kind = &pause_kind;
    return PS_OK;
}

/* Also for the sections of a report, which are benchmarks like any other. */
const struct ps_bench_kind *ps_bench_kind_named(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* 0 stands for what suits the benchmark. A pause is rare, so that looking for one takes longer than
 * measuring a rate. */
static void set_defaults(struct ps_bench_options *options)
{
    if (options->size == 0)
        options->size = options->kind->size;
    if (options->outstanding == 0)
        options->outstanding = options->kind->outstanding;
    /* A round is worth measuring with as many workers as a job has. */
    if (options->workers == 0 && options->kind->run == ps_bench_asks)
        options->workers = 1;
    if (options->workers == 0)
        options->workers = options->kind->run == ps_bench_rounds ? 16 : 2;
    if (options->repeat == 0)
        options->repeat = options->kind->repeat;
    if (options->time_ms == 0)
        options->time_ms = options->pause ? 10000 : 1000;
    if (options->rows == 0)
        options->rows = strcmp(options->part, "remote") == 0 ? 1000000 : 10000000;
}

/* The words of --output are turned into two flags, so that nobody compares them later. */
static enum ps_status check_form(struct ps_bench_options *options, struct ps_error *error)
{
    /* A folder is refused like any other word: only report writes files. */
    const char *form = options->output != NULL ? options->output : "table";
    options->json = strcmp(form, "json") == 0;
    options->csv = strcmp(form, "csv") == 0;
    if (!options->json && !options->csv && strcmp(form, "table") != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--output must be table, json or csv");
    if (options->quick)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--quick is an option of report");
    return PS_OK;
}

/* What makes a section is not the user's to choose: pages of several machines have the same rows.
 * Half a second for each measurement makes the page a matter of minutes. */
static enum ps_status check_report(struct ps_bench_options *options, struct ps_error *error)
{
    if (options->size != 0 || options->outstanding != 0 || options->plot != NULL ||
        strcmp(options->ack, "both") != 0 || strcmp(options->transport, "tcp") != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "report chooses sizes, ways, promises and pictures: leave out --size, "
                       "--outstanding, --transport, --ack and --plot");
    if (options->output == NULL)
        options->output = "docs";
    /* A quick page is for tests, which look at rows and never at figures. */
    if (options->time_ms == 0)
        options->time_ms = options->quick ? 20 : 500;
    if (!options->quick)
        return PS_OK;
    options->repeat = options->repeat == 0 ? 1 : options->repeat;
    options->shard_size = QUICK_SHARD_BYTES;
    options->journal_size = QUICK_SHARD_BYTES;
    return PS_OK;
}

/* Defaults first, since the checks are about the final values. Servers that run elsewhere can only
 * be pushed to and pulled from; what kills, fills or restarts servers needs its own. Contradictions
 * are refused before anything is started: a benchmark of minutes that ends with "not possible"
 * would be annoying. The word of --busy-poll is parsed here for the client; servers get the text
 * and parse it by themselves. */
static enum ps_status check(struct ps_bench_options *options, struct ps_error *error)
{
    PS_TRY(ps_busy_poll_parse("--busy-poll", options->busy_poll_text, &options->busy_poll, error));
    PS_TRY(choose_kind(options, error));
    bool report = options->kind->run == ps_bench_make_report;
    PS_TRY(report ? check_report(options, error) : check_form(options, error));
    set_defaults(options);
    bool elsewhere = options->servers != NULL || options->etcd != NULL;
    if (elsewhere && !options->kind->transfer)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s starts, kills and fills servers: it takes no --servers or --etcd",
                       options->name);
    /* The bare channel connects to one address and asks no etcd. */
    if (elsewhere && strcmp(options->via, "channel") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--via channel measures a server of its own only");
    /* The bare channel and servers elsewhere have no part in it: the certificate is this run's. */
    if (options->tls &&
        (elsewhere || !options->kind->transfer || strcmp(options->via, "channel") == 0))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--tls is an option of push, pull, pushpull and latency, with a server of "
                       "its own and not --via channel");
    /* A new namespace has loopback and nothing else. */
    if (elsewhere && options->name_space != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--namespace: nothing outside can be reached from there; leave out "
                       "--servers and --etcd");
    return check_ranges(options, error);
}

/* Sizes are multiples of 4 because parameters are float32. Each message names the option, so that
 * it can be corrected without a look at the manual. Limits that the machine may set (memory, disk)
 * are not checked here; they show as failures of their own. An upper bound on the time keeps the
 * product with nanoseconds, and a typing error, within reason. */
static enum ps_status check_ranges(const struct ps_bench_options *options, struct ps_error *error)
{
    if (options->size % 4 != 0 || options->size > SIZE_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--size must be a multiple of 4, at most 1GiB");
    if (options->outstanding > OUTSTANDING_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--outstanding must be 1 to %d", OUTSTANDING_MAX);
    /* The report has room for so many values in each series. */
    if (options->repeat < 1 || options->repeat > PS_BENCH_REPEATS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--repeat must be 1 to %d", PS_BENCH_REPEATS_MAX);
    if (options->time_ms < 1 || options->time_ms > 600000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--time must be 1ms to 10m");
    /* Each worker has several threads and connections; more than this measures the scheduler. */
    if (options->workers < 1 || options->workers > 64)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--workers must be 1 to 64");
    if (options->server_count < 1 || options->server_count > 16)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--num-pservers must be 1 to 16");
    /* A push has 10,000 keys, of which some rows are then the same; fewer rows than a thousand
     * would be measured by nobody. */
    if (options->rows < 1000 || options->rows > 1000000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rows must be 1000 to 1000000000");
    /* Each call in flight has a thread. */
    if (options->kind->run == ps_bench_table && options->outstanding > PS_BENCH_TEAM_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--outstanding of table must be 1 to %d",
                       PS_BENCH_TEAM_MAX);
    if (options->keys < 1 || options->keys > 1000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--keys must be 1 to 1000000");
    if (options->width != 0 && options->width != 1 && options->width != 16 && options->width != 64)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--width must be 1, 16 or 64");
    /* A shard has one parameter at least. */
    if (options->shard_size < options->size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--shard-size must not be below --size");
    return PS_OK;
}
