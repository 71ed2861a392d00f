/* Completion scripts: one small table of words per shell, and the shell's own machinery. */
#include "base/completion.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <string.h>

struct script {
    const struct ps_option_set *set;
    const struct ps_command_table *table;
    struct ps_buffer *text;
};

static void write_bash(const struct script *script);
static void write_zsh(const struct script *script);
static void write_fish(const struct script *script);

bool ps_completion_write(const struct ps_option_set *set, const struct ps_command_table *table,
                         const char *shell, struct ps_buffer *text)
{
    static const struct {
        const char *shell;
        void (*write)(const struct script *script);
    } shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
    PS_ASSERT(set != NULL && table != NULL);
    const struct script script = {set, table, text};
    for (size_t i = 0; i < PS_ARRAY_COUNT(shells); i++) {
        if (strcmp(shells[i].shell, shell) != 0)
            continue;
        shells[i].write(&script);
        return true;
    }
    return false;
}

/* ---- Words, for all shells ---- */

/* "a|b|c" as "a b c". */
static void append_choices(struct ps_buffer *text, const char *choices)
{
    for (; *choices != '\0'; choices++)
        ps_buffer_append_format(text, "%c", *choices == '|' ? ' ' : *choices);
}

static void append_commands(const struct script *script)
{
    for (size_t i = 0; i < script->table->count; i++)
        ps_buffer_append_format(script->text, "%s%s", i > 0 ? " " : "",
                                script->table->pages[i].name);
}

/* What may follow a command; nothing where only its user knows. */
static bool has_words(const struct ps_command_page *page)
{
    return page->argument != NULL &&
           (strchr(page->argument, '|') != NULL || strcmp(page->argument, "[COMMAND]") == 0);
}

static void append_words(const struct script *script, const struct ps_command_page *page)
{
    if (strchr(page->argument, '|') != NULL)
        append_choices(script->text, page->argument);
    else
        append_commands(script);
}

static bool takes_value(const struct ps_option *option)
{
    return option->type != PS_OPTION_FLAG;
}

/* A flag that is on by default is completed as what turns it off. */
static const char *prefix_of(const struct ps_option *option)
{
    bool on = option->type == PS_OPTION_FLAG && option->fallback != NULL &&
              strcmp(option->fallback, "true") == 0;
    return on ? "no-" : "";
}

/* Within single quotes: `quote` is what stands for one there. `special` are characters that get a
 * backslash. Up to the first full stop: a menu has room for one sentence. */
static void append_sentence(struct ps_buffer *text, const char *help, const char *quote,
                            const char *special)
{
    for (; *help != '\0' && strncmp(help, ". ", 2) != 0; help++) {
        if (*help == '\'')
            ps_buffer_append_text(text, quote);
        else
            ps_buffer_append_format(text, "%s%c", strchr(special, *help) != NULL ? "\\" : "",
                                    *help);
    }
}

/* ---- bash ---- */

static void append_bash_values(const struct script *script)
{
    const struct ps_option_set *set = script->set;
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        if (option->type != PS_OPTION_CHOICE)
            continue;
        ps_buffer_append_format(script->text, "    --%s) words='", option->name);
        append_choices(script->text, option->choices);
        ps_buffer_append_text(script->text, "' ;;\n");
    }
    /* What only its user knows may be a file. */
    ps_buffer_append_text(script->text, "    ");
    for (size_t i = 0; i < set->option_count; i++)
        if (takes_value(&set->options[i]))
            ps_buffer_append_format(script->text, "--%s|", set->options[i].name);
    ps_buffer_append_text(script->text, "--) return ;;\n");
}

static void append_bash_commands(const struct script *script)
{
    for (size_t i = 0; i < script->table->count; i++) {
        const struct ps_command_page *page = &script->table->pages[i];
        if (!has_words(page))
            continue;
        ps_buffer_append_format(script->text, "        %s) words='", page->name);
        append_words(script, page);
        ps_buffer_append_text(script->text, "' ;;\n");
    }
}

static void append_bash_options(const struct script *script)
{
    const struct ps_option_set *set = script->set;
    for (size_t i = 0; i < set->option_count; i++)
        ps_buffer_append_format(script->text, "--%s%s ", prefix_of(&set->options[i]),
                                set->options[i].name);
}

/* An option's value is the word behind it; the command is the first word that is neither. */
static void write_bash(const struct script *script)
{
    const char *program = script->set->program;
    struct ps_buffer *text = script->text;
    ps_buffer_append_format(text,
                            "# bash completion of %s: source <(%s completion bash)\n"
                            "_%s() {\n"
                            "    local word=${COMP_WORDS[COMP_CWORD]} words='' command='' i\n"
                            "    local before=${COMP_WORDS[COMP_CWORD-1]}\n"
                            "    COMPREPLY=()\n"
                            "    case $before in\n",
                            program, program, program);
    append_bash_values(script);
    ps_buffer_append_text(text, "    *)\n"
                                "        for ((i = 1; i < COMP_CWORD; i++)); do\n"
                                "            case ${COMP_WORDS[i]} in\n"
                                "            ");
    for (size_t i = 0; i < script->set->option_count; i++)
        if (takes_value(&script->set->options[i]))
            ps_buffer_append_format(text, "--%s|", script->set->options[i].name);
    ps_buffer_append_text(text, "--) i=$((i + 1)) ;;\n"
                                "            -*) ;;\n"
                                "            *) command=${COMP_WORDS[i]}; break ;;\n"
                                "            esac\n"
                                "        done\n"
                                "        case $command in\n"
                                "        '') words='");
    append_commands(script);
    ps_buffer_append_text(text, "' ;;\n");
    append_bash_commands(script);
    ps_buffer_append_text(text, "        esac\n"
                                "        [[ $word == -* ]] && words='");
    append_bash_options(script);
    ps_buffer_append_format(text,
                            "-h'\n"
                            "    esac\n"
                            "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                            "}\n"
                            "complete -o default -F _%s %s\n",
                            program, program);
}

/* ---- zsh ---- */

static void append_zsh_option(const struct script *script, const struct ps_option *option)
{
    ps_buffer_append_format(script->text, "        '--%s%s[", prefix_of(option), option->name);
    append_sentence(script->text, option->help, "'\\''", "[]:\\");
    ps_buffer_append_text(script->text, "]");
    if (option->type == PS_OPTION_CHOICE) {
        ps_buffer_append_format(script->text, ":%s:(", option->name);
        append_choices(script->text, option->choices);
        ps_buffer_append_text(script->text, ")");
    } else if (takes_value(option)) {
        ps_buffer_append_format(script->text, ":%s:_files", option->name);
    }
    ps_buffer_append_text(script->text, "' \\\n");
}

static void write_zsh(const struct script *script)
{
    const char *program = script->set->program;
    struct ps_buffer *text = script->text;
    ps_buffer_append_format(text,
                            "#compdef %s\n"
                            "# zsh completion of %s: source <(%s completion zsh)\n"
                            "_%s() {\n"
                            "    local -a commands=(\n",
                            program, program, program, program);
    for (size_t i = 0; i < script->table->count; i++) {
        ps_buffer_append_format(text, "        '%s:", script->table->pages[i].name);
        append_sentence(text, script->table->pages[i].summary, "'\\''", ":\\");
        ps_buffer_append_text(text, "'\n");
    }
    ps_buffer_append_text(text, "    )\n"
                                "    _arguments \\\n");
    for (size_t i = 0; i < script->set->option_count; i++)
        append_zsh_option(script, &script->set->options[i]);
    ps_buffer_append_text(text, "        '1:command:{_describe command commands}' \\\n"
                                "        '2:argument:{case $words[2] in\n");
    for (size_t i = 0; i < script->table->count; i++) {
        if (!has_words(&script->table->pages[i]))
            continue;
        ps_buffer_append_format(text, "            %s) compadd -- ", script->table->pages[i].name);
        append_words(script, &script->table->pages[i]);
        ps_buffer_append_text(text, " ;;\n");
    }
    ps_buffer_append_format(text,
                            "            esac}'\n"
                            "}\n"
                            "compdef _%s %s\n",
                            program, program);
}

/* ---- fish ---- */

static void append_fish_option(const struct script *script, const struct ps_option *option)
{
    ps_buffer_append_format(script->text, "complete -c %s -l %s%s%s", script->set->program,
                            prefix_of(option), option->name,
                            strcmp(option->name, "help") == 0 ? " -s h" : "");
    if (option->type == PS_OPTION_CHOICE) {
        ps_buffer_append_text(script->text, " -x -a '");
        append_choices(script->text, option->choices);
        ps_buffer_append_text(script->text, "'");
    } else if (takes_value(option)) {
        ps_buffer_append_text(script->text, " -r");
    }
    ps_buffer_append_text(script->text, " -d '");
    append_sentence(script->text, option->help, "\\'", "\\");
    ps_buffer_append_text(script->text, "'\n");
}

static void write_fish(const struct script *script)
{
    const char *program = script->set->program;
    struct ps_buffer *text = script->text;
    ps_buffer_append_format(text,
                            "# fish completion of %s: %s completion fish | source\n"
                            "complete -c %s -f\n",
                            program, program, program);
    for (size_t i = 0; i < script->table->count; i++) {
        const struct ps_command_page *page = &script->table->pages[i];
        ps_buffer_append_format(text, "complete -c %s -n __fish_use_subcommand -a %s -d '", program,
                                page->name);
        append_sentence(text, page->summary, "\\'", "\\");
        ps_buffer_append_text(text, "'\n");
        if (!has_words(page))
            continue;
        ps_buffer_append_format(text, "complete -c %s -n '__fish_seen_subcommand_from %s' -a '",
                                program, page->name);
        append_words(script, page);
        ps_buffer_append_text(text, "'\n");
    }
    for (size_t i = 0; i < script->set->option_count; i++)
        append_fish_option(script, &script->set->options[i]);
}
