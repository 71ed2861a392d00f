/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in, and what for, as the files say at this moment: certificates, tokens, roles. The
 * files are read at the start and looked at again and again; what is whole takes the place of what
 * was, and what is not leaves that in place and is complained of.
 *
 * Threads:  look belongs to one thread; everything else to any.
 * Blocking: create and look wait for the disk. The rest never does, but for a lock held for
 *           moments.
 * Errors:   those of the files; look has none, it complains: log, metrics, ps_access_complaint.
 * Memory:   everything in the options is borrowed and outlives the access. What a function returns
 *           with a reference is released by its caller.
 */
#ifndef PS_SECURITY_ACCESS_H
#define PS_SECURITY_ACCESS_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "security/certificate_files.h"
#include "security/roles.h"
#include "security/token_file.h"

struct ps_access;

struct ps_access_options {
    const struct ps_allocator *memory;
    const struct ps_files *files;
    const struct ps_clock *clock;
    const struct ps_log *log;          /* may be NULL */
    struct ps_metrics *metrics;        /* may be NULL */
    struct ps_certificate_paths paths; /* chain NULL: no TLS */
    const char *tokens;                /* a file; NULL: none */
    const char *roles;                 /* a file; NULL: everybody may do everything */
};

/* Reads every file that the options name. PS_ERR_BAD_INPUT, PS_ERR_NOT_FOUND, PS_ERR_IO,
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_access_create(const struct ps_access_options *options,
                                            struct ps_access **access, struct ps_error *error);
void ps_access_destroy(struct ps_access *access);

/* Does any file decide who may come in? Constant. */
bool ps_access_has_files(const struct ps_access *access);

/* Is there a certificate for those who connect? Constant. */
bool ps_access_has_tls(const struct ps_access *access);

/* Reads the files again. What fails twice in a row is complained of: who replaces a certificate and
 * its key replaces two files, and they need not fit in between. */
void ps_access_look(struct ps_access *access);

/* Returns the present set with a reference, or NULL when `*number` says that the caller has it
 * already. `*number` becomes that of the set; 0 is that of none. */
struct ps_certificates *ps_access_certificates(struct ps_access *access, uint64_t *number);

/* Is there a file of tokens; of roles? Constant. */
bool ps_access_has_tokens(const struct ps_access *access);
bool ps_access_has_roles(const struct ps_access *access);

/* Return the present tokens and roles with a reference; NULL without a file. */
struct ps_tokens *ps_access_tokens(struct ps_access *access);
struct ps_roles *ps_access_roles(struct ps_access *access);

/* Appends what is wrong with the files, for people; nothing when nothing is. */
void ps_access_complaint(struct ps_access *access, struct ps_buffer *text);

#endif
