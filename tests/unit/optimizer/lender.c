/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and answers are bytes in pipes; contents go through a window of shared memory. */
#include "lender.h"

#include "optimizer/device/share.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the other process: no assertion of Check belongs there. */
static _Noreturn void obey(float *window, size_t size, int orders, int answers)
{
    struct ps_device_share share;
    void *memory = NULL;
    uint8_t *base = NULL;
    char order = 0;
    if (ps_share_acquire(size, &memory, NULL) != PS_OK ||
        ps_share_name(memory, &share, &base, NULL) != PS_OK ||
        write(answers, &share, sizeof share) != sizeof share)
        _exit(EXIT_FAILURE);
    while (read(orders, &order, 1) == 1) {
        enum ps_status status =
            order == 's' ? ps_share_copy(memory, window, size, PS_DEVICE_COPY_FROM_HOST, NULL)
                         : ps_share_copy(window, memory, size, PS_DEVICE_COPY_TO_HOST, NULL);
        if (status != PS_OK || write(answers, &order, 1) != 1)
            _exit(EXIT_FAILURE);
    }
    _exit(EXIT_SUCCESS);
}

void lender_begin(struct lender *lender, size_t count)
{
    int orders[2], answers[2];
    size_t size = count * sizeof(float);
    *lender = (struct lender){.count = count};
    lender->window = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(lender->window, MAP_FAILED);
    ck_assert_int_eq(pipe(orders) + pipe(answers), 0);
    lender->process = fork();
    if (lender->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(orders[1]);
        obey(lender->window, size, orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    lender->orders = orders[1];
    lender->answers = answers[0];
    ck_assert_int_eq(read(lender->answers, &lender->share, sizeof lender->share),
                     sizeof lender->share);
}

static void tell(struct lender *lender, char order)
{
    char answer = 0;
    ck_assert_int_eq(write(lender->orders, &order, 1), 1);
    ck_assert_int_eq(read(lender->answers, &answer, 1), 1);
    ck_assert_int_eq(answer, order);
}

void lender_store(struct lender *lender)
{
    tell(lender, 's');
}

void lender_load(struct lender *lender)
{
    tell(lender, 'l');
}

void lender_end(struct lender *lender)
{
    if (lender->process == 0)
        return;
    kill(lender->process, SIGKILL);
    ck_assert_int_eq(waitpid(lender->process, NULL, 0), lender->process);
    close(lender->orders);
    close(lender->answers);
    munmap(lender->window, lender->count * sizeof(float));
    *lender = (struct lender){0};
}
