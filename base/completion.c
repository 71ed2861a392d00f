/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts: one small table of words per shell, and the shell's own machinery.
 *
 * The words are written into the script when it is generated, instead of the script asking the
 * program each time a key is pressed: a shell that starts a process on every tab is slow on a busy
 * machine, and a program that is missing from PATH would break the completion of others. The
 * price is that a new version of the program needs a new script. */
#include "base/completion.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <string.h>

/* What all parts of a script need; passed around whole, so that helpers stay short. */
struct script {
    const struct ps_option_set *set;
    const struct ps_command_table *table;
    struct ps_buffer *text;
};

static void write_bash(const struct script *script);
static void write_zsh(const struct script *script);
static void write_fish(const struct script *script);

/* A name that is not in the table is the caller's to report, since only the caller knows under
 * which option the name was given. */
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

/* The names of all commands stand in the order of the help. */
static void append_commands(const struct script *script)
{
    for (size_t i = 0; i < script->table->count; i++)
        ps_buffer_append_format(script->text, "%s%s", i > 0 ? " " : "",
                                script->table->pages[i].name);
}

/* Whether the words that may follow a command are known: they are for a choice ("on|off") and for
 * the name of another command. For everything else (an index, a path, a key) only the user knows
 * them. */
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

/* A flag stands alone; every other type is followed by a word, which must not be completed as if it
 * were a command. */
static bool takes_value(const struct ps_option *option)
{
    return option->type != PS_OPTION_FLAG;
}

/* A flag that is on by default is completed as "--no-NAME": typing its own name would change
 * nothing. */
static const char *prefix_of(const struct ps_option *option)
{
    bool on = option->type == PS_OPTION_FLAG && option->fallback != NULL &&
              strcmp(option->fallback, "true") == 0;
    return on ? "no-" : "";
}

/* Appends the first sentence of a help text, for use within single quotes: a menu has room for one
 * sentence. `quote` replaces an apostrophe, which would end the quotes; `special` are the
 * characters that this shell reads even there and that get a backslash. */
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

/* The cases of "which words may follow this option": the choices, where there are any. All other
 * options with a value return without words, and bash falls back to file names (-o default
 * below). */
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
    /* The trailing "--)" closes the list of alternatives: it is a word that no option has, so the
     * list need not know which of its members is the last. */
    ps_buffer_append_text(script->text, "    ");
    for (size_t i = 0; i < set->option_count; i++)
        if (takes_value(&set->options[i]))
            ps_buffer_append_format(script->text, "--%s|", set->options[i].name);
    ps_buffer_append_text(script->text, "--) return ;;\n");
}

/* One case per command whose words are known; all other commands complete nothing, and -o default
 * below then offers file names. */
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

/* All options at once, wherever the cursor stands: every command takes all of them. */
static void append_bash_options(const struct script *script)
{
    const struct ps_option_set *set = script->set;
    for (size_t i = 0; i < set->option_count; i++)
        ps_buffer_append_format(script->text, "--%s%s ", prefix_of(&set->options[i]),
                                set->options[i].name);
}

/* Bash knows nothing of options, so the script finds its place itself: `before` is an option that
 * takes a value (then its values are completed), or the words so far are walked from the left,
 * where an option that takes a value swallows the next word and the first word that remains is the
 * command. Without the second walk "psctl --etcd localhost:2379 " would complete after
 * "localhost:2379" as if that were the command. */
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

/* One row of _arguments: '--name[sentence]:label:action'. Brackets and colons delimit the parts, so
 * they are escaped within the sentence. Options whose value is free complete file names, which is
 * right for most of them and harmless for the others. */
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

/* zsh's _arguments does the walking that write_bash has to spell out: the script only says that the
 * first free word is a command and that the second depends on it ($words[2]). */
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

/* -x: a value is required and files are not offered; -r: a value is required and files are. */
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

/* The first line (-f) turns file names off for the program as a whole; options whose value may be a
 * file turn them on again for themselves. Each line stands alone, so there is no script to walk. */
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
