/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pstrain's options, from which parsing, help and the man page are made. Options
 * that are of one kind of model only stand in the same table, and are refused by name where they
 * mean nothing: an option that is passed over in silence trains another model than was asked
 * for. */
#include "tools/pstrain_options.h"

#include "tools/optimizer_choice.h"

#include <stddef.h>

#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                            \
    {                                                                                             \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_),         \
        .choices = (choices_), .help = (help_), .offset = offsetof(struct pstrain_options, field) \
    }

/* The encodings that a message of either direction may use; top-k is for gradients alone, since a
 * parameter is wanted whole. */
#define ENCODINGS "native|float32|float64|bfloat16|float16|int8"

/* The options of training and of `generate` share one table; those of the latter say so in their
 * help. */
static const struct ps_option table[] = {
    /* What is learnt, and by which rule. Data come first, since nothing goes without them. */
    OPTION(data, "data", PS_OPTION_TEXT, "FILE", NULL, NULL,
           "Training rows, LIBSVM format; for matrix-factorization lines of user, item and rating, "
           "with "
           "tabs, commas, semicolons or \"::\" between them."),
    OPTION(test, "test", PS_OPTION_TEXT, "FILE", NULL, NULL, "Test rows, of the same format."),
    OPTION(model, "model", PS_OPTION_CHOICE, "NAME", "logistic",
           "logistic|softmax|sparse-logistic|matrix-factorization",
           "logistic, softmax: two classes, or any number, with all weights in two parameters. "
           "sparse-logistic: two classes, a row of a table for each feature. "
           "matrix-factorization: ratings, a row for each user and each item."),
    OPTION(optimizer, "optimizer", PS_OPTION_CHOICE, "NAME", "adam", PS_OPTIMIZER_CHOICES,
           "How the servers apply gradients."),
    OPTION(learning_rate, "learning-rate", PS_OPTION_REAL, "RATE", NULL, NULL,
           "0 takes the optimizer's usual one."),
    OPTION(rank, "rank", PS_OPTION_UINT, "N", "16", NULL,
           "matrix-factorization: factors of each user and item."),
    OPTION(l2, "l2", PS_OPTION_REAL, "FACTOR", NULL, NULL, "Added to each gradient: l2 * value."),
    /* Who learns it: threads of this process, and other processes, which are told the same but
     * for --part. */
    OPTION(workers, "workers", PS_OPTION_UINT, "N", "1", NULL,
           "Trainers of this process, each a thread with its own connections."),
    OPTION(part, "part", PS_OPTION_UINT, "I", "0", NULL,
           "Which share of the rows this process trains, from 0."),
    OPTION(parts, "parts", PS_OPTION_UINT, "N", "1", NULL, "Processes that share the rows."),
    OPTION(epochs, "epochs", PS_OPTION_UINT, "N", "10", NULL, "Passes over the training rows."),
    OPTION(batch, "batch", PS_OPTION_UINT, "ROWS", "128", NULL, "Rows of one mini-batch."),
    OPTION(
        sync, "sync", PS_OPTION_UINT, "K", "0", NULL,
        "Train in rounds: each step is one of K contributions, of all workers in all processes or "
        "of the first K of them. 0: workers do not wait for each other."),
    OPTION(
        grace_ms, "grace", PS_OPTION_DURATION, "TIME", "0", NULL,
        "How long a round waits behind its first contribution, before it goes on without a worker. "
        "0: for ever."),
    OPTION(late, "late", PS_OPTION_CHOICE, "RULE", "drop", "drop|next",
           "What comes after its round counts nowhere, or in the next one."),
    OPTION(
        consistency, "consistency", PS_OPTION_TEXT, "asp|bsp|ssp:S", "asp", NULL,
        "How far workers may be apart: asp, without bound; ssp:S, a gradient misses what others "
        "have pushed in their last S steps at most; bsp, nothing. With --grace a worker that has "
        "been silent for so long is not waited for."),
    /* What one step is made of, and what goes on while it is under way. */
    OPTION(accumulate, "accumulate", PS_OPTION_UINT, "N", "1", NULL,
           "Each step of a worker averages N batches, of the rows that N workers would have: one "
           "worker then comes to the bits of --sync N."),
    OPTION(local_steps, "local-steps", PS_OPTION_UINT, "H", "1", NULL,
           "Steps of plain descent that a worker makes by itself before it pushes how far it came; "
           "--optimizer outer is made for that."),
    OPTION(local_rate, "local-rate", PS_OPTION_REAL, "RATE", "0.1", NULL, "Of --local-steps."),
    OPTION(pipeline, "pipeline", PS_OPTION_CHOICE, "0|1", "0", "0|1",
           "1: compute the next batch's gradient while the last push is under way, from parameters "
           "that are without it. Faster; results differ a little from run to run."),
    OPTION(seed, "seed", PS_OPTION_UINT, "N", "1", NULL,
           "Order of the rows, and first values of factors."),
    /* Where the servers are, and who this client is there. */
    PS_JOB_PLACE_OPTIONS(struct pstrain_options, place),
    /* What the parameters are called, and how they travel. */
    OPTION(name, "name", PS_OPTION_TEXT, "NAME", "linear", NULL,
           "The parameters are NAME/weight and NAME/bias, or the table NAME/rows."),
    OPTION(split_bytes, "split-bytes", PS_OPTION_BYTES, "SIZE", "16MiB", NULL,
           "Larger parameters are cut over all servers."),
    OPTION(encoding, "encoding", PS_OPTION_CHOICE, "NAME", "native", ENCODINGS "|top_k",
           "How gradients travel: docs/encodings.md says what each loses."),
    OPTION(top_k_share, "top-k-share", PS_OPTION_REAL, "SHARE", "0.01", NULL,
           "Of a gradient's elements, those that --encoding top_k sends."),
    OPTION(reply_encoding, "reply-encoding", PS_OPTION_CHOICE, "NAME", "native", ENCODINGS,
           "How pulled parameters travel."),
    OPTION(timeout_ms, "timeout", PS_OPTION_DURATION, "TIME", "60s", NULL,
           "How long a server may be away before training gives up."),
    /* What becomes of the result. */
    OPTION(output, "output", PS_OPTION_CHOICE, "FORM", "text", "text|json",
           "json prints one document on standard output and nothing else there."),
    OPTION(plot, "plot", PS_OPTION_TEXT, "FILE.svg", NULL, NULL,
           "Models in tables: draw accuracy or RMSE after each epoch into this file."),
    /* Of `generate` alone, beside --model, --seed and --output. Defaults are those of a set that
     * trains in a second. */
    OPTION(out, "out", PS_OPTION_TEXT, "FILE", NULL, NULL, "generate: the file to write."),
    OPTION(rows, "rows", PS_OPTION_UINT, "N", "20000", NULL, "generate: rows."),
    OPTION(features, "features", PS_OPTION_UINT, "N", "100", NULL, "generate: features."),
    OPTION(noise, "noise", PS_OPTION_REAL, "SHARE", "0.1", NULL,
           "generate: share of labels that are flipped; of ratings, their deviation in stars."),
    OPTION(users, "users", PS_OPTION_UINT, "N", "500", NULL, "generate: of ratings."),
    OPTION(items, "items", PS_OPTION_UINT, "N", "400", NULL, "generate: of ratings."),
    OPTION(model_seed, "model-seed", PS_OPTION_UINT, "N", "1", NULL,
           "generate: the hidden function; equal for a training set and its test set."),
    /* Pages; nothing is trained then. */
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

/* The prefix of the environment is that of the servers, so that one PSERVER_ETCD serves all
 * programs of a job. */
static const struct ps_option_set set = {
    .program = "pstrain",
    .usage =
        "pstrain --data FILE [--test FILE] (--etcd URL | --servers HOST:PORT,...) [OPTION]...\n"
        "       pstrain generate --out FILE [--rows N] [--features N] [--noise SHARE]\n"
        "       pstrain generate --model matrix-factorization --out FILE [--users N] [--items N]",
    .summary =
        "Trains logistic regression, softmax regression or matrix factorisation through parameter "
        "servers.",
    .examples =
        "  pstrain --data a9a --test a9a.t --etcd http://127.0.0.1:2379 --workers 2\n"
        "  pstrain --data a9a --servers 127.0.0.1:8000 --optimizer momentum --epochs 5\n"
        "  pstrain --data a9a --servers 127.0.0.1:8000 --workers 4 --sync 4 --grace 2s\n"
        "  pstrain --data a9a --servers 127.0.0.1:8000 --workers 4 --sync 4 --local-steps 32 "
        "--optimizer outer\n"
        "  pstrain --data a9a --servers 127.0.0.1:8000 --model sparse-logistic --optimizer ftrl "
        "--workers 3 --consistency ssp:2\n"
        "  pstrain --data u1.base --test u1.test --servers 127.0.0.1:8000 "
        "--model matrix-factorization --optimizer adagrad --l2 0.05\n"
        "  pstrain generate --out train.svm --rows 50000 --noise 0.05\n",
    .environment = "PSERVER_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

/* One set for parsing and for all pages, so that help cannot lag behind. */
const struct ps_option_set *pstrain_option_set(void)
{
    return &set;
}
