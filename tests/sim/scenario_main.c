/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a scenario file and compares what happened with what it says.
 *
 *     sim_scenario FILE            exit 1 and a list of differing lines when they differ
 *     sim_scenario --accept FILE   writes what happened into the file */
#include "tests/sim/sim_scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (1 << 20)
#define MARK "\n----\n"

static bool read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    size_t size = fread(text, 1, FILE_BYTES_MAX - 1, file);
    text[size] = '\0';
    fclose(file);
    return true;
}

static bool write_file(const char *path, const char *commands, const char *trace)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file, "%s" MARK "%s", commands, trace);
    return fclose(file) == 0;
}

static bool play_all(struct sim_player *player, const char *commands, const char *path)
{
    char *copy = strdup(commands);
    char *rest = NULL;
    int line_number = 0;
    bool good = copy != NULL;
    /* Empty lines count for the number, so no strtok here. */
    for (char *line = copy; good && line != NULL; line = rest) {
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        line_number++;
        char *spoken = strdup(line);
        good = spoken != NULL && sim_player_play(player, spoken);
        if (!good)
            fprintf(stderr, "%s:%d: cannot play \"%s\"\n", path, line_number, line);
        free(spoken);
    }
    free(copy);
    return good && player->world != NULL;
}

static const char *line_end(const char *text)
{
    const char *end = strchr(text, '\n');
    return end != NULL ? end + 1 : text + strlen(text);
}

/* The lines of `a` that `b` has not at their place, and the other way round, in pairs. */
static void print_difference(const char *expected, const char *actual)
{
    while (*expected != '\0' || *actual != '\0') {
        const char *expected_end = line_end(expected);
        const char *actual_end = line_end(actual);
        int expected_size = (int)(expected_end - expected);
        int actual_size = (int)(actual_end - actual);
        if (expected_size == actual_size && memcmp(expected, actual, (size_t)actual_size) == 0) {
            printf("  %.*s", actual_size, actual);
        } else {
            if (expected_size > 0)
                printf("- %.*s", expected_size, expected);
            if (actual_size > 0)
                printf("+ %.*s", actual_size, actual);
        }
        expected = expected_end;
        actual = actual_end;
    }
}

static int compare(const struct sim_world *world, const char *expected, const char *path)
{
    const char *actual = world->trace.text != NULL ? world->trace.text : "";
    if (world->failed) {
        printf("%s\n%s: %s\n", actual, path, world->failure);
        return EXIT_FAILURE;
    }
    if (strcmp(expected, actual) == 0)
        return EXIT_SUCCESS;
    printf("%s: what happened (+) is not what was expected (-):\n", path);
    print_difference(expected, actual);
    printf("If this is right: sim_scenario --accept %s\n", path);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    bool accept = argc == 3 && strcmp(argv[1], "--accept") == 0;
    const char *path = argv[argc - 1];
    struct sim_player player = {0};
    char *text = calloc(1, FILE_BYTES_MAX);
    int result = EXIT_FAILURE;
    if (argc < 2 || text == NULL || !read_file(path, text)) {
        fprintf(stderr, "usage: sim_scenario [--accept] FILE\n");
        free(text);
        return EXIT_FAILURE;
    }

    char *mark = strstr(text, MARK);
    const char *expected = mark != NULL ? mark + strlen(MARK) : "";
    if (mark == NULL && text[0] != '\0' && text[strlen(text) - 1] == '\n')
        mark = &text[strlen(text) - 1];
    if (mark != NULL)
        *mark = '\0';
    if (play_all(&player, text, path)) {
        const char *trace = player.world->trace.text != NULL ? player.world->trace.text : "";
        if (accept && !player.world->failed)
            result = write_file(path, text, trace) ? EXIT_SUCCESS : EXIT_FAILURE;
        else
            result = compare(player.world, expected, path);
    }
    sim_player_fini(&player);
    free(text);
    return result;
}
