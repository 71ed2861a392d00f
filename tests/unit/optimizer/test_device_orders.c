/* SPDX-License-Identifier: Apache-2.0 */
/* Streams may run in many orders, and every one that is legal must give the CPU's bits. With a wait
 * left out, some order must not: that is what the other programs of this file are for. Each order
 * runs in a process of its own: a kernel that reads a table before it is there may well crash.
 *
 * usage: test_device_orders [ORDERS [SEED]]              every order is right, from this seed on
 *        test_device_missing_wait_N [ORDERS] wrong       at least one is not */
#include "device_orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_right(uint64_t seed)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(ps_device_order_is_right(seed) ? EXIT_SUCCESS : EXIT_FAILURE);
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    uint64_t orders = argc > 1 ? strtoull(argv[1], NULL, 10) : 200;
    bool wants_wrong = argc > 2 && strcmp(argv[2], "wrong") == 0;
    uint64_t first = argc > 2 && !wants_wrong ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t wrong = 0;
    /* Where some is to be wrong, one is enough. */
    for (uint64_t seed = first; seed - first < orders && !(wants_wrong && wrong > 0); seed++) {
        if (is_right(seed))
            continue;
        if (wrong++ == 0)
            printf("first wrong order: seed %llu\n", (unsigned long long)seed);
    }
    printf("%llu of up to %llu orders are wrong\n", (unsigned long long)wrong,
           (unsigned long long)orders);
    return (wrong > 0) == wants_wrong ? EXIT_SUCCESS : EXIT_FAILURE;
}
