/* SPDX-License-Identifier: Apache-2.0 */
/* Copying, checking and wiping what we show to etcd. The copies are made by the list of texts, so
 * that a new one cannot be forgotten in one of the places. */
#include "etcd/etcd_access.h"

#include "base/file.h"

#include <string.h>

/* A password is a line; more than this is the wrong file. */
#define PASSWORD_BYTES_MAX 4096

enum ps_status ps_etcd_access_check(const struct ps_etcd_access *access, bool plain,
                                    struct ps_error *error)
{
    /* Two answers to one question: whoever gave both may not know which counts. */
    if (access->password != NULL && access->password_file != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--etcd-password and --etcd-password-file: give one of them");
    if ((access->certificate == NULL) != (access->key == NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--etcd-cert and --etcd-key belong together: give both");
    /* The name of a user alone opens nothing; a certificate is not read on its way. */
    bool secret = access->password != NULL || access->password_file != NULL;
    if (access->user != NULL && secret && plain && !access->insecure_password)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "etcd's password would go over http: use https:// endpoints, or "
                       "--etcd-insecure-password to send it all the same");
    return PS_OK;
}

enum ps_status ps_etcd_access_copy(const struct ps_etcd_access *access,
                                   const struct ps_allocator *memory, struct ps_etcd_access *copy,
                                   struct ps_error *error)
{
    *copy = (struct ps_etcd_access){.insecure_password = access->insecure_password};
    /* Every text is tried, so that the first that is refused leaves no hole in the list behind. */
    bool refused = false;
#define COPY(name)                                                             \
    if (access->name != NULL) {                                                \
        copy->name = ps_copy_text(memory, access->name, strlen(access->name)); \
        refused |= copy->name == NULL;                                         \
    }
    PS_ETCD_ACCESS_TEXTS(COPY)
#undef COPY
    if (refused)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for what etcd is shown");
    return PS_OK;
}

/* The texts are ours, as copies, though the struct says const for those of the options. */
static char *owned(const char *text)
{
    return (char *)(uintptr_t)text;
}

void ps_etcd_access_release(struct ps_etcd_access *copy, const struct ps_allocator *memory)
{
    if (copy->password != NULL)
        explicit_bzero(owned(copy->password), strlen(copy->password));
#define RELEASE(name) ps_release(memory, owned(copy->name));
    PS_ETCD_ACCESS_TEXTS(RELEASE)
#undef RELEASE
    *copy = (struct ps_etcd_access){0};
}

/* etcd knows users without a password. */
enum ps_status ps_etcd_password(const struct ps_etcd_access *access,
                                const struct ps_allocator *memory, char **password,
                                struct ps_error *error)
{
    const char *text = access->password != NULL ? access->password : "";
    if (access->password_file == NULL) {
        *password = ps_copy_text(memory, text, strlen(text));
        return *password != NULL ? PS_OK : ps_fail(error, PS_ERR_NO_MEMORY, "no room");
    }
    uint8_t *content = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(ps_files_real(), access->password_file, PASSWORD_BYTES_MAX, memory,
                            &content, &size, error));
    /* The reader has put a NUL behind the last byte; a NUL before that ends the text, too. */
    content[strcspn((const char *)content, "\r\n")] = '\0';
    *password = (char *)content;
    return PS_OK;
}

/* Wiped with explicit_bzero, which the compiler may not leave out as it may a memset before a
 * release. */
void ps_etcd_password_release(char *password, const struct ps_allocator *memory)
{
    if (password == NULL)
        return;
    explicit_bzero(password, strlen(password));
    ps_release(memory, password);
}
