/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside of the tree that uses the installed headers and library. */
#include <paddle_compat.h>
#include <psclient.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    const struct psclient_options options = {.servers = "no port"};
    struct psclient *client = NULL;
    struct psclient_error error;
    if (psclient_open(&options, &client, &error) != PSCLIENT_INVALID)
        return 1;
    if (strcmp(psclient_status_name(error.status), "invalid") != 0)
        return 2;
    if (paddle_begin_init_params(0) != PSERVER_ERROR)
        return 3;
    puts("the installed client answers");
    return 0;
}
