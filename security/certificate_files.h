/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate with its key and the authorities that peers are checked against, as they lie in
 * files: read whole, checked, and constant from then on. A library that is handed a pair which does
 * not fit drops it without a word, so the check is made here, before anybody is handed anything.
 *
 * Threads:  a set may be used from any thread; acquire and release as well.
 * Blocking: read waits for the disk.
 * Errors:   PS_ERR_NOT_FOUND and PS_ERR_IO for a file; PS_ERR_BAD_INPUT for what is in it, with the
 *           path in front; PS_ERR_NO_MEMORY. No text has a byte of a key.
 * Memory:   a set is counted; the key is wiped when the last reference goes.
 */
#ifndef PS_SECURITY_CERTIFICATE_FILES_H
#define PS_SECURITY_CERTIFICATE_FILES_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ps_certificate_paths {
    const char *chain;       /* PEM: the certificate, then those between it and its authority */
    const char *key;         /* PEM, without a password */
    const char *authorities; /* PEM: whom peers' certificates are checked against; NULL: nobody */
};

/* Constant, but for the count. */
struct ps_certificates {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    atomic_uint references;
    char *chain;       /* PEM, as in the file */
    char *key;         /* likewise */
    char *authorities; /* likewise; NULL: none */
    size_t key_size;
    int64_t not_before_s; /* of the certificate, since 1970 */
    int64_t not_after_s;
};

/* Reads and checks the files. Returns a set with one reference for the caller.
 *
 * now_s             since 1970: a certificate that is over, or not valid yet, is refused
 *
 * PS_ERR_BAD_INPUT  not PEM, a key that has a password, a key of another certificate, no authority
 *                   in the file of authorities, or a certificate that is not valid now
 */
PS_MUST_USE enum ps_status ps_certificates_read(const struct ps_certificate_paths *paths,
                                                const struct ps_files *files,
                                                const struct ps_allocator *memory, int64_t now_s,
                                                struct ps_certificates **certificates,
                                                struct ps_error *error);

/* The same bytes in all files? */
bool ps_certificates_equal(const struct ps_certificates *a, const struct ps_certificates *b);

/* One more reference, and one less. NULL is allowed in both. */
struct ps_certificates *ps_certificates_acquire(struct ps_certificates *certificates);
void ps_certificates_release(struct ps_certificates *certificates);

#endif
