/* The least a catch-up can cost: sendfile -> TCP -> pwrite, with the same files, frames and syncs
 * as ours, and nothing else. bench_catchup.py compiles it with cc and runs it beside ours.
 *
 *   catchup SOURCE TARGET BYTES SLAVES SYNC FRAME SEGMENT
 *
 * SOURCE holds commit log files of SEGMENT bytes; TARGET/0 ... get the copies, as new files laid
 * out like ours: full size at once and synced with their folder, blocks asked for 16 MiB ahead.
 * SYNC: "written": a report behind every frame, a sync every 0.5 s; "synced": one fdatasync at a
 * time on a thread of its own, covering all that was written before it, a report behind each.
 * The sender is one process with a thread per slave, each slave a process of its own.
 * Prints the seconds from the first report to the one that covers BYTES, of the slowest slave.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 12, REPORT = 8, FILES_MAX = 4096, SLAVES_MAX = 16, RECEIVE = 256 << 10 };
static const int64_t PREPARE = 16 << 20;
static const char *source, *target;
static int64_t total, frame, segment;
static int slaves, synced;

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

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int open_segment(const char *folder, int64_t base, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%020lld", folder, (long long)base);
    int fd = open(path, flags, 0644);
    need(fd >= 0, path);
    return fd;
}

static void read_exactly(int fd, void *buffer, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t count = read(fd, (char *)buffer + got, size - got);
        need(count > 0, "read");
        got += count;
    }
}

/* ---- master ---- */

struct link { int socket; double began, ended; };

static void *read_reports(void *argument) {
    struct link *link = argument;
    for (uint64_t report = 0; (int64_t)report < total;) {
        read_exactly(link->socket, &report, REPORT);
        report = be64toh(report);
    }
    link->ended = now();
    return NULL;
}

static void *serve(void *argument) {
    struct link *link = argument;
    uint64_t report;
    read_exactly(link->socket, &report, REPORT);
    link->began = now();
    pthread_t reader;
    need(pthread_create(&reader, NULL, read_reports, link) == 0, "pthread_create");
    int file = -1;
    for (int64_t at = be64toh(report); at < total;) {
        off_t position = at % segment;
        if (file < 0 || position == 0) {
            if (file >= 0) close(file);
            file = open_segment(source, at - position, O_RDONLY);
        }
        int64_t size = least(least(frame, total - at), segment - position);
        char header[HEADER];
        *(uint64_t *)header = htobe64(at);
        *(uint32_t *)(header + 8) = htobe32(size);
        need(send(link->socket, header, HEADER, MSG_MORE) == HEADER, "send");
        for (int64_t left = size; left > 0;) {
            ssize_t count = sendfile(link->socket, file, &position, left);
            need(count > 0, "sendfile");
            left -= count;
        }
        at += size;
    }
    pthread_join(reader, NULL);
    return NULL;
}

/* ---- slave ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t grew;
    int files[FILES_MAX];
    int64_t written, whole; /* whole: the end of the last complete frame */
    int socket;
} copy = {.lock = PTHREAD_MUTEX_INITIALIZER, .grew = PTHREAD_COND_INITIALIZER};

static void report(int64_t offset) {
    uint64_t big = htobe64(offset);
    need(write(copy.socket, &big, REPORT) == REPORT, "report");
}

static void *sync_files(void *unused) {
    for (int64_t done = 0; done < total;) {
        pthread_mutex_lock(&copy.lock);
        while (copy.whole == done) pthread_cond_wait(&copy.grew, &copy.lock);
        int64_t until = copy.whole;
        pthread_mutex_unlock(&copy.lock);
        for (int64_t i = done / segment; i <= (until - 1) / segment; i++)
            need(fdatasync(copy.files[i]) == 0, "fdatasync");
        done = until;
        if (synced) report(done);
        else usleep(500000);
    }
    return unused;
}

static void create(const char *folder, int folder_fd, int64_t base) {
    int fd = open_segment(folder, base, O_RDWR | O_CREAT | O_EXCL);
    need(ftruncate(fd, segment) == 0, "ftruncate");
    need(fdatasync(fd) == 0 && fsync(folder_fd) == 0, "sync");
    copy.files[base / segment] = fd;
}

static void write_body(const char *folder, int folder_fd, const char *data, int64_t size) {
    static int64_t reserved = 0, created = 0;
    while (size > 0) {
        int64_t position = copy.written % segment, part = least(size, segment - position);
        while (created < copy.written + part + segment) { /* and the spare file behind */
            create(folder, folder_fd, created);
            created += segment;
        }
        int fd = copy.files[copy.written / segment];
        while (reserved < copy.written + part) {
            int64_t step = least(PREPARE, segment - reserved % segment);
            need(posix_fallocate(copy.files[reserved / segment], reserved % segment, step) == 0,
                 "fallocate");
            reserved += step;
        }
        need(pwrite(fd, data, part, position) == part, "pwrite");
        copy.written += part, data += part, size -= part;
    }
}

static void follow(int number, int port) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%d", target, number);
    need(mkdir(folder, 0755) == 0, folder);
    int folder_fd = open(folder, O_RDONLY | O_DIRECTORY);
    copy.socket = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(connect(copy.socket, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    int one = 1;
    setsockopt(copy.socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pthread_t syncer;
    need(pthread_create(&syncer, NULL, sync_files, NULL) == 0, "pthread_create");
    report(0);
    static char buffer[RECEIVE + HEADER];
    int64_t rest = 0; /* of the running frame */
    for (size_t have = 0; copy.whole < total;) {
        ssize_t got = recv(copy.socket, buffer + have, RECEIVE, 0);
        need(got > 0, "recv");
        char *data = buffer, *end = buffer + have + got;
        while (data < end) {
            if (rest == 0) {
                if (end - data < HEADER) break;
                rest = be32toh(*(uint32_t *)(data + 8));
                data += HEADER;
            }
            int64_t part = least(rest, end - data);
            write_body(folder, folder_fd, data, part);
            data += part, rest -= part;
            if (rest > 0) continue;
            pthread_mutex_lock(&copy.lock);
            copy.whole = copy.written;
            pthread_cond_signal(&copy.grew);
            pthread_mutex_unlock(&copy.lock);
            if (!synced) report(copy.whole);
        }
        have = end - data;
        memmove(buffer, data, have);
    }
    if (synced) pthread_join(syncer, NULL);
    char byte;
    (void)!recv(copy.socket, &byte, 1, 0); /* until the master has read the last report */
    _exit(0);
}

int main(int count, char **words) {
    if (count != 8) {
        fprintf(stderr, "catchup SOURCE TARGET BYTES SLAVES written|synced FRAME SEGMENT\n");
        return 2;
    }
    source = words[1], target = words[2], total = atoll(words[3]), slaves = atoi(words[4]);
    synced = strcmp(words[5], "synced") == 0, frame = atoll(words[6]), segment = atoll(words[7]);
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t size = sizeof own;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(slaves <= SLAVES_MAX && total / segment + 2 <= FILES_MAX, "arguments");
    need(bind(listener, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    need(listen(listener, SLAVES_MAX) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&own, &size);
    for (int i = 0; i < slaves; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            follow(i, ntohs(own.sin_port));
        }
    struct link links[SLAVES_MAX] = {0};
    pthread_t threads[SLAVES_MAX];
    for (int i = 0; i < slaves; i++) {
        links[i].socket = accept(listener, NULL, NULL);
        need(links[i].socket >= 0, "accept");
        need(pthread_create(&threads[i], NULL, serve, &links[i]) == 0, "pthread_create");
    }
    double began = 1e18, ended = 0;
    for (int i = 0; i < slaves; i++) {
        pthread_join(threads[i], NULL);
        close(links[i].socket);
        if (links[i].began < began) began = links[i].began;
        if (links[i].ended > ended) ended = links[i].ended;
    }
    for (int i = 0, status = 0; i < slaves; i++) {
        need(wait(&status) > 0 && status == 0, "a slave");
    }
    printf("%.6f\n", ended - began);
    return 0;
}
