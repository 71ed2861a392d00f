/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of a run that measures TLS: made by the openssl command, signed by itself, valid
 * for a day, for 127.0.0.1. One for all ends of the run: the server, the client that believes it,
 * and bare gRPC on both sides.
 *
 * Threads:  one.
 * Blocking: until openssl has made it.
 * Errors:   PS_ERR_UNAVAILABLE: openssl is not there, or refused; PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   in place; the texts until it is closed.
 */
#ifndef PS_TOOLS_PSBENCH_TLS_H
#define PS_TOOLS_PSBENCH_TLS_H

#include "base/status.h"
#include "tools/psbench/psbench_server.h"

struct ps_bench_tls {
    char certificate_path[PS_BENCH_PATH_MAX], key_path[PS_BENCH_PATH_MAX];
    char *certificate, *key; /* owned; PEM */
};

/* Makes both in the folder and reads them. */
PS_MUST_USE enum ps_status ps_bench_tls_open(struct ps_bench_tls *tls, const char *folder,
                                             struct ps_error *error);
/* Accepts a zeroed one. */
void ps_bench_tls_close(struct ps_bench_tls *tls);

#endif
