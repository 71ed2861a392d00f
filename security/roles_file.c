/* SPDX-License-Identifier: Apache-2.0 */
/* libcyaml checks the form by the schema below, and what it found is copied, so that the roles are
 * two pieces of memory of ours, and nothing of the library's lives on.
 *
 * A file is taken as a whole or not at all. A rule that cannot be read, or a key that is not known,
 * may be the one with which somebody wanted to take a right away. */
#include "security/roles_file.h"

#include "base/assert.h"

#include <cyaml/cyaml.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1024 * 1024)
/* Every call may walk all of them. */
#define RULES_MAX 4096

/* As the schema has it, which the library fills in by offsets; NULL for what is left out. */
struct rule_row {
    char *identity;
    char *role;
    char *job;
    char *prefix;
};

struct rules_page {
    struct rule_row *rules;
    uint64_t rules_count;
};

/* Of one text of a rule: far above any name that somebody can have. */
#define TEXT_MAX 4096

static const cyaml_schema_field_t rule_fields[] = {
    CYAML_FIELD_STRING_PTR("identity", CYAML_FLAG_POINTER, struct rule_row, identity, 1, TEXT_MAX),
    CYAML_FIELD_STRING_PTR("role", CYAML_FLAG_POINTER, struct rule_row, role, 1, TEXT_MAX),
    CYAML_FIELD_STRING_PTR("job", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct rule_row, job, 0,
                           TEXT_MAX),
    CYAML_FIELD_STRING_PTR("prefix", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct rule_row,
                           prefix, 0, TEXT_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t rule_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rule_row, rule_fields),
};

/* The file has one key today; others may come beside it. */
static const cyaml_schema_field_t page_fields[] = {
    CYAML_FIELD_SEQUENCE("rules", CYAML_FLAG_POINTER, struct rules_page, rules, &rule_schema, 0,
                         RULES_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t page_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rules_page, page_fields),
};

/* The first thing that the library complains of, and where. */
struct complaint {
    char text[120];
    char place[80];
};

static enum ps_status make_roles(const struct rules_page *page, const char *path,
                                 const struct ps_allocator *memory, struct ps_roles **out,
                                 struct ps_error *error);
static enum ps_status fill_rule(struct ps_roles *roles, const struct rule_row *row, char **next,
                                struct ps_error *error);

/* The library's log: what is wrong comes first, then a backtrace whose first line has the place. */
__attribute__((format(printf, 3, 0))) static void hear(cyaml_log_t level, void *context,
                                                       const char *format, va_list arguments)
{
    (void)level;
    struct complaint *complaint = context;
    char text[sizeof complaint->text];
    (void)vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    /* The innermost place comes first, which is the nearest to the mistake. */
    const char *place = strstr(text, "(line: ");
    if (place != NULL && complaint->place[0] == '\0')
        (void)snprintf(complaint->place, sizeof complaint->place, " %.70s", place);
    else if (complaint->text[0] == '\0' && strstr(text, "Backtrace") == NULL)
        memcpy(complaint->text, text, sizeof text);
}

/* Aliases are refused: a file of a few lines could make gigabytes of them. */
static cyaml_config_t config_of(struct complaint *complaint)
{
    return (cyaml_config_t){.log_fn = hear,
                            .log_ctx = complaint,
                            .mem_fn = cyaml_mem,
                            .log_level = CYAML_LOG_WARNING,
                            .flags = CYAML_CFG_NO_ALIAS};
}

/* The content goes before anything else is done with what was read: the library has copied it. An
 * empty file is refused and not taken for an empty list: somebody has cut it off by mistake, and
 * would be locked out of the server. */
enum ps_status ps_roles_read(const char *path, const struct ps_files *files,
                             const struct ps_allocator *memory, struct ps_roles **roles,
                             struct ps_error *error)
{
    uint8_t *content = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(files, path, FILE_BYTES_MAX, memory, &content, &size, error));
    struct complaint complaint = {.text = ""};
    const cyaml_config_t config = config_of(&complaint);
    cyaml_data_t *data = NULL;
    cyaml_err_t failure = cyaml_load_data(content, size, &config, &page_schema, &data, NULL);
    ps_release(memory, content);
    if (failure == CYAML_OK && data == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: it is empty: expected a list of rules", path);
    if (failure != CYAML_OK)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: %s%s", path,
                       complaint.text[0] != '\0' ? complaint.text : cyaml_strerror(failure),
                       complaint.place);
    enum ps_status status = make_roles(data, path, memory, roles, error);
    (void)cyaml_free(&config, &page_schema, data, 0);
    return status;
}

/* What a rule leaves out. */
static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

/* Room for the texts of a rule with their ends. */
static size_t texts_size(const struct rule_row *row)
{
    return strlen(row->identity) + strlen(or_else(row->job, "*")) +
           strlen(or_else(row->prefix, "")) + 3;
}

/* Two allocations whatever the number of rules: the list, and all texts one behind the other. The
 * second may be refused after the first was given, and release ends a list that is half made. */
static enum ps_status make_roles(const struct rules_page *page, const char *path,
                                 const struct ps_allocator *memory, struct ps_roles **out,
                                 struct ps_error *error)
{
    size_t size = 1;
    for (size_t i = 0; i < page->rules_count; i++)
        size += texts_size(&page->rules[i]);
    struct ps_roles *roles =
        ps_zeroed(memory, sizeof *roles + page->rules_count * sizeof roles->rules[0]);
    if (roles == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    roles->memory = memory;
    atomic_init(&roles->references, 1);
    roles->texts = ps_zeroed(memory, size);
    struct ps_error why;
    enum ps_status status =
        roles->texts != NULL ? PS_OK : ps_fail(&why, PS_ERR_NO_MEMORY, "no memory to read it");
    char *next = roles->texts;
    for (size_t i = 0; status == PS_OK && i < page->rules_count; i++)
        status = fill_rule(roles, &page->rules[i], &next, &why);
    if (status != PS_OK) {
        ps_roles_release(roles);
        return ps_fail(error, status, "%s: %s", path, why.text);
    }
    PS_ASSERT(next < roles->texts + size);
    *out = roles;
    return PS_OK;
}

/* With its end. The room was counted before, by texts_size. */
static const char *put_text(char **next, const char *text)
{
    size_t size = strlen(text) + 1;
    char *place = *next;
    memcpy(place, text, size);
    *next = place + size;
    return place;
}

/* Rules are counted from 1 for people. The word is shown: it is a role, and no secret. */
static enum ps_status fill_rule(struct ps_roles *roles, const struct rule_row *row, char **next,
                                struct ps_error *error)
{
    struct ps_role_rule *rule = &roles->rules[roles->rule_count++];
    rule->role = ps_role_of_text(row->role);
    if (rule->role == PS_ROLE_NONE)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "rule %zu: role \"%.40s\": expected reader, trainer or admin",
                       roles->rule_count, row->role);
    /* The schema has refused an empty identity: it would fit nobody, and look as if it fitted
     * all. */
    rule->identity = put_text(next, row->identity);
    rule->job = put_text(next, or_else(row->job, "*"));
    rule->prefix = put_text(next, or_else(row->prefix, ""));
    return PS_OK;
}
