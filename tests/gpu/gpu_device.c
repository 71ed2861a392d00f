/* SPDX-License-Identifier: Apache-2.0 */
/* The device runtime over the driver that is linked: a training with reads in between, as in
 * test_device_orders, several times over, and the suite of the plugin's table.
 *
 * usage: gpu_device [TIMES]
 *
 * 77 is returned where there is no device. */
#include "device_orders.h"
#include "device_suite.h"

#include "optimizer/device.h"

#include <stdlib.h>

#define NO_DEVICE 77

extern ps_device_entry_fn ps_device_entry;

int main(int argc, char **argv)
{
    uint64_t times = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
    struct expect expect = {.test = "a_training_has_the_bits_of_the_cpu"};
    struct ps_error error = {0};
    uint32_t count = 0;
    if (ps_device_entry(PS_DEVICE_ABI)->count(&count, &error) != PS_OK) {
        printf("no device: %s\n", error.text);
        return NO_DEVICE;
    }
    for (uint64_t seed = 1; seed <= times; seed++)
        EXPECT(&expect, ps_device_order_is_right(seed));
    printf("%s %s, %llu times\n", expect.failures == 0 ? "ok  " : "FAIL", expect.test,
           (unsigned long long)times);
    device_suite_run(&expect);
    return expect_end(&expect);
}
