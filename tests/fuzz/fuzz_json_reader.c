/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JSON document: refused, or a tree of which every look-up works. */
#include "fuzz_target.h"

#include "base/utf8.h"
#include "json/json_reader.h"

#include <stdlib.h>

static void visit(const struct ps_json *value)
{
    uint64_t natural;
    int64_t integer;
    double real;
    bool flag;
    (void)ps_json_uint_of(value, &natural);
    (void)ps_json_int_of(value, &integer);
    (void)ps_json_real_of(value, &real);
    (void)ps_json_bool_of(value, &flag);
    if (!ps_utf8_valid(ps_bytes_of_text(ps_json_string(value))) ||
        !ps_utf8_valid(ps_bytes_of_text(ps_json_key(value))))
        abort();
    for (const struct ps_json *i = ps_json_first(value); i != NULL; i = ps_json_next(i))
        visit(i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_json *document = NULL;
    struct ps_error error;
    enum ps_status status =
        ps_json_parse((struct ps_bytes){data, size}, 1 << 20, &document, &error);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
    if (status == PS_OK)
        visit(document);
    ps_json_destroy(document);
    return 0;
}
