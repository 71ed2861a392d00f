/* SPDX-License-Identifier: Apache-2.0 */
/* One command makes key and certificate. A curve and not RSA, as a server of today would have: what
 * is measured are calls over connections that last, and handshakes are few. Making certificates
 * with a library would be more code than the benchmark, and the command is on every machine that
 * has TLS. */
#include "tools/psbench/psbench_tls.h"

#include "base/alloc.h"
#include "base/file.h"

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEM_BYTES_MAX 65536

static enum ps_status run_openssl(const struct ps_bench_tls *tls, struct ps_error *error);

/* For bare gRPC, which takes texts; our own server and client are told paths. */
static enum ps_status read_text(const char *path, char **text, struct ps_error *error)
{
    uint8_t *content = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(ps_files_real(), path, PEM_BYTES_MAX, ps_allocator_heap(), &content,
                            &size, error));
    *text = (char *)content;
    return PS_OK;
}

/* The folder is private and goes with the run, and the key with the folder. */
enum ps_status ps_bench_tls_open(struct ps_bench_tls *tls, const char *folder,
                                 struct ps_error *error)
{
    (void)snprintf(tls->certificate_path, sizeof tls->certificate_path, "%s/tls.pem", folder);
    (void)snprintf(tls->key_path, sizeof tls->key_path, "%s/tls.key", folder);
    PS_TRY(run_openssl(tls, error));
    PS_TRY(read_text(tls->certificate_path, &tls->certificate, error));
    return read_text(tls->key_path, &tls->key, error);
}

/* Its words go nowhere: what is wrong with a machine's openssl is seen by typing the command. */
static enum ps_status run_openssl(const struct ps_bench_tls *tls, struct ps_error *error)
{
    const char *const words[] = {"openssl",
                                 "req",
                                 "-x509",
                                 "-newkey",
                                 "ec",
                                 "-pkeyopt",
                                 "ec_paramgen_curve:P-256",
                                 "-nodes",
                                 "-days",
                                 "1",
                                 "-subj",
                                 "/CN=psbench",
                                 "-addext",
                                 "subjectAltName=IP:127.0.0.1",
                                 "-keyout",
                                 tls->key_path,
                                 "-out",
                                 tls->certificate_path,
                                 NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a certificate");
    pid_t process = 0;
    int status = -1;
    bool made = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0) == 0 &&
                posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0) == 0 &&
                posix_spawnp(&process, words[0], &actions, NULL, (char *const *)(uintptr_t)words,
                             environ) == 0 &&
                waitpid(process, &status, 0) == process && status == 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    if (!made)
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "--tls: the openssl command makes no certificate");
    return PS_OK;
}

/* After both processes of bare gRPC have ended, which were forked with the texts. */
void ps_bench_tls_close(struct ps_bench_tls *tls)
{
    ps_release(ps_allocator_heap(), tls->certificate);
    ps_release(ps_allocator_heap(), tls->key);
    *tls = (struct ps_bench_tls){.certificate = NULL};
}
