/* SPDX-License-Identifier: Apache-2.0 */
/* A server program over libpserver, for test_program_library.py: it says "port N", and ends cleanly
 * with its input. Its arguments are those of pserver.
 *
 *     app 0   ready-made: adds float32      app 1   ready-made: assigns int64
 *     app 2   says what it was asked, from a thread of its own, in the order of asking
 *     app 3   refuses everything            app 4   never answers
 *     app 5   says at once what it was asked, out of room that it asks for */
#include "server/program/pserver_program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATER_MAX = 64 };

static struct pserver_request *later[LATER_MAX];
static int later_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

/* Every tensor again, and the body behind the command's number. */
static void say_again(struct pserver_request *request)
{
    struct pserver_tensor tensors[8];
    struct pserver_question question;
    char body[128];
    pserver_request_question(request, &question);
    for (size_t i = 0; i < question.tensor_count; i++) {
        if (i == 8 || pserver_request_tensor(request, i, &tensors[i]) != PSERVER_OK)
            abort();
    }
    int size = snprintf(body, sizeof body, "%d:%.*s", question.command, (int)question.body_size,
                        question.body_size > 0 ? (const char *)question.body : "");
    const struct pserver_answer answer = {.tensors = tensors,
                                          .tensor_count = question.tensor_count,
                                          .body = body,
                                          .body_size = (size_t)size};
    (void)pserver_respond(request, &answer);
}

static void *answer_later(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&lock);
    for (;;) {
        while (later_count == 0)
            (void)pthread_cond_wait(&told, &lock);
        struct pserver_request *request = later[0];
        later_count--;
        memmove(later, later + 1, (size_t)later_count * sizeof(struct pserver_request *));
        (void)pthread_mutex_unlock(&lock);
        say_again(request);
        (void)pthread_mutex_lock(&lock);
    }
    return NULL;
}

static void put_by(void *self, struct pserver_request *request)
{
    (void)self;
    (void)pthread_mutex_lock(&lock);
    if (later_count == LATER_MAX)
        abort();
    later[later_count++] = request;
    (void)pthread_cond_signal(&told);
    (void)pthread_mutex_unlock(&lock);
}

static void refuse(void *self, struct pserver_request *request)
{
    (void)self;
    (void)pserver_refuse(request, PSERVER_NOT_FOUND, "there is nothing here");
}

static void keep_silent(void *self, struct pserver_request *request)
{
    (void)self;
    (void)request;
}

static void say_from_room(void *self, struct pserver_request *request)
{
    struct pserver_tensor tensor;
    (void)self;
    if (pserver_request_tensor(request, 0, &tensor) != PSERVER_OK)
        abort();
    void *room = pserver_request_room(request, tensor.size);
    if (room == NULL)
        abort();
    memcpy(room, tensor.data, (size_t)tensor.size);
    tensor.data = room;
    const struct pserver_answer answer = {.tensors = &tensor, .tensor_count = 1};
    (void)pserver_respond(request, &answer);
}

static void *end_with_input(void *server)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    pserver_stop(server);
    return NULL;
}

static void expect(int status, const struct pserver_error *error)
{
    if (status == PSERVER_OK)
        return;
    (void)fprintf(stderr, "program_server: %s\n", error->text);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct pserver *server;
    struct pserver_error error;
    pthread_t answerer, reader;
    expect(pserver_create(argc, argv, &server, &error), &error);
    expect(pserver_handle_ready_made(server, 0, PSERVER_ADD, PSERVER_FLOAT32, &error), &error);
    expect(pserver_handle_ready_made(server, 1, PSERVER_ASSIGN, PSERVER_INT64, &error), &error);
    expect(pserver_handle(server, 2, put_by, NULL, &error), &error);
    expect(pserver_handle(server, 3, refuse, NULL, &error), &error);
    expect(pserver_handle(server, 4, keep_silent, NULL, &error), &error);
    expect(pserver_handle(server, 5, say_from_room, NULL, &error), &error);
    if (pserver_handle(server, 5, refuse, NULL, &error) != PSERVER_ALREADY)
        return EXIT_FAILURE;
    (void)pthread_create(&answerer, NULL, answer_later, NULL);
    expect(pserver_start(server, &error), &error);
    (void)printf("port %s\n", strrchr(pserver_address(server), ':') + 1);
    (void)fflush(stdout);
    (void)pthread_create(&reader, NULL, end_with_input, server);
    int code = pserver_wait(server);
    (void)pthread_cancel(reader);
    (void)pthread_join(reader, NULL);
    (void)pthread_cancel(answerer);
    (void)pthread_join(answerer, NULL);
    pserver_destroy(server);
    return code;
}
