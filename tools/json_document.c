/* SPDX-License-Identifier: Apache-2.0 */
/* Building and printing one JSON document. The document is built in memory and printed at once, so
 * that standard output has either a whole document or nothing: a program behind a pipe cannot use
 * half of one. */
#include "tools/json_document.h"

#include <stdio.h>

/* A bound against a loop that never ends, not against large answers. */
#define DOCUMENT_BYTES_MAX ((size_t)1 << 30)

/* The heap, since a document lives as long as its command. */
void json_document_init(struct json_document *document)
{
    ps_buffer_init(&document->text, ps_allocator_heap(), DOCUMENT_BYTES_MAX);
    ps_json_writer_init(&document->json, &document->text);
}

void json_document_fini(struct json_document *document)
{
    ps_buffer_fini(&document->text);
}

void json_document_print(const struct json_document *document)
{
    struct ps_error error;
    if (ps_buffer_status(&document->text, &error) != PS_OK)
        (void)fprintf(stderr, "the answer is too large to print: %s\n", error.text);
    else
        (void)puts(document->text.text);
}

/* Most members are texts of C: one word for them keeps the lines of a document readable. */
void json_text(struct ps_json_writer *json, const char *key, const char *text)
{
    ps_json_text(json, key, ps_bytes_of_text(text));
}
