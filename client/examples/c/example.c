/* SPDX-License-Identifier: Apache-2.0 */
/* Initialises, pushes and pulls one parameter through libpsclient: ./run_c.sh HOST:PORT */
#include <psclient.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_MS 30000 /* longer than a server may be away: calls are repeated within it */

static void check(int status, const struct psclient_error *error)
{
    if (status == PSCLIENT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

int main(int argc, char **argv)
{
    const struct psclient_options options = {.servers = argc > 1 ? argv[1] : "127.0.0.1:8000"};
    struct psclient_error error = {.status = PSCLIENT_OK};
    struct psclient *client;
    check(psclient_open(&options, &client, &error), &error);

    /* One trainer of the job is selected to initialise; the others go on when it has. */
    float weights[] = {1, 2, 3};
    struct psclient_parameter w = {.name = "w",
                                   .type = PSCLIENT_FLOAT32,
                                   .content = weights,
                                   .content_size = sizeof weights}; /* no config: SGD, rate 1 */
    int selected;
    check(psclient_begin_init(client, TIMEOUT_MS, &selected, &error), &error);
    if (selected) {
        check(psclient_init(client, &w, 1, TIMEOUT_MS, NULL, &error), &error);
        check(psclient_finish_init(client, TIMEOUT_MS, &error), &error);
    }

    const float values[] = {0.5F, 0.5F, 0.5F};
    const struct psclient_gradient gradient = {.name = "w",
                                               .type = PSCLIENT_FLOAT32,
                                               .content = values,
                                               .content_size = sizeof values};
    struct psclient_result pushed;
    check(psclient_push(client, &gradient, 1, TIMEOUT_MS, &pushed, &error), &error);
    check(psclient_pull(client, &w, 1, TIMEOUT_MS, NULL, &error), &error);
    printf("version %llu\nw = %g %g %g\n", (unsigned long long)pushed.version, (double)weights[0],
           (double)weights[1], (double)weights[2]);
    psclient_close(client);
    return 0;
}
