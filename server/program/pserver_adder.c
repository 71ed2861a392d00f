/* SPDX-License-Identifier: Apache-2.0 */
/* pserver-adder: a server whose app 0 adds what workers push under their keys, store[key] += value,
 * as ps-lite's default handler does. Its arguments are those of pserver. It is the smallest program
 * over libpserver, and to be read as an example of one. */
#include "server/program/pserver_program.h"

#include <stdio.h>
#include <stdlib.h>

/* In order: the arguments, the handlers, the port. */
int main(int argc, char **argv)
{
    struct pserver *server = NULL;
    struct pserver_error error = {.status = PSERVER_OK};
    if (pserver_create(argc, argv, &server, &error) != PSERVER_OK ||
        pserver_handle_ready_made(server, 0, PSERVER_ADD, PSERVER_FLOAT32, &error) != PSERVER_OK ||
        pserver_start(server, &error) != PSERVER_OK) {
        (void)fprintf(stderr, "pserver-adder: %s\n", error.text);
        return EXIT_FAILURE;
    }
    int code = pserver_wait(server);
    pserver_destroy(server);
    return code;
}
