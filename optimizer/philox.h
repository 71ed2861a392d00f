/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10, a random number that is a pure function of a counter and a key (Salmon et al.,
 * SC 2011): the same numbers on CPU and GPU, in any order, after any restart.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_PHILOX_H
#define PS_OPTIMIZER_PHILOX_H

#include "optimizer/rule.h"

#include <stdint.h>

struct ps_philox {
    uint32_t word[4];
};

PS_RULE struct ps_philox ps_philox_round(struct ps_philox in, uint32_t key_0, uint32_t key_1)
{
    uint64_t product_0 = (uint64_t)0xD2511F53u * in.word[0];
    uint64_t product_1 = (uint64_t)0xCD9E8D57u * in.word[2];
    struct ps_philox out;
    out.word[0] = (uint32_t)(product_1 >> 32) ^ in.word[1] ^ key_0;
    out.word[1] = (uint32_t)product_1;
    out.word[2] = (uint32_t)(product_0 >> 32) ^ in.word[3] ^ key_1;
    out.word[3] = (uint32_t)product_0;
    return out;
}

PS_RULE struct ps_philox ps_philox_random(struct ps_philox counter, uint64_t key)
{
    uint32_t key_0 = (uint32_t)key;
    uint32_t key_1 = (uint32_t)(key >> 32);
    for (int i = 0; i < 10; i++) {
        counter = ps_philox_round(counter, key_0, key_1);
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    return counter;
}

#endif
