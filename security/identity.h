/* SPDX-License-Identifier: Apache-2.0 */
/* Who somebody is, once that is proved: a name out of a certificate, the name of a token, or the
 * user of a process on this host.
 *
 * Threads:  plain values.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   in place.
 */
#ifndef PS_SECURITY_IDENTITY_H
#define PS_SECURITY_IDENTITY_H

#include "base/bytes.h"
#include "base/status.h"

/* Longest name. SPIFFE allows more, nobody uses it, and every call slot has room for one. */
#define PS_IDENTITY_BYTES_MAX 255

enum ps_identity_kind {
    PS_IDENTITY_ANYBODY, /* nothing was shown, and nothing had to be: "anybody" */
    PS_IDENTITY_CERTIFICATE,
    PS_IDENTITY_TOKEN,
    PS_IDENTITY_LOCAL /* let in by the kernel's word: "uid:1000" or "local" */
};

struct ps_identity {
    enum ps_identity_kind kind;
    char name[PS_IDENTITY_BYTES_MAX + 1];
    uint64_t owner; /* a digest of kind and name, never 0: tells identities apart */
};

/* PS_ERR_UNAUTHENTICATED: a name that is empty, too long, or has bytes that do not print. */
PS_MUST_USE enum ps_status ps_identity_set(struct ps_identity *identity, enum ps_identity_kind kind,
                                           struct ps_bytes name, struct ps_error *error);

/* Who shows nothing. */
void ps_identity_set_anybody(struct ps_identity *identity);

#endif
