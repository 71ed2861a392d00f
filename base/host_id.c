/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's random number of this start, which containers share with their host: they share the
 * clock, too. */
#include "base/host_id.h"

#include "base/hash.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

static uint64_t find(void)
{
    char text[64] = "";
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) < 0)
            text[0] = '\0';
        (void)close(file);
    }
    if (text[0] == '\0' && gethostname(text, sizeof text - 1) != 0)
        text[0] = '\0';
    uint64_t id = ps_hash_fnv1a64(ps_bytes_of_text(text));
    return id != 0 ? id : 1;
}

/* Found anew by threads that ask at the same time, who find the same. */
uint64_t ps_host_id(void)
{
    static _Atomic uint64_t known;
    uint64_t id = atomic_load(&known);
    if (id == 0) {
        id = find();
        atomic_store(&known, id);
    }
    return id;
}
