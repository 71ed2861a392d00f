/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that pserver can be told, in one table: flags, PSERVER_* variables, the YAML file of
 * --config, --help and the man page come from it.
 *
 * Threads:  one, at start.
 * Blocking: reading the configuration file waits for the disk.
 * Errors:   PS_ERR_BAD_INPUT with a sentence that names the option and what is allowed.
 * Memory:   texts point into argv, the environment, or the configuration file's text, which lives
 *           until ps_pserver_options_fini.
 */
#ifndef PS_SERVER_PSERVER_OPTIONS_H
#define PS_SERVER_PSERVER_OPTIONS_H

#include "base/busy_poll.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "etcd/etcd_access.h"
#include "server/config_file.h"
#include "server/front/local_users.h"
#include "server/rpc/tls_port.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_pserver_options {
    const char *listen;
    const char *listen_unix; /* a path; NULL: none */
    const char *advertise;   /* NULL: the bound address */
    const char *http;        /* NULL: no HTTP port */
    const char *tls_cert;    /* NULL: no TLS */
    const char *tls_key;
    const char *tls_ca; /* NULL: clients' certificates are not asked for */
    const char *tls_client_auth_text;
    enum ps_client_auth tls_client_auth;
    const char *tokens; /* NULL: none */
    const char *roles;  /* NULL: everybody may do everything */
    const char *local_uids_text;
    struct ps_local_users local_users; /* who may come in by local ways */
    bool insecure;
    const char *etcd; /* NULL: alone */
    struct ps_etcd_access etcd_access;
    uint64_t etcd_ttl_ms;
    uint64_t num_pservers;
    int64_t index; /* -1: the lowest free one */
    const char *index_text;
    const char *job;
    const char *data_dir; /* NULL: nothing is saved */
    uint64_t checkpoint_interval_ms;
    uint64_t increments; /* between two whole checkpoints; 0: none */
    uint64_t model_checkpoints_keep;
    uint64_t model_checkpoint_interval_ms; /* 0: none by time */
    uint64_t checkpoint_journal_bytes;     /* 0: by the shard's size */
    const char *ack;                       /* NULL: logged when a journal is kept, else memory */
    bool journal;
    bool journal_keep;
    uint64_t journal_segment_bytes;
    uint64_t journal_queue_bytes;
    const char *journal_sync; /* "auto", "direct", "buffered" */
    uint64_t staging_bytes;
    uint64_t rendezvous_bytes;
    uint64_t rendezvous_step_bytes;
    uint64_t rendezvous_steps;
    uint64_t rendezvous_keys;
    uint64_t rendezvous_idle_ms;
    uint64_t program_bytes;
    uint64_t program_requests;
    uint64_t clients_max;
    uint64_t client_idle_ms;
    const char *device;
    uint64_t device_memory_bytes;
    uint64_t device_min_bytes;
    uint64_t device_readers_bytes;
    uint64_t device_timeout_ms;
    uint64_t memory_bytes;
    uint64_t message_bytes;
    uint64_t client_bytes;
    uint64_t client_calls;
    uint64_t waiting_calls;
    uint64_t connections; /* 0: as descriptors allow */
    uint64_t open_calls;
    uint64_t unfinished_bytes; /* 0: a quarter of the memory */
    uint64_t lanes;
    const char *update_threads_text;
    uint32_t update_threads; /* 0: auto */
    const char *busy_poll_text;
    struct ps_busy_poll_wish busy_poll;
    uint64_t reply_ms;
    uint64_t drain_ms;
    uint64_t drain_delay_ms;
    const char *shared_memory; /* "auto", "on", "off" */
    uint64_t shared_memory_bytes;
    bool reflection;
    bool tune_malloc;
    const char *log_level_text;
    const char *log_format_text;
    enum ps_log_level log_level;
    enum ps_log_format log_format;
    const char *config;
    bool help, man, version, check_config, print_config;
    struct ps_config_file file;
};

const struct ps_option_set *ps_pserver_option_set(void);

/* Defaults, then the file, then the environment, then the flags; and the rules that hold between
 * options. */
PS_MUST_USE enum ps_status ps_pserver_options_init(struct ps_pserver_options *options, int argc,
                                                   char **argv, struct ps_error *error);
void ps_pserver_options_fini(struct ps_pserver_options *options);

#endif
