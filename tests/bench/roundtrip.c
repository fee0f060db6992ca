/* The bare cost of one append with one sender: TCP round trips on loopback, and the writes and syncs
 * that it needs. bench_appends.py and bench_ledger.py compile it with cc.
 *
 *   roundtrip FOLDER COUNT SIZE written|synced [relayed]
 *
 * Again and again: the master writes SIZE bytes, syncs them if asked, sends them; the slave writes
 * and syncs them and answers 8 bytes. Prints p50 and p99 in ms. Files have their full size and
 * their blocks before, as ours.
 *
 * relayed: two round trips and one sync. The first process is a client, which keeps nothing; one
 * between the two hands on what it is sent and its answer, as a leader does that syncs meanwhile.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int synced;

static void need(int good, const char *what) {
    if (good) return;
    perror(what);
    _exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int log_file(const char *folder, const char *name, off_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    need(fd >= 0, path);
    need(posix_fallocate(fd, 0, size) == 0 && fsync(fd) == 0, "fallocate");
    return fd;
}

static void put(int fd, const char *data, int size, off_t at) {
    need(pwrite(fd, data, size, at) == size, "pwrite");
    if (synced) need(fdatasync(fd) == 0, "fdatasync");
}

static int by_value(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

/* A listener on a port of its own, which is put into `port`. */
static int listening(int *port) {
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t length = sizeof own;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(bind(listener, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    need(listen(listener, 1) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&own, &length);
    *port = ntohs(own.sin_port);
    return listener;
}

static int accepted(int listener) {
    int link = accept(listener, NULL, NULL), one = 1;
    need(link >= 0, "accept");
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return link;
}

static int connected(int port) {
    int link = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(connect(link, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return link;
}

/* Sends all of `data` and waits for the answer to it. */
static void ask(int link, const char *data, int size) {
    char answer[8];
    need(send(link, data, size, 0) == size, "send");
    need(recv(link, answer, 8, MSG_WAITALL) == 8, "recv");
}

static void follow(int port, const char *folder, int count, int size) {
    int file = log_file(folder, "slave", (off_t)count * size), link = connected(port);
    char *data = malloc(size), answer[8] = {0};
    for (int i = 0; i < count; i++) {
        need(recv(link, data, size, MSG_WAITALL) == size, "recv");
        put(file, data, size, (off_t)i * size);
        need(send(link, answer, 8, 0) == 8, "send");
    }
    _exit(0);
}

static void relay(int port, const char *folder, int count, int size) {
    int next_port, listener = listening(&next_port), link = connected(port);
    if (fork() == 0) follow(next_port, folder, count, size);
    int next = accepted(listener);
    char *data = malloc(size), answer[8] = {0};
    for (int i = 0; i < count; i++) {
        need(recv(link, data, size, MSG_WAITALL) == size, "recv");
        ask(next, data, size);
        need(send(link, answer, 8, 0) == 8, "send");
    }
    wait(NULL);
    _exit(0);
}

int main(int words, char **word) {
    int relayed = words == 6 && strcmp(word[5], "relayed") == 0;
    if (words != 5 && !relayed) {
        fprintf(stderr, "roundtrip FOLDER COUNT SIZE written|synced [relayed]\n");
        return 2;
    }
    int count = atoi(word[2]), size = atoi(word[3]), port, listener = listening(&port);
    synced = strcmp(word[4], "synced") == 0;
    if (fork() == 0) (relayed ? relay : follow)(port, word[1], count, size);
    int link = accepted(listener);
    int file = relayed ? -1 : log_file(word[1], "master", (off_t)count * size);
    char *data = calloc(1, size);
    double *took = calloc(count, sizeof *took);
    for (int i = 0; i < count; i++) {
        double began = now();
        if (!relayed) put(file, data, size, (off_t)i * size);
        ask(link, data, size);
        took[i] = now() - began;
    }
    wait(NULL);
    qsort(took, count, sizeof *took, by_value);
    printf("%.6f %.6f\n", took[count / 2] * 1e3, took[count * 99 / 100] * 1e3);
    return 0;
}
