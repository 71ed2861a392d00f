/* SPDX-License-Identifier: Apache-2.0 */
/* A thread and not a timer of a lane: files may lie on a disk that stands still, and no call is to
 * wait for that. */
#include "server/access_reload.h"

#include "base/assert.h"
#include "server/address.h"

#include <sys/stat.h>

/* Soon enough for who rotates certificates, and five small files a second cost nothing. */
#define LOOK_MS 1000

static uint64_t look(void *self);
static bool others_can_read(const char *path);
static void warn(struct ps_access_reload *reload, const struct ps_pserver_options *options,
                 const struct ps_log *log);

/* The files are read before anything is bound: one that is wrong ends the start, while a later one
 * only leaves the former in use. */
enum ps_status ps_access_reload_init(struct ps_access_reload *reload,
                                     const struct ps_pserver_options *options,
                                     const struct ps_log *log, struct ps_metrics *metrics,
                                     struct ps_error *error)
{
    PS_ASSERT(reload->access == NULL);
    const struct ps_access_options wish = {
        .memory = ps_allocator_heap(),
        .files = ps_files_real(),
        .clock = ps_clock_real(),
        .log = log,
        .metrics = metrics,
        .paths = {options->tls_cert, options->tls_key, options->tls_ca},
        .tokens = options->tokens,
        .roles = options->roles,
    };
    PS_TRY(ps_access_create(&wish, &reload->access, error));
    warn(reload, options, log);
    if (!ps_access_has_files(reload->access))
        return PS_OK;
    PS_TRY(ps_errand_thread_init(&reload->errand, "access", ps_clock_real(), look, reload, error));
    ps_errand_thread_wake(&reload->errand);
    return PS_OK;
}

/* Once, at the start, and in words that say what to do. A token over plaintext is a secret only
 * until the first call. */
static void warn(struct ps_access_reload *reload, const struct ps_pserver_options *options,
                 const struct ps_log *log)
{
    const struct ps_access *access = reload->access;
    bool is_far = !ps_access_has_tls(access) && !ps_address_is_loopback(options->listen);
    reload->is_open = is_far && !options->insecure;
    if (reload->is_open)
        PS_LOG(log, PS_LOG_WARN, "server",
               "anybody who reaches this address may do everything: give --tls-cert, --tls-key and "
               "--tls-ca, or listen on 127.0.0.1; --insecure says that this is meant",
               PS_FIELD_TEXT("listen", options->listen));
    if (is_far && ps_access_has_tokens(access))
        PS_LOG0(log, PS_LOG_WARN, "server",
                "--tokens without TLS: tokens are taken from this host only");
    if (others_can_read(options->tls_key))
        PS_LOG(log, PS_LOG_WARN, "server", "every user of this host can read the private key",
               PS_FIELD_TEXT("path", options->tls_key));
    if (ps_access_has_files(access) && !ps_access_has_roles(access))
        PS_LOG0(log, PS_LOG_INFO, "server", "no --roles: everybody who comes in may do everything");
}

/* Of links what they lead to counts: secrets are often mounted as links. A file that cannot be
 * looked at was read a moment ago, and is nobody's business here. */
static bool others_can_read(const char *path)
{
    struct stat file;
    return path != NULL && stat(path, &file) == 0 && (file.st_mode & S_IROTH) != 0;
}

/* At its own pace, so that no wake of anybody makes it read more often. */
static uint64_t look(void *self)
{
    struct ps_access_reload *reload = self;
    PS_ASSERT(reload->access != NULL);
    ps_access_look(reload->access);
    return ps_deadline_after(ps_clock_real(), LOOK_MS);
}

/* The thread first, which looks at what goes next. */
void ps_access_reload_fini(struct ps_access_reload *reload)
{
    ps_errand_thread_fini(&reload->errand);
    ps_access_destroy(reload->access);
    /* A start that failed half way is ended the same way. */
    reload->access = NULL;
}
