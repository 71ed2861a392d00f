/* SPDX-License-Identifier: Apache-2.0 */
/* Who we are to etcd and whom we take for etcd, and the options by which every program is told.
 *
 * A password goes to etcd only over https, unless that was asked for: whoever sees it on its way
 * may change who owns a shard. Files are read again whenever they are needed: certificates at each
 * new connection, the password at each new token.
 *
 * Threads:  pure.
 * Blocking: reading the password's file.
 * Errors:   PS_ERR_BAD_INPUT with a sentence that names the options, PS_ERR_NO_MEMORY; of a file
 *           those of base/file.h.
 * Memory:   as each function says.
 */
#ifndef PS_ETCD_ETCD_ACCESS_H
#define PS_ETCD_ETCD_ACCESS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>

/* The texts: a user, a password, and the paths of files. */
#define PS_ETCD_ACCESS_TEXTS(X) X(user) X(password) X(password_file) X(ca) X(certificate) X(key)

#define PS_ETCD_ACCESS_FIELD(name) const char *name;
struct ps_etcd_access {
    PS_ETCD_ACCESS_TEXTS(PS_ETCD_ACCESS_FIELD) /* NULL: none */
    bool insecure_password;                    /* over http, too */
};
#undef PS_ETCD_ACCESS_FIELD

/* The rows of a program's table (base/options.h): `struct_` is the program's struct, `field_` the
 * struct ps_etcd_access in it. */
#define PS_ETCD_ACCESS_ROW(struct_, field_, member_, kind, name_, value, hidden, help_) \
    {                                                                                   \
        .name = (name_), .type = (kind), .value_name = (value), .help = (help_),        \
        .offset = offsetof(struct_, field_) + offsetof(struct ps_etcd_access, member_), \
        .secret = (hidden)                                                              \
    }
#define PS_ETCD_ACCESS_OPTIONS(struct_, field_)                                                    \
    PS_ETCD_ACCESS_ROW(struct_, field_, user, PS_OPTION_TEXT, "etcd-user", "NAME", false,          \
                       "User of etcd."),                                                           \
        PS_ETCD_ACCESS_ROW(struct_, field_, password_file, PS_OPTION_TEXT, "etcd-password-file",   \
                           "FILE", false, "Password of that user, in a file."),                    \
        PS_ETCD_ACCESS_ROW(                                                                        \
            struct_, field_, password, PS_OPTION_TEXT, "etcd-password", "TEXT", true,              \
            "The same as a text; better in a file, or in the environment, than on the command "    \
            "line."),                                                                              \
        PS_ETCD_ACCESS_ROW(struct_, field_, insecure_password, PS_OPTION_FLAG,                     \
                           "etcd-insecure-password", NULL, false,                                  \
                           "Send the password over http, too, where anybody on the way reads "     \
                           "it."),                                                                 \
        PS_ETCD_ACCESS_ROW(struct_, field_, ca, PS_OPTION_TEXT, "etcd-ca", "FILE", false,          \
                           "Certificates (PEM) of who may vouch for an etcd at https://; without " \
                           "it those that the system trusts."),                                    \
        PS_ETCD_ACCESS_ROW(struct_, field_, certificate, PS_OPTION_TEXT, "etcd-cert", "FILE",      \
                           false, "Certificate (PEM) that is shown to etcd."),                     \
        PS_ETCD_ACCESS_ROW(struct_, field_, key, PS_OPTION_TEXT, "etcd-key", "FILE", false,        \
                           "Private key (PEM) of that certificate.")

/* What the options must not say together; `plain`: some endpoint is http://. */
PS_MUST_USE enum ps_status ps_etcd_access_check(const struct ps_etcd_access *access, bool plain,
                                                struct ps_error *error);

/* Copies of all texts, in `*copy`, which on any result is ended with ps_etcd_access_release. */
PS_MUST_USE enum ps_status ps_etcd_access_copy(const struct ps_etcd_access *access,
                                               const struct ps_allocator *memory,
                                               struct ps_etcd_access *copy, struct ps_error *error);

/* Wipes the password. Takes what a copy has made. */
void ps_etcd_access_release(struct ps_etcd_access *copy, const struct ps_allocator *memory);

/* The password, from where it is now; the line's end behind it is not part of it. On PS_OK the
 * caller ends the text with ps_etcd_password_release. */
PS_MUST_USE enum ps_status ps_etcd_password(const struct ps_etcd_access *access,
                                            const struct ps_allocator *memory, char **password,
                                            struct ps_error *error);
void ps_etcd_password_release(char *password, const struct ps_allocator *memory);

#endif
