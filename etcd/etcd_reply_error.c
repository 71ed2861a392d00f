/* SPDX-License-Identifier: Apache-2.0 */
/* From gRPC codes, HTTP statuses and etcd's words to what we do next.
 *
 * etcd is not consistent about codes: a stale token, for example, is reported in three different
 * ways, depending on version and place. The words are those that etcd's own client in Go compares,
 * so they are looked at first, the gRPC code second, the HTTP status last. What is not recognised
 * is UNKNOWN: it may have happened. That errs on the side of reading back once too often. */
#include "etcd/etcd_reply_error.h"

#include "base/attributes.h"

#include <stdio.h>
#include <string.h>

/* Words that say more than the code beside them. */
struct phrase {
    const char *words;
    enum ps_etcd_meaning meaning;
    enum ps_status status;
};

static const struct phrase phrases[] = {
    {"invalid auth token", PS_ETCD_AUTHENTICATE, PS_ERR_DENIED},
    {"user name is empty", PS_ETCD_AUTHENTICATE, PS_ERR_DENIED},
    {"revision of auth store is old", PS_ETCD_AUTHENTICATE, PS_ERR_DENIED},
    {"authentication is not enabled", PS_ETCD_NO_AUTH, PS_ERR_UNSUPPORTED},
    {"authentication failed", PS_ETCD_REFUSED, PS_ERR_DENIED},
    {"permission denied", PS_ETCD_REFUSED, PS_ERR_DENIED},
    {"requested lease not found", PS_ETCD_REFUSED, PS_ERR_LEASE_LOST},
    {"lease already exists", PS_ETCD_REFUSED, PS_ERR_EXISTS},
    {"has been compacted", PS_ETCD_REFUSED, PS_ERR_CONFLICT},
};

static void judge(int64_t code, const char *words, struct ps_etcd_error *error);
static void judge_code(int64_t code, struct ps_etcd_error *error);
static void judge_http(long http_status, struct ps_etcd_error *error);
static void copy_words(const char *words, struct ps_etcd_error *error);

/* The one answer of etcd's that is not JSON: its gateway cannot take a user from a certificate, and
 * refuses those that could be meant so. */
static const char common_name[] = "CommonName of client";

/* Any other body that is not JSON is a proxy's or load balancer's page; then the HTTP status is all
 * there is. */
void ps_etcd_reply_error(struct ps_bytes reply, long http_status, struct ps_etcd_error *error)
{
    struct ps_json *document = NULL;
    if (ps_json_parse(ps_etcd_trimmed(reply), PS_ETCD_REPLY_BYTES_MAX, &document, NULL) != PS_OK)
        document = NULL;
    ps_etcd_error_of(document, http_status, error);
    if (document == NULL && http_status == 400 && reply.size > 0 &&
        memmem(reply.data, reply.size, common_name, sizeof common_name - 1) != NULL) {
        error->meaning = PS_ETCD_REFUSED;
        error->status = PS_ERR_DENIED;
        copy_words("beside a user etcd takes a client's certificate only without a CommonName",
                   error);
    }
    ps_json_destroy(document);
}

void ps_etcd_error_of(const struct ps_json *document, long http_status, struct ps_etcd_error *error)
{
    *error = (struct ps_etcd_error){.meaning = PS_ETCD_FINE};
    if (document == NULL) {
        judge_http(http_status, error);
        return;
    }
    /* Two shapes: {"error": "...", "code": 14, "message": "..."} of a single reply, and {"error":
     * {"grpc_code": 14, "message": "..."}} within a stream. */
    const struct ps_json *inner = ps_json_member(document, "error");
    const struct ps_json *holder = ps_json_is_object(inner) ? inner : document;
    int64_t code = 0;
    bool coded = ps_json_int_of(ps_json_member(holder, "grpc_code"), &code) ||
                 ps_json_int_of(ps_json_member(holder, "code"), &code);
    /* Neither a code nor an error: this is an ordinary reply. */
    if (!coded && inner == NULL && http_status < 300) {
        return;
    }
    const char *words = ps_json_string(ps_json_member(holder, "message"));
    if (words == NULL)
        words = ps_json_string(inner);
    if (coded || words != NULL)
        judge(code, words == NULL ? "" : words, error);
    else
        judge_http(http_status, error);
}

void ps_etcd_error_of_text(const char *reason, struct ps_etcd_error *error)
{
    *error = (struct ps_etcd_error){0};
    /* A cancelled watch gives only a reason, no code: words that are not recognised count as
     * UNAVAILABLE. */
    judge(14, reason == NULL ? "" : reason, error);
}

/* The gateway ends replies with a newline. strchr finds the NUL of its own list, hence the second
 * test. */
struct ps_bytes ps_etcd_trimmed(struct ps_bytes text)
{
    while (text.size > 0 && strchr(" \t\r\n", (char)text.data[text.size - 1]) != NULL &&
           text.data[text.size - 1] != '\0')
        text.size--;
    return text;
}

static void judge(int64_t code, const char *words, struct ps_etcd_error *error)
{
    copy_words(words, error);
    for (size_t i = 0; i < PS_ARRAY_COUNT(phrases); i++) {
        if (strstr(words, phrases[i].words) == NULL)
            continue;
        error->meaning = phrases[i].meaning;
        error->status = phrases[i].status;
        return;
    }
    judge_code(code, error);
}

/* By the gRPC code. Codes that say that the request was judged and refused are definite; all others
 * leave open what happened: "request timed out" is UNAVAILABLE (14) and may be committed. */
static void judge_code(int64_t code, struct ps_etcd_error *error)
{
    error->meaning = PS_ETCD_REFUSED;
    switch (code) {
    case 3: /* INVALID_ARGUMENT */
        error->status = PS_ERR_BAD_INPUT;
        return;
    case 5: /* NOT_FOUND */
        error->status = PS_ERR_NOT_FOUND;
        return;
    case 7: /* PERMISSION_DENIED */
        error->status = PS_ERR_DENIED;
        return;
    case 8: /* RESOURCE_EXHAUSTED: no space, too many requests */
        error->status = PS_ERR_BUSY;
        return;
    case 9:  /* FAILED_PRECONDITION */
    case 12: /* UNIMPLEMENTED */
        error->status = PS_ERR_UNSUPPORTED;
        return;
    case 11: /* OUT_OF_RANGE: compacted, or a revision of the future */
        error->status = PS_ERR_CONFLICT;
        return;
    case 16: /* UNAUTHENTICATED */
        error->meaning = PS_ETCD_AUTHENTICATE;
        error->status = PS_ERR_DENIED;
        return;
    default:
        error->meaning = PS_ETCD_UNKNOWN;
        return;
    }
}

/* 404 and 405 come from something that is not etcd, or from an etcd without the v3 gateway. */
static void judge_http(long http_status, struct ps_etcd_error *error)
{
    (void)snprintf(error->text, sizeof error->text, "HTTP status %ld", http_status);
    error->meaning = PS_ETCD_UNKNOWN;
    if (http_status == 401) {
        error->meaning = PS_ETCD_AUTHENTICATE;
        error->status = PS_ERR_DENIED;
    }
    if (http_status == 404 || http_status == 405) {
        error->meaning = PS_ETCD_REFUSED;
        error->status = PS_ERR_UNSUPPORTED;
    }
}

/* For a log line: other bytes than printable ASCII might be control sequences of a terminal. */
static void copy_words(const char *words, struct ps_etcd_error *error)
{
    size_t size = 0;
    while (size < sizeof error->text - 1 && words[size] != '\0') {
        char byte = words[size];
        error->text[size++] = byte >= ' ' && byte <= '~' ? byte : '?';
    }
    error->text[size] = '\0';
}
