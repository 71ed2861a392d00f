/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON document that a tool builds and prints on standard output.
 *
 * Threads:  one.
 * Blocking: printing, as standard output does.
 * Errors:   a document that outgrew its bound or the memory is reported when printed.
 * Memory:   owned until json_document_fini.
 */
#ifndef PS_TOOLS_JSON_DOCUMENT_H
#define PS_TOOLS_JSON_DOCUMENT_H

#include "base/buffer.h"
#include "base/json_writer.h"

struct json_document {
    struct ps_buffer text;
    struct ps_json_writer json;
};

void json_document_init(struct json_document *document);
void json_document_fini(struct json_document *document);

/* A member, or with key NULL an element, that is a text of C. */
void json_text(struct ps_json_writer *json, const char *key, const char *text);

/* Prints the document and a newline; a complaint on standard error when it is incomplete. */
void json_document_print(const struct json_document *document);

#endif
