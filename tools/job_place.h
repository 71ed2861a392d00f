/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job is to be found, by its etcd or by its servers' addresses, and who its client is
 * there, with the options by which every program is told.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, with what to type.
 * Memory:   texts are borrowed, nothing is kept.
 */
#ifndef PS_TOOLS_JOB_PLACE_H
#define PS_TOOLS_JOB_PLACE_H

#include "base/options.h"
#include "base/status.h"
#include "client/psclient.h"
#include "etcd/etcd_access.h"

struct ps_job_place {
    const char *etcd, *servers, *job; /* NULL: not given */
    struct ps_etcd_access etcd_access;
    const char *tls_ca, *tls_cert, *tls_key, *token_file;
};

/* The rows of a program's table that say where the job is and who its client is there: `struct_` is
 * the program's struct, `field_` the struct ps_job_place in it. */
#define PS_JOB_PLACE_ROW(struct_, field_, member_, name_, value_, help_)                  \
    {                                                                                     \
        .name = (name_), .type = PS_OPTION_TEXT, .value_name = (value_), .help = (help_), \
        .offset = offsetof(struct_, field_) + offsetof(struct ps_job_place, member_)      \
    }
#define PS_JOB_PLACE_OPTIONS(struct_, field_)                                                    \
    PS_JOB_PLACE_ROW(struct_, field_, etcd, "etcd", "URL[,URL]", "Find the servers here."),      \
        PS_JOB_PLACE_ROW(struct_, field_, servers, "servers", "HOST:PORT[,HOST:PORT]",           \
                         "Some servers of the job, which tell of the others. Without etcd: "     \
                         "all; position = index."),                                              \
        PS_JOB_PLACE_ROW(struct_, field_, job, "job", "NAME",                                    \
                         "Prefix of the job's keys in etcd."),                                   \
        PS_ETCD_ACCESS_OPTIONS(struct_, field_.etcd_access),                                     \
        PS_JOB_PLACE_ROW(                                                                        \
            struct_, field_, tls_ca, "tls-ca", "FILE",                                           \
            "Talk TLS to the servers; certificates (PEM) of who may vouch for them."),           \
        PS_JOB_PLACE_ROW(struct_, field_, tls_cert, "tls-cert", "FILE",                          \
                         "Certificate (PEM) that is shown to the servers."),                     \
        PS_JOB_PLACE_ROW(struct_, field_, tls_key, "tls-key", "FILE",                            \
                         "Private key (PEM) of that certificate."),                              \
        PS_JOB_PLACE_ROW(struct_, field_, token_file, "token-file", "FILE",                      \
                         "One line that says who this client is. Goes over TLS, and without it " \
                         "to servers of this host only.")

/* Exactly one of --etcd and --servers says where. */
PS_MUST_USE enum ps_status ps_job_place_check(const struct ps_job_place *place,
                                              struct ps_error *error);

/* Sets what a client is told of that, and leaves its other options alone. */
void ps_job_place_tell(const struct ps_job_place *place, struct psclient_options *client);

#endif
