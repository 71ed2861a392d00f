/* SPDX-License-Identifier: Apache-2.0 */
/* What a client is told when it is opened: checked, completed from the environment, copied. */
#include "client/client_state.h"
#include "client/engine/engine_session.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_TTL_MS 10000
#define TOP_K_SHARE 0.01
#define FEEDBACK_BYTES_MAX ((uint64_t)1 << 30)

static enum ps_status copy_option(struct psclient *client, const char *text, char **copy,
                                  struct ps_error *error)
{
    if (text == NULL)
        return PS_OK;
    *copy = ps_copy_text(client->memory, text, strlen(text));
    if (*copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a client");
    return PS_OK;
}

static enum ps_status copy_encodings(struct psclient *client,
                                     const struct psclient_options *options, struct ps_error *error)
{
    if ((unsigned)options->encoding > PSCLIENT_TOP_K ||
        (unsigned)options->reply_encoding > PSCLIENT_INT8)
        return ps_fail(error, PS_ERR_BAD_INPUT, "gradients in encoding %u, replies in %u",
                       (unsigned)options->encoding, (unsigned)options->reply_encoding);
    /* Written so that a NaN is refused. */
    if (!(options->top_k_share >= 0 && options->top_k_share <= 1))
        return ps_fail(error, PS_ERR_BAD_INPUT, "a share of %g for top_k", options->top_k_share);
    client->reply_encoding = (enum ps_encoding)options->reply_encoding;
    client->encoder.encoding = (enum ps_encoding)options->encoding;
    client->encoder.share = options->top_k_share > 0 ? options->top_k_share : TOP_K_SHARE;
    client->encoder.bytes_max =
        options->feedback_bytes_max > 0 ? options->feedback_bytes_max : FEEDBACK_BYTES_MAX;
    return PS_OK;
}

/* An option that is not given may be in the environment; an empty text is none, wherever it is. */
static const char *or_environment(const char *text, const char *variable)
{
    if (text == NULL)
        text = getenv(variable);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static enum ps_status copy_access(struct psclient *client, const struct psclient_options *options,
                                  struct ps_error *error)
{
    const struct ps_etcd_access wish = {
        .user = options->etcd_user,
        .password = options->etcd_password,
        .password_file = or_environment(options->etcd_password_file, "PSCLIENT_ETCD_PASSWORD_FILE"),
        .ca = or_environment(options->etcd_ca, "PSCLIENT_ETCD_CA"),
        .certificate = or_environment(options->etcd_cert, "PSCLIENT_ETCD_CERT"),
        .key = or_environment(options->etcd_key, "PSCLIENT_ETCD_KEY"),
        .insecure_password = options->etcd_insecure_password != 0};
    return ps_etcd_access_copy(&wish, client->memory, &client->etcd_access, error);
}

static enum ps_status copy_files(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error)
{
    const struct ps_channel_files wish = {
        .paths = {[PS_FILE_CA] = or_environment(options->tls_ca, "PSCLIENT_TLS_CA"),
                  [PS_FILE_CERTIFICATE] = or_environment(options->tls_cert, "PSCLIENT_TLS_CERT"),
                  [PS_FILE_KEY] = or_environment(options->tls_key, "PSCLIENT_TLS_KEY"),
                  [PS_FILE_TOKEN] = or_environment(options->token_file, "PSCLIENT_TOKEN_FILE")},
        .server_name = or_environment(options->tls_server_name, "PSCLIENT_TLS_SERVER_NAME")};
    return ps_channel_files_copy(&wish, client->memory, &client->files, error);
}

/* Strings are copied: the caller's may go after the call. */
enum ps_status ps_client_copy_options(struct psclient *client,
                                      const struct psclient_options *options,
                                      struct ps_error *error)
{
    PS_TRY(copy_option(client, options->etcd, &client->etcd, error));
    PS_TRY(copy_access(client, options, error));
    PS_TRY(copy_files(client, options, error));
    PS_TRY(copy_option(client, options->job != NULL ? options->job : "", &client->job, error));
    if (options->client_id != NULL)
        PS_TRY(ps_client_name_check(options->client_id, error));
    PS_TRY(copy_option(client, options->client_id, &client->client_id, error));
    client->split_bytes = options->split_bytes != 0 ? options->split_bytes : PS_SPLIT_BYTES_DEFAULT;
    client->lock_ttl_ms = options->lock_ttl_ms != 0 ? options->lock_ttl_ms : LOCK_TTL_MS;
    if ((options->etcd == NULL) == (options->servers == NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT, "name either etcd or servers");
    if ((unsigned)options->ack > PSCLIENT_ACK_LOGGED)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%u is not a level of acknowledgement",
                       (unsigned)options->ack);
    client->ack = (enum ps_ack)options->ack;
    /* Not a number: whoever chose one would have to know all names and sizes. */
    client->places_classic =
        options->placement != NULL && strcmp(options->placement, "classic") == 0;
    if (options->placement != NULL && options->placement[0] != '\0' && !client->places_classic)
        return ps_fail(error, PS_ERR_BAD_INPUT, "\"%.40s\" is not a placement: \"classic\" is one",
                       options->placement);
    PS_TRY(copy_encodings(client, options, error));
    const char *busy_poll = options->busy_poll;
    if (busy_poll == NULL)
        busy_poll = getenv("PSCLIENT_BUSY_POLL");
    return ps_busy_poll_parse("busy_poll", busy_poll != NULL ? busy_poll : "auto",
                              &client->busy_poll, error);
}

void ps_client_release_options(struct psclient *client)
{
    ps_release(client->memory, client->client_id);
    ps_release(client->memory, client->job);
    ps_release(client->memory, client->etcd);
    ps_etcd_access_release(&client->etcd_access, client->memory);
    ps_channel_files_release(&client->files, client->memory);
}
