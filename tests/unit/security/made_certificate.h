/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of a test's own: a key and a certificate that signs itself, as PEM.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   whatever fails ends the test.
 * Memory:   in place.
 */
#ifndef PS_TESTS_UNIT_SECURITY_MADE_CERTIFICATE_H
#define PS_TESTS_UNIT_SECURITY_MADE_CERTIFICATE_H

#include <stdint.h>

/* What a test calls now, since 1970. */
#define MADE_NOW_S ((int64_t)1750000000)

struct made_certificate {
    char chain[2048];
    char key[1024];
};

/* Valid from `from_s` to `until_s`. */
void made_certificate_init(struct made_certificate *made, int64_t from_s, int64_t until_s);

#endif
