/* SPDX-License-Identifier: Apache-2.0 */
/* pserver: the program. Reads the options, and is a server until a signal ends it. */
#include "base/alloc.h"
#include "base/attributes.h"
#include "base/output.h"
#include "base/program.h"
#include "server/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

static int check_options(void);
static int print_options(const struct ps_pserver_options *options);
static int serve(const struct ps_pserver_options *options);

/* One of five things, of which the server is the last. */
int main(int argc, char **argv)
{
    struct ps_pserver_options options;
    struct ps_error error = {0};
    if (ps_pserver_options_init(&options, argc, argv, &error) != PS_OK) {
        (void)fprintf(stderr, "pserver: %s\n", error.text);
        return EX_USAGE;
    }
    int code = EXIT_SUCCESS;
    if (options.help)
        code = ps_program_print(ps_pserver_option_set(), ps_options_help);
    else if (options.man)
        code = ps_program_print(ps_pserver_option_set(), ps_options_man);
    else if (options.version)
        (void)printf("pserver %s\n", PS_VERSION);
    else if (options.print_config)
        code = print_options(&options);
    else if (options.check_config)
        code = check_options();
    else
        code = serve(&options);
    ps_pserver_options_fini(&options);
    /* A man page that a full disk cut off is a failure, which only flushing shows. */
    return ps_output_end("pserver", code);
}

/* Reading them was the check; what is left is to name variables of the environment that are nearly
 * ours. */
static int check_options(void)
{
    struct ps_error error = {0};
    for (char **variable = environ; *variable != NULL; variable++)
        if (ps_options_misspelt(ps_pserver_option_set(), *variable, &error))
            (void)fprintf(stderr, "pserver: %s\n", error.text);
    (void)printf("the configuration is valid\n");
    return EXIT_SUCCESS;
}

/* As a file that could be given to --config. */
static int print_options(const struct ps_pserver_options *options)
{
    /* What is printed is to be used as a file: asking to print is not part of it. */
    struct ps_pserver_options lasting = *options;
    lasting.print_config = false;
    lasting.config = NULL;
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), 1 << 20);
    ps_options_print(ps_pserver_option_set(), &lasting, &text);
    (void)fputs(text.text != NULL ? text.text : "", stdout);
    ps_buffer_fini(&text);
    return EXIT_SUCCESS;
}

/* From the first thread to the last. */
static int serve(const struct ps_pserver_options *options)
{
    struct ps_process process;
    struct ps_error error = {0};
    ps_process_begin(&process, options);
    enum ps_status status = ps_process_start(&process, NULL, &error);
    if (status == PS_ERR_CANCELLED)
        return EXIT_SUCCESS;
    if (status != PS_OK)
        return status == PS_ERR_BAD_INPUT ? EX_USAGE : EX_UNAVAILABLE;
    int code = ps_process_wait(&process);
    if (process.is_forced)
        _exit(code);
    ps_process_end(&process);
    return code;
}
