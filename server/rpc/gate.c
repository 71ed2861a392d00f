/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked, and in which order. A certificate comes before a token, since the one belongs to
 * the machine that holds its key and the other to whoever has read it; and a name that was checked
 * is used also when a token is shown beside it, but a token that nobody knows is refused in any
 * case: whoever sends one means to be somebody. */
#include "server/rpc/gate.h"

#include "base/assert.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <string.h>
#include <strings.h>

/* What a method needs. A method without a row needs the most: one that is added and forgotten here
 * is refused, and not open. */
struct right {
    enum ps_role role;
    bool some; /* of some parameters at least: each is asked about by name. Else of the whole job */
};

static const struct right rights[PS_METHOD_COUNT] = {
    [PS_METHOD_INIT] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_FINISH] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_PUSH] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_PULL] = {PS_ROLE_READER, true},
    [PS_METHOD_PUSHES] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_PULLS] = {PS_ROLE_READER, true},
    [PS_METHOD_PUSH_PULL] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_SINCE] = {PS_ROLE_READER, true},
    [PS_METHOD_STATUS] = {PS_ROLE_READER, true},
    [PS_METHOD_LIST] = {PS_ROLE_READER, false},
    [PS_METHOD_SAVE] = {PS_ROLE_ADMIN, false},
    [PS_METHOD_SAVE_MODEL] = {PS_ROLE_ADMIN, false},
    [PS_METHOD_DRAIN] = {PS_ROLE_ADMIN, false},
    [PS_METHOD_BARRIER] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_APPLIED] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_CLUSTER] = {PS_ROLE_READER, true},
    /* As FinishInitParams: who may initialise a part only would keep the others from it. */
    [PS_METHOD_BEGIN_INIT] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_END_INIT] = {PS_ROLE_TRAINER, false},
    /* A rank is of the whole job: who trains a part only could keep the others from theirs. */
    [PS_METHOD_JOIN] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_LEAVE] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_WORKERS] = {PS_ROLE_READER, true},
    [PS_METHOD_DEFINE] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_DROP] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_CONFIGURE] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_SET_CLOCKS] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_CLOCK] = {PS_ROLE_TRAINER, true},
    [PS_METHOD_PROGRESS] = {PS_ROLE_READER, true},
    /* A step is of the whole job, and its keys are nobody's parameters. */
    [PS_METHOD_SEND_TENSOR] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_RECV_TENSORS] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_STEP] = {PS_ROLE_TRAINER, false},
    /* A program is of the whole job: who takes its requests answers all workers. */
    [PS_METHOD_ASK] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_TAKE] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_ANSWER] = {PS_ROLE_TRAINER, false},
    [PS_METHOD_APPS] = {PS_ROLE_READER, true},
};

static enum ps_status identify(const struct ps_gate *gate, grpc_call *call,
                               const grpc_metadata_array *metadata, const struct ps_caller *caller,
                               struct ps_identity *identity, struct ps_error *error);
static bool find_token(const grpc_metadata_array *metadata, struct ps_bytes *token);
static enum ps_status name_of_token(const struct ps_gate *gate, grpc_call *call,
                                    struct ps_bytes token, const struct ps_caller *caller,
                                    struct ps_identity *identity, struct ps_error *error);
static bool is_of_unix(const struct ps_caller *caller);
static enum ps_status name_of_certificate(grpc_call *call, struct ps_identity *identity,
                                          bool *found, struct ps_error *error);

/* Without any of the three there is nothing by which one caller differs from another. */
void ps_gate_init(struct ps_gate *gate, struct ps_access *access, enum ps_client_auth client_auth,
                  const char *job, const char *local_name)
{
    /* Decided once: files that are named at the start stay in force whatever becomes of them, so
     * that a gate which asks never stops asking. */
    *gate = (struct ps_gate){.access = access, .job = job, .local_name = local_name};
    gate->asks = access != NULL && (client_auth != PS_CLIENT_AUTH_NONE ||
                                    ps_access_has_tokens(access) || ps_access_has_roles(access));
    PS_ASSERT(!gate->asks || (job != NULL && local_name != NULL));
}

/* Also of a number that is no method's, which would be a mistake of ours. */
static struct right right_of(enum ps_method method)
{
    /* The default denies: a row that is missing shows at the first call, and harms nobody. */
    struct right needed = {PS_ROLE_ADMIN, false};
    if ((size_t)method < PS_METHOD_COUNT && rights[method].role != PS_ROLE_NONE)
        needed = rights[method];
    return needed;
}

/* The rules are taken once for the call: it ends under those that it began under, however many
 * items it has. */
enum ps_status ps_gate_enter(const struct ps_gate *gate, grpc_call *call,
                             const grpc_metadata_array *metadata, const struct ps_caller *caller,
                             enum ps_method method, struct ps_pass *pass, struct ps_error *error)
{
    /* A slot serves many callers: nothing of the last one may be left. */
    PS_ASSERT(!pass->was_asked && pass->roles == NULL);
    if (!gate->asks)
        return PS_OK;
    PS_TRY(identify(gate, call, metadata, caller, &pass->identity, error));
    /* From here on the pass counts, also if the rules refuse: the audit and the log know the
     * name. */
    pass->was_asked = true;
    pass->roles = ps_access_roles(gate->access);
    struct right needed = right_of(method);
    const char *name = pass->identity.name;
    pass->every_name = ps_roles_allow_job(pass->roles, name, needed.role, gate->job);
    /* Most rules have no prefix, and their callers are done here. */
    if (pass->every_name)
        return PS_OK;
    if (needed.some && ps_roles_allow_some(pass->roles, name, needed.role, gate->job))
        return PS_OK;
    /* The role is named, and the caller: whoever asks an operator for it knows what to ask for. */
    return ps_refuse(error, PS_ERR_DENIED, PS_REFUSED_ROLE, 0,
                     "this call needs the role %s%s, which no rule gives to %.100s",
                     ps_role_text(needed.role), needed.some ? "" : " for the whole job", name);
}

/* A bundle has pushes and pulls, and a pull beside a push needs less than that. */
enum ps_status ps_gate_check_name(const struct ps_gate *gate, const struct ps_pass *pass,
                                  struct ps_bytes name, bool changes, struct ps_error *error)
{
    /* The trainer's role has the reader's rights: rules that allow pushes allow pulls. */
    enum ps_role needed = changes ? PS_ROLE_TRAINER : PS_ROLE_READER;
    if (!pass->was_asked || pass->every_name)
        return PS_OK;
    if (ps_roles_allow_name(pass->roles, pass->identity.name, needed, gate->job, name))
        return PS_OK;
    /* Without the name of the parameter, which came from the caller and may be anything. */
    return ps_refuse(error, PS_ERR_DENIED, PS_REFUSED_ROLE, 0,
                     "no rule gives the role %s for this name to %.100s", ps_role_text(needed),
                     pass->identity.name);
}

/* ---- Who it is ---- */

/* A name by a certificate is used also where a token is shown beside it; who comes through the unix
 * socket may show a token, to be somebody else than the user of the process. */
static enum ps_status identify(const struct ps_gate *gate, grpc_call *call,
                               const grpc_metadata_array *metadata, const struct ps_caller *caller,
                               struct ps_identity *identity, struct ps_error *error)
{
    struct ps_bytes token = {0};
    bool has_tokens = ps_access_has_tokens(gate->access);
    bool found = false;
    /* A token that nobody asks for is somebody else's: proxies and meshes send theirs
     * everywhere. */
    bool is_shown = has_tokens && find_token(metadata, &token);
    if (is_shown)
        PS_TRY(name_of_token(gate, call, token, caller, identity, error));
    PS_TRY(name_of_certificate(call, identity, &found, error));
    if (found || is_shown)
        return PS_OK;
    /* Only a caller that has shown nothing comes so far. Of a unix socket the kernel has said
     * who may open it, which counts for as much as a token: rules know such callers by the
     * user's number. */
    if (is_of_unix(caller))
        return ps_identity_set(identity, PS_IDENTITY_LOCAL, ps_bytes_of_text(gate->local_name),
                               error);
    if (has_tokens)
        return ps_refuse(error, PS_ERR_UNAUTHENTICATED, PS_REFUSED_NO_IDENTITY, 0,
                         "neither a token (authorization: Bearer ...) nor a certificate with a "
                         "name was shown");
    ps_identity_set_anybody(identity);
    return PS_OK;
}

/* gRPC gives all of them one address; which of the users that were let in it is, it does not
 * say. */
static bool is_of_unix(const struct ps_caller *caller)
{
    static const char scheme[] = "unix:"; /* with or without a path behind it */
    return caller->connection_size >= sizeof scheme - 1 &&
           memcmp(caller->connection, scheme, sizeof scheme - 1) == 0;
}

/* What stands behind "Bearer " in the first line of that name; its case does not matter, as HTTP
 * has it. A line of another scheme counts as a token that nobody knows. */
static bool find_token(const grpc_metadata_array *metadata, struct ps_bytes *token)
{
    static const char scheme[] = "Bearer ";
    size_t skip = sizeof scheme - 1;
    /* Few lines, which gRPC has in the order in which they came; its keys are in small letters. */
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *line = &metadata->metadata[i];
        if (grpc_slice_str_cmp(line->key, "authorization") != 0)
            continue;
        const uint8_t *value = GRPC_SLICE_START_PTR(line->value);
        size_t size = GRPC_SLICE_LENGTH(line->value);
        bool is_bearer = size > skip && strncasecmp((const char *)value, scheme, skip) == 0;
        *token = is_bearer ? (struct ps_bytes){value + skip, size - skip} : (struct ps_bytes){0};
        return true;
    }
    return false;
}

/* A token that came over a network in plaintext is everybody's from then on: it is refused
 * before it is looked at, so that whoever set that up notices at once. The transport of such a
 * call has no encryption: gRPC says so by a property that only its TLS has. */
static bool is_encrypted(grpc_call *call)
{
    /* The context belongs to the connection, and asking for it takes a tenth of a microsecond:
     * nothing is kept from call to call, which could outlive the connection that it was true of. */
    grpc_auth_context *context = grpc_call_auth_context(call);
    grpc_auth_property_iterator found = grpc_auth_context_find_properties_by_name(
        context, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
    /* One property of that name at most. */
    const grpc_auth_property *type = grpc_auth_property_iterator_next(&found);
    bool is_tls = type != NULL && strcmp(type->value, GRPC_SSL_TRANSPORT_SECURITY_TYPE) == 0;
    grpc_auth_context_release(context);
    return is_tls;
}

/* The tokens are asked for anew by each call, so that one which is taken out of the file is refused
 * with the next. */
static enum ps_status name_of_token(const struct ps_gate *gate, grpc_call *call,
                                    struct ps_bytes token, const struct ps_caller *caller,
                                    struct ps_identity *identity, struct ps_error *error)
{
    if (!caller->is_local && !is_encrypted(call))
        return ps_refuse(error, PS_ERR_UNAUTHENTICATED, PS_REFUSED_BAD_TOKEN, 0,
                         "a token is not taken over plaintext from another host: use TLS, and "
                         "another token, since this one was seen on the way");
    /* The name lives as long as the reference, and is copied before that goes. */
    struct ps_tokens *tokens = ps_access_tokens(gate->access);
    const char *name = ps_tokens_name_of(tokens, token);
    enum ps_status status =
        name != NULL ? ps_identity_set(identity, PS_IDENTITY_TOKEN, ps_bytes_of_text(name), error)
                     : ps_refuse(error, PS_ERR_UNAUTHENTICATED, PS_REFUSED_BAD_TOKEN, 0,
                                 "the token that was shown is not one that this server knows");
    ps_tokens_release(tokens);
    return status;
}

/* Of several names the first of a kind counts, URIs before hosts. Properties are asked for by name:
 * what gRPC calls the identity of a peer is a mixture of all kinds. */
static enum ps_status name_of_certificate(grpc_call *call, struct ps_identity *identity,
                                          bool *found, struct ps_error *error)
{
    /* URIs first: a name like spiffe://trust/job/worker says what somebody is for, while a DNS name
     * says where a machine stands, and one certificate often has both. Addresses and mail are not
     * looked at, since nobody writes rules for them. */
    static const char *const kinds[] = {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME};
    /* A plaintext connection has a context without such properties, or none. */
    enum ps_status status = PS_OK;
    grpc_auth_context *context = grpc_call_auth_context(call);
    *found = false;
    for (size_t i = 0; context != NULL && !*found && i < sizeof kinds / sizeof kinds[0]; i++) {
        grpc_auth_property_iterator names =
            grpc_auth_context_find_properties_by_name(context, kinds[i]);
        const grpc_auth_property *name = grpc_auth_property_iterator_next(&names);
        if (name == NULL)
            continue;
        *found = true;
        status = ps_identity_set(
            identity, PS_IDENTITY_CERTIFICATE,
            (struct ps_bytes){(const uint8_t *)name->value, name->value_length}, error);
    }
    grpc_auth_context_release(context);
    return status;
}

/* Without rules everybody may do everything, which does not make a trainer the operator of
 * another's client id. */
bool ps_gate_is_operator(const struct ps_gate *gate, const struct ps_pass *pass)
{
    return pass->was_asked && pass->roles != NULL &&
           ps_roles_allow_job(pass->roles, pass->identity.name, PS_ROLE_ADMIN, gate->job);
}

/* For the audit, which has a line also of servers that ask nobody. */
const char *ps_pass_name(const struct ps_pass *pass)
{
    return pass->was_asked ? pass->identity.name : "anybody";
}

/* Also of a call that was refused: it may have rules by then. */
void ps_pass_release(struct ps_pass *pass)
{
    ps_roles_release(pass->roles);
    pass->roles = NULL;
    pass->was_asked = false;
}
