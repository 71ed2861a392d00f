/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, checking and comparing the files. A file is known to be new by what stat says of it,
 * which is cheap enough to be asked each second; its content is read when a connection is made. */
#include "client/channel/channel_files.h"

#include "base/attributes.h"
#include "base/file.h"

#include <string.h>

/* A list of all the CAs of a system is a fifth of this. */
#define FILE_BYTES_MAX (1 << 20)

/* As the options are called, for messages. */
static const char *const names[PS_FILE_KINDS] = {"tls_ca", "tls_cert", "tls_key", "token_file"};

static bool copy_text(const char *text, const struct ps_allocator *memory, const char **copy);
static enum ps_status read_one(const struct ps_channel_files *files, enum ps_channel_file kind,
                               const struct ps_allocator *memory, char **text,
                               struct ps_error *error);

enum ps_status ps_channel_files_copy(const struct ps_channel_files *files,
                                     const struct ps_allocator *memory,
                                     struct ps_channel_files *copy, struct ps_error *error)
{
    *copy = (struct ps_channel_files){.server_name = NULL};
    bool whole = copy_text(files->server_name, memory, &copy->server_name);
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++)
        whole = copy_text(files->paths[kind], memory, &copy->paths[kind]) && whole;
    return whole ? PS_OK : ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the names of files");
}

static bool copy_text(const char *text, const struct ps_allocator *memory, const char **copy)
{
    *copy = text != NULL ? ps_copy_text(memory, text, strlen(text)) : NULL;
    return text == NULL || *copy != NULL;
}

/* The texts are ours, as copies, though the struct says const for those of the options. */
void ps_channel_files_release(struct ps_channel_files *copy, const struct ps_allocator *memory)
{
    ps_release(memory, (void *)(uintptr_t)copy->server_name);
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++)
        ps_release(memory, (void *)(uintptr_t)copy->paths[kind]);
    *copy = (struct ps_channel_files){.server_name = NULL};
}

enum ps_status ps_channel_files_check(const struct ps_channel_files *files, struct ps_error *error)
{
    bool ca = files->paths[PS_FILE_CA] != NULL;
    bool certificate = files->paths[PS_FILE_CERTIFICATE] != NULL;
    if (certificate != (files->paths[PS_FILE_KEY] != NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT, "tls_cert and tls_key belong together: give both");
    if (certificate && !ca)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "tls_cert needs tls_ca: who may vouch for the servers?");
    return PS_OK;
}

enum ps_status ps_channel_files_read(const struct ps_channel_files *files,
                                     const struct ps_allocator *memory,
                                     struct ps_channel_secrets *secrets, struct ps_error *error)
{
    *secrets = (struct ps_channel_secrets){{NULL}};
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++) {
        if (files->paths[kind] != NULL)
            PS_TRY(read_one(files, kind, memory, &secrets->texts[kind], error));
    }
    return PS_OK;
}

/* A token is one line. Of PEM only the form is looked at: whoever is shown a certificate judges
 * it. */
static enum ps_status read_one(const struct ps_channel_files *files, enum ps_channel_file kind,
                               const struct ps_allocator *memory, char **text,
                               struct ps_error *error)
{
    struct ps_error why = {.status = PS_OK};
    uint8_t *content = NULL;
    size_t size = 0;
    enum ps_status status = ps_file_read_all(ps_files_real(), files->paths[kind], FILE_BYTES_MAX,
                                             memory, &content, &size, &why);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%s: %s", names[kind], why.text);
    if (status != PS_OK)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: %s", names[kind], why.text);
    *text = (char *)content;
    if (kind != PS_FILE_TOKEN)
        return strstr(*text, "-----BEGIN ") != NULL
                   ? PS_OK
                   : ps_fail(error, PS_ERR_BAD_INPUT, "%s: %.150s is not PEM", names[kind],
                             files->paths[kind]);
    (*text)[strcspn(*text, "\r\n")] = '\0';
    /* What HTTP takes in a header, without blanks. */
    for (const char *at = *text; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~')
            return ps_fail(error, PS_ERR_BAD_INPUT, "%s: %.150s is not a token in one line",
                           names[kind], files->paths[kind]);
    }
    return **text != '\0' ? PS_OK
                          : ps_fail(error, PS_ERR_BAD_INPUT, "%s: %.150s is empty", names[kind],
                                    files->paths[kind]);
}

/* Wiped as a whole: the key and the token are in it. */
void ps_channel_secrets_release(struct ps_channel_secrets *secrets,
                                const struct ps_allocator *memory)
{
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++) {
        if (secrets->texts[kind] == NULL)
            continue;
        explicit_bzero(secrets->texts[kind], strlen(secrets->texts[kind]));
        ps_release(memory, secrets->texts[kind]);
    }
    *secrets = (struct ps_channel_secrets){{NULL}};
}

/* Links are followed: a secret that is mounted changes by a link that points elsewhere. */
void ps_channel_files_look(const struct ps_channel_files *files, struct ps_channel_stamps *stamps)
{
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++) {
        struct stat found;
        stamps->stamps[kind] = (struct ps_file_stamp){0};
        if (files->paths[kind] != NULL && stat(files->paths[kind], &found) == 0)
            stamps->stamps[kind] =
                (struct ps_file_stamp){found.st_ino, found.st_size, found.st_mtim};
    }
}

/* Field by field: the struct has gaps. */
bool ps_channel_stamps_equal(const struct ps_channel_stamps *a, const struct ps_channel_stamps *b)
{
    bool equal = true;
    for (enum ps_channel_file kind = 0; kind < PS_FILE_KINDS; kind++) {
        const struct ps_file_stamp *left = &a->stamps[kind], *right = &b->stamps[kind];
        equal = equal && left->inode == right->inode && left->size == right->size &&
                left->modified.tv_sec == right->modified.tv_sec &&
                left->modified.tv_nsec == right->modified.tv_nsec;
    }
    return equal;
}

/* By what is written and not by what a name resolves to. */
bool ps_address_is_local(const char *address)
{
    static const char *const beginnings[] = {"unix:", "localhost:", "[::1]:", "127."};
    for (size_t i = 0; i < PS_ARRAY_COUNT(beginnings); i++) {
        if (strncmp(address, beginnings[i], strlen(beginnings[i])) != 0)
            continue;
        /* A name may begin with 127., too. */
        return beginnings[i][0] != '1' || strspn(address, "0123456789.") == strcspn(address, ":");
    }
    return false;
}
