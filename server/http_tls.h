/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of the HTTP port, with the certificates of the gRPC port. The home of GnuTLS, which
 * libmicrohttpd is made with.
 *
 * Each connection has the set of certificates that was current when it began, so that a new set is
 * a matter of new connections.
 *
 * Threads:  everything but create and destroy belongs to the port's thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY; PS_ERR_BAD_INPUT for certificates that GnuTLS does not take.
 * Memory:   everything in the options is borrowed and outlives this, and this outlives the daemon.
 */
#ifndef PS_SERVER_HTTP_TLS_H
#define PS_SERVER_HTTP_TLS_H

#include "base/log.h"
#include "security/access.h"

#include <microhttpd.h>

struct ps_http_tls;

struct ps_http_tls_options {
    struct ps_access *access;
    bool asks;     /* for a visitor's certificate; one that is shown is checked */
    bool requires; /* one, for what is not open to everybody */
    const struct ps_allocator *memory;
    const struct ps_log *log; /* may be NULL */
};

PS_MUST_USE enum ps_status ps_http_tls_create(const struct ps_http_tls_options *options,
                                              struct ps_http_tls **tls, struct ps_error *error);
void ps_http_tls_destroy(struct ps_http_tls *tls);

/* What the daemon is told, ending with MHD_OPTION_END. The texts live as long as `tls`. The daemon
 * also wants MHD_USE_TLS. */
enum { PS_HTTP_TLS_ITEMS = 5 };
void ps_http_tls_items(struct ps_http_tls *tls, struct MHD_OptionItem items[PS_HTTP_TLS_ITEMS]);

/* May the visitor see a page? `open`: of those that are shown to everybody, which probes ask for:
 * they have no certificate. */
bool ps_http_tls_admits(const struct ps_http_tls *tls, struct MHD_Connection *connection,
                        bool open);

#endif
