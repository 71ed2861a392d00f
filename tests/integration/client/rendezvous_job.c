/* SPDX-License-Identifier: Apache-2.0 */
/* Two servers and their client, for every test of the rendezvous between processes. */
#include "rendezvous_job.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct temp_folder job_folder;
struct pserver_process job_servers[2];
char job_list[2 * sizeof job_servers[0].address];
struct psclient *job_client;
struct psclient_rendezvous *job_step;
struct psclient_error job_error;

void job_expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", job_error.text);
}

struct psclient *job_open_client(void)
{
    struct psclient *opened = NULL;
    const struct psclient_options options = {.servers = job_list, .open_timeout_ms = LONG_MS};
    job_expect_ok(psclient_open(&options, &opened, &job_error));
    return opened;
}

struct psclient_rendezvous *job_open_step(struct psclient *of, uint64_t number)
{
    struct psclient_rendezvous *opened = NULL;
    job_expect_ok(psclient_rendezvous_open(of, number, NULL, LONG_MS, &opened, &job_error));
    return opened;
}

void job_begin(void)
{
    temp_folder_init(&job_folder);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_start_alone(&job_servers[i], PSERVER_PROGRAM, &job_folder, i);
    (void)snprintf(job_list, sizeof job_list, "%s,%s", job_servers[0].address,
                   job_servers[1].address);
    job_client = job_open_client();
    job_step = job_open_step(job_client, 123);
}

void job_end(void)
{
    psclient_rendezvous_close(job_step);
    psclient_close(job_client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&job_servers[i]);
    temp_folder_fini(&job_folder);
}

int job_send_text(struct psclient_rendezvous *to, const char *key, const char *text)
{
    const struct psclient_tensor tensor = {.dtype = 7,
                                           .element_size = 1,
                                           .rank = 1,
                                           .shape = {strlen(text)},
                                           .content = (void *)(uintptr_t)text,
                                           .size = strlen(text)};
    return psclient_rendezvous_send(to, key, &tensor, LONG_MS, &job_error);
}

void job_expect_text(struct psclient_rendezvous *from, const char *key, const char *text)
{
    struct psclient_tensor got = {0};
    job_expect_ok(psclient_rendezvous_recv(from, key, &got, LONG_MS, &job_error));
    ck_assert_uint_eq(got.size, strlen(text));
    ck_assert_mem_eq(got.content, text, got.size);
    ck_assert_uint_eq(got.dtype, 7);
    ck_assert_uint_eq(got.rank, 1);
    psclient_tensor_release(&got);
    ck_assert_ptr_null(got.content);
}

/* Another process that does this, and ends with 0 if all of it went well: this program once more,
 * since a client does not outlive a fork. */
pid_t job_in_child(const char *act)
{
    char program[] = "/proc/self/exe";
    char *const arguments[] = {program, (char *)(uintptr_t)act, job_list, NULL};
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)execv(program, arguments);
        _exit(127);
    }
    return child;
}

void job_expect_end(pid_t child)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int job_run_child(const char *servers, void (*act)(struct psclient_rendezvous *own))
{
    const struct psclient_options options = {.servers = servers, .open_timeout_ms = LONG_MS};
    if (psclient_open(&options, &job_client, &job_error) != PSCLIENT_OK ||
        psclient_rendezvous_open(job_client, 123, NULL, LONG_MS, &job_step, &job_error) !=
            PSCLIENT_OK)
        return 2;
    act(job_step);
    psclient_rendezvous_close(job_step);
    psclient_close(job_client);
    return 0;
}
