/* SPDX-License-Identifier: Apache-2.0 */
/* The present state of the files, swapped under a lock. Files are read whole at each look and
 * compared by their bytes: times of files tell less, where they are links to what is exchanged
 * behind them, as the secrets of Kubernetes are.
 *
 * What is handed out is a counted set that never changes: a handshake or a call that has begun goes
 * on with what it has, and nobody waits for anybody. */
#include "security/access.h"

#include "base/assert.h"
#include "base/thread.h"
#include "security/roles_file.h"

#include <string.h>

/* What is wrong for long is said again after so long: a line a second would bury all others. */
#define COMPLAIN_AGAIN_MS ((uint64_t)60 * 1000)

/* X(NAME, word for logs and metrics) */
#define ACCESS_KINDS(X)             \
    X(CERTIFICATES, "certificates") \
    X(TOKENS, "tokens")             \
    X(ROLES, "roles")
#define ACCESS_ENUM(name, word) name,
enum access_kind { ACCESS_KINDS(ACCESS_ENUM) ACCESS_KIND_COUNT };
#undef ACCESS_ENUM

/* Three kinds of files in one place, since one thread looks at all of them and one page shows
 * what is wrong with any. */
struct ps_access {
    struct ps_access_options options;
    struct ps_counter *failures[ACCESS_KIND_COUNT];
    struct ps_gauge *not_after;
    /* Of the thread that looks. */
    bool failed_before[ACCESS_KIND_COUNT];   /* the last look; a second failure is complained of */
    uint64_t complain_ms[ACCESS_KIND_COUNT]; /* not again before */

    struct ps_mutex lock; /* PS_RANK_LEAF; guards what follows */
    struct ps_certificates *certificates;
    uint64_t certificates_number; /* counts the sets; 0: there was none yet */
    struct ps_tokens *tokens;     /* NULL: no file; the same for roles */
    struct ps_roles *roles;
    struct ps_error complaints[ACCESS_KIND_COUNT]; /* PS_OK: none */
};

static enum ps_status read_kind(struct ps_access *access, enum access_kind kind, bool *changed,
                                struct ps_error *error);
static enum ps_status read_certificates(struct ps_access *access, bool *changed,
                                        struct ps_error *error);
static enum ps_status read_tokens(struct ps_access *access, bool *changed, struct ps_error *error);
static enum ps_status read_roles(struct ps_access *access, bool *changed, struct ps_error *error);
static void register_metrics(struct ps_access *access);
static void succeed(struct ps_access *access, enum access_kind kind, bool changed);
static void complain(struct ps_access *access, enum access_kind kind, const struct ps_error *why);

static const char *word_of(enum access_kind kind)
{
    static const char *const words[ACCESS_KIND_COUNT] = {
#define ACCESS_WORD(name, word) [name] = word,
        ACCESS_KINDS(ACCESS_WORD)
#undef ACCESS_WORD
    };
    return words[kind];
}

/* What the options do not name is never read, and nobody complains of it. */
static bool is_asked_for(const struct ps_access *access, enum access_kind kind)
{
    PS_ASSERT(kind < ACCESS_KIND_COUNT);
    const struct ps_access_options *options = &access->options;
    const char *const files[ACCESS_KIND_COUNT] = {options->paths.chain, options->tokens,
                                                  options->roles};
    return files[kind] != NULL;
}

/* Everything is read once before anybody can come in: a start with half of the rules would let in
 * whom the other half keeps out. Metrics are there also without any file: who looks at them sees a
 * 0. */
enum ps_status ps_access_create(const struct ps_access_options *options, struct ps_access **out,
                                struct ps_error *error)
{
    PS_ASSERT(options->memory != NULL && options->files != NULL && options->clock != NULL);
    struct ps_access *access = ps_zeroed(options->memory, sizeof *access);
    if (access == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the access");
    /* Paths belong to the command line and outlive this. */
    access->options = *options;
    ps_mutex_init(&access->lock, PS_RANK_LEAF);
    register_metrics(access);
    for (enum access_kind kind = 0; kind < ACCESS_KIND_COUNT; kind++) {
        bool changed;
        enum ps_status status =
            is_asked_for(access, kind) ? read_kind(access, kind, &changed, error) : PS_OK;
        if (status != PS_OK) {
            ps_access_destroy(access);
            return status;
        }
    }
    *out = access;
    return PS_OK;
}

/* One row for each kind, so that an alert can say which files are meant. */
static void register_metrics(struct ps_access *access)
{
    static const char *const labels[ACCESS_KIND_COUNT] = {
#define ACCESS_LABEL(name, word) [name] = "files=\"" word "\"",
        ACCESS_KINDS(ACCESS_LABEL)
#undef ACCESS_LABEL
    };
    struct ps_metrics *metrics = access->options.metrics;
    /* A registry that is full gives no row, and updates accept that. */
    if (metrics == NULL)
        return;
    for (enum access_kind kind = 0; kind < ACCESS_KIND_COUNT; kind++)
        access->failures[kind] =
            ps_metrics_counter(metrics, "ps_tls_reload_failures_total",
                               "Looks at files of certificates, tokens or roles that could not be "
                               "taken; the former ones stay in use.",
                               labels[kind]);
    access->not_after =
        ps_metrics_gauge(metrics, "ps_tls_certificate_not_after_seconds",
                         "When the server's certificate ends, since 1970; 0 without TLS.", NULL);
}

/* Those who hold a reference keep their set. */
void ps_access_destroy(struct ps_access *access)
{
    if (access == NULL)
        return;
    ps_certificates_release(access->certificates);
    ps_tokens_release(access->tokens);
    ps_roles_release(access->roles);
    ps_mutex_fini(&access->lock);
    ps_release(access->options.memory, access);
}

/* Asked once, at the start: the options do not change. */
bool ps_access_has_files(const struct ps_access *access)
{
    for (enum access_kind kind = 0; kind < ACCESS_KIND_COUNT; kind++)
        if (is_asked_for(access, kind))
            return true;
    return false;
}

/* Of the options and not of the present set: a server that was told to have TLS never falls back to
 * plaintext, whatever becomes of its files. */
bool ps_access_has_tls(const struct ps_access *access)
{
    return access->options.paths.chain != NULL;
}

/* ---- Looking again ---- */

/* Every kind by itself: roles are taken also while a certificate is being replaced. */
void ps_access_look(struct ps_access *access)
{
    for (enum access_kind kind = 0; kind < ACCESS_KIND_COUNT; kind++) {
        struct ps_error why = {0};
        bool changed = false;
        if (!is_asked_for(access, kind))
            continue;
        enum ps_status status = read_kind(access, kind, &changed, &why);
        if (status == PS_OK)
            succeed(access, kind, changed);
        /* Once is no failure yet: two files cannot be replaced in one step. */
        else if (access->failed_before[kind])
            complain(access, kind, &why);
        access->failed_before[kind] = status != PS_OK;
    }
}

/* The same way at the start and later. */
static enum ps_status read_kind(struct ps_access *access, enum access_kind kind, bool *changed,
                                struct ps_error *error)
{
    PS_ASSERT(is_asked_for(access, kind));
    switch (kind) {
    case CERTIFICATES:
        return read_certificates(access, changed, error);
    case TOKENS:
        return read_tokens(access, changed, error);
    case ROLES:
    case ACCESS_KIND_COUNT:
        break;
    }
    return read_roles(access, changed, error);
}

/* The present set is replaced in this thread only, so that it may be compared without the lock. */
static enum ps_status read_certificates(struct ps_access *access, bool *changed,
                                        struct ps_error *error)
{
    const struct ps_access_options *options = &access->options;
    /* The wall clock, which certificates speak of. */
    struct ps_certificates *fresh;
    int64_t now_s = (int64_t)(ps_unix_ns(options->clock) / 1000000000u);
    PS_TRY(ps_certificates_read(&options->paths, options->files, options->memory, now_s, &fresh,
                                error));
    /* Read without the lock, since only this thread writes it. */
    struct ps_certificates *former = access->certificates;
    *changed = former == NULL || !ps_certificates_equal(former, fresh);
    if (!*changed) {
        ps_certificates_release(fresh);
        return PS_OK;
    }
    /* Shown before the set is used, never after: an alert is about what comes. */
    ps_gauge_set(access->not_after, (double)fresh->not_after_s);
    ps_mutex_lock(&access->lock);
    access->certificates = fresh;
    access->certificates_number++;
    ps_mutex_unlock(&access->lock);
    /* Outside of the lock: wiping a key and freeing is nobody else's wait. */
    ps_certificates_release(former);
    return PS_OK;
}

/* A token that is taken out of the file is refused from the next call on. */
static enum ps_status read_tokens(struct ps_access *access, bool *changed, struct ps_error *error)
{
    const struct ps_access_options *options = &access->options;
    struct ps_tokens *fresh;
    PS_TRY(ps_tokens_read(options->tokens, options->files, options->memory, &fresh, error));
    struct ps_tokens *former = access->tokens;
    /* Swapped also when nothing has changed: comparing is for the log only. */
    *changed = former == NULL || !ps_tokens_equal(former, fresh);
    ps_mutex_lock(&access->lock);
    access->tokens = fresh;
    ps_mutex_unlock(&access->lock);
    ps_tokens_release(former);
    return PS_OK;
}

/* The same for roles: a call that has begun ends under the rules that it began under. */
static enum ps_status read_roles(struct ps_access *access, bool *changed, struct ps_error *error)
{
    const struct ps_access_options *options = &access->options;
    struct ps_roles *fresh;
    PS_TRY(ps_roles_read(options->roles, options->files, options->memory, &fresh, error));
    struct ps_roles *former = access->roles;
    *changed = former == NULL || !ps_roles_equal(former, fresh);
    ps_mutex_lock(&access->lock);
    access->roles = fresh;
    ps_mutex_unlock(&access->lock);
    ps_roles_release(former);
    return PS_OK;
}

/* Whoever changes these files changes who may come in, which is why the line is one of the
 * audit. */
static void succeed(struct ps_access *access, enum access_kind kind, bool changed)
{
    ps_mutex_lock(&access->lock);
    /* A file that is as it was before is good news, too, once it was not. */
    bool is_mended = access->complaints[kind].status != PS_OK;
    access->complaints[kind] = (struct ps_error){0};
    ps_mutex_unlock(&access->lock);
    access->complain_ms[kind] = 0;
    if (changed || is_mended)
        PS_LOG(access->options.log, PS_LOG_INFO, "audit", "files of access were taken",
               PS_FIELD_TEXT("files", word_of(kind)));
}

/* The complaint stands until a look succeeds, for /readyz. Each failed look is counted; the log
 * is told at first and then once a minute. */
static void complain(struct ps_access *access, enum access_kind kind, const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    ps_counter_add(access->failures[kind], 1);
    ps_mutex_lock(&access->lock);
    /* With the path and the reason: /readyz is for operators, as the log is. */
    access->complaints[kind] = *why;
    ps_mutex_unlock(&access->lock);
    if (ps_now_ms(access->options.clock) < access->complain_ms[kind])
        return;
    access->complain_ms[kind] = ps_deadline_after(access->options.clock, COMPLAIN_AGAIN_MS);
    PS_LOG(access->options.log, PS_LOG_WARN, "tls",
           "files of access cannot be taken: the former ones stay in use",
           PS_FIELD_TEXT("files", word_of(kind)), PS_FIELD_ERROR(why));
}

/* ---- What is asked ---- */

/* The number tells apart what the pointers cannot: memory of a former set may be used again. */
struct ps_certificates *ps_access_certificates(struct ps_access *access, uint64_t *number)
{
    struct ps_certificates *present = NULL;
    ps_mutex_lock(&access->lock);
    if (access->certificates_number != *number) {
        /* Under one lock: a set with the number of another would be handed out for ever. */
        *number = access->certificates_number;
        present = ps_certificates_acquire(access->certificates);
    }
    ps_mutex_unlock(&access->lock);
    return present;
}

/* Of the options, like the two below and above: what was asked for at the start stays asked for. */
bool ps_access_has_tokens(const struct ps_access *access)
{
    return access->options.tokens != NULL;
}

bool ps_access_has_roles(const struct ps_access *access)
{
    return access->options.roles != NULL;
}

/* The reference is taken under the lock, so that a look cannot free what is about to be used. */
struct ps_tokens *ps_access_tokens(struct ps_access *access)
{
    ps_mutex_lock(&access->lock);
    struct ps_tokens *present = ps_tokens_acquire(access->tokens);
    ps_mutex_unlock(&access->lock);
    return present;
}

struct ps_roles *ps_access_roles(struct ps_access *access)
{
    ps_mutex_lock(&access->lock);
    struct ps_roles *present = ps_roles_acquire(access->roles);
    ps_mutex_unlock(&access->lock);
    return present;
}

/* Behind what the caller has said, hence the semicolon in front. */
void ps_access_complaint(struct ps_access *access, struct ps_buffer *text)
{
    ps_mutex_lock(&access->lock);
    for (enum access_kind kind = 0; kind < ACCESS_KIND_COUNT; kind++)
        if (access->complaints[kind].status != PS_OK)
            ps_buffer_append_format(text, "; %s not renewed: %s", word_of(kind),
                                    access->complaints[kind].text);
    ps_mutex_unlock(&access->lock);
}
