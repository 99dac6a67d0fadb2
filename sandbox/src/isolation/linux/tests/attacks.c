/* What hostile programs do, one thing at a time: the first argument says which. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const long MIB = 1 << 20;

static void spin(void) {
    for (volatile unsigned long i = 0;; i++) {
    }
}

static void burn(int milliseconds) {
    struct rusage used;
    do {
        for (volatile int i = 0; i < 100000; i++) {
        }
        getrusage(RUSAGE_SELF, &used);
    } while (used.ru_utime.tv_sec * 1000 + used.ru_utime.tv_usec / 1000 < milliseconds);
}

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static int descend(int depth) {
    volatile char frame[65536];
    memset((void *)frame, depth, sizeof frame);
    return descend(depth + 1) + frame[depth % 7];
}

static void touch(char *memory, long bytes) {
    if (memory == MAP_FAILED || memory == NULL) exit(9);
    for (long i = 0; i < bytes; i += 4096) memory[i] = 1;
}

/* Writes until it fails; says how much and why. */
static void fill(int file) {
    static char block[1 << 16];
    long written = 0;
    for (;;) {
        long now = write(file, block, sizeof block);
        if (now <= 0) break;
        written += now;
    }
    printf("%ld %s\n", written, strerrorname_np(errno));
}

static int is(const char *mode, const char *name) { return strcmp(mode, name) == 0; }

int main(int count, char **args) {
    const char *mode = count > 1 ? args[1] : "";
    const long big = 512 * MIB;
    signal(SIGXFSZ, SIG_IGN);

    if (is(mode, "fork_bomb")) for (;;) fork();
    if (is(mode, "vfork_bomb")) {
        for (;;) {
            pid_t child = vfork();
            if (child == 0) {
                execl("/work/attacks", "attacks", "vfork_bomb", NULL);
                _exit(1);
            }
        }
    }
    if (is(mode, "threads")) {
        int made = 0;
        pthread_t thread;
        while (made < 10000 && pthread_create(&thread, NULL, sleeper, NULL) == 0) made++;
        printf("%d\n", made);
        fflush(stdout);
        _exit(0);
    }

    if (is(mode, "malloc")) touch(malloc(big), big);
    if (is(mode, "mmap")) touch(mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), big);
    if (is(mode, "shared")) touch(mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), big);
    if (is(mode, "memfd")) {
        for (int i = 0; i < 40; i++) fill(memfd_create("memory", 0));
    }
    if (is(mode, "huge_pages")) {
        void *pages = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        printf("%s\n", pages == MAP_FAILED ? strerrorname_np(errno) : "there");
    }
    if (is(mode, "children_memory")) {
        for (int i = 0; i < 8; i++)
            if (fork() == 0) {
                touch(malloc(16 * MIB), 16 * MIB);
                pause();
            }
        pause();
    }
    if (is(mode, "stack")) return descend(0);

    if (is(mode, "fill")) fill(open("/work/file", O_CREAT | O_WRONLY, 0600));
    if (is(mode, "fallocate")) {
        int failed = posix_fallocate(open("/work/file", O_CREAT | O_WRONLY, 0600), 0, 15 * MIB);
        printf("%s\n", failed ? strerrorname_np(failed) : "there");
    }
    if (is(mode, "sparse")) {
        int failed = ftruncate(open("/work/file", O_CREAT | O_WRONLY, 0600), 1L << 40);
        printf("%s\n", failed ? strerrorname_np(errno) : "there");
    }
    if (is(mode, "inodes")) {
        char name[64];
        int made = 0;
        for (;; made++) {
            snprintf(name, sizeof name, "/work/%d", made);
            int file = open(name, O_CREAT | O_WRONLY, 0600);
            if (file < 0) break;
            close(file);
        }
        printf("%d %s\n", made, strerrorname_np(errno));
    }
    if (is(mode, "elsewhere")) {
        const char *places[] = {"/file", "/dev/file", "/dev/shm/file", "/var/tmp/file", "/usr/bin/file", "/etc/file", "/proc/file"};
        for (int i = 0; i < 7; i++)
            if (open(places[i], O_CREAT | O_WRONLY, 0600) >= 0) puts(places[i]);
    }

    if (is(mode, "sockets")) {
        int families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET, 40 /* AF_VSOCK */};
        int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
        for (int family = 0; family < 6; family++)
            for (int type = 0; type < 4; type++)
                if (socket(families[family], types[type], 0) >= 0) printf("%d %d\n", families[family], types[type]);
        int pair[2];
        if (socketpair(AF_INET, SOCK_STREAM, 0, pair) == 0) puts("pair of the internet");
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) puts("no pair");
        if (connect(pair[0], NULL, 0) == 0 || bind(pair[0], NULL, 0) == 0 || listen(pair[0], 1) == 0) puts("named");
    }

    if (is(mode, "call")) {
        long result = syscall(atol(args[2]), 0, 0, 0, 0, 0, 0);
        printf("%s\n", result < 0 ? strerrorname_np(errno) : "allowed");
    }
    if (is(mode, "clone")) {
        long result = syscall(SYS_clone, (long)atol(args[2]) | SIGCHLD, 0, 0, 0, 0);
        if (result == 0) _exit(0);
        printf("%s\n", result < 0 ? strerrorname_np(errno) : "allowed");
    }
#ifdef __x86_64__
    if (is(mode, "i386")) {
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
        printf("%ld\n", result);
    }
#endif
    if (is(mode, "watch")) {
        /* Signals for reads of the host, its own socket's owner, a lease, and the host's page cache. */
        int usr = open("/usr", O_RDONLY | O_DIRECTORY), file = open("/bin/sh", O_RDONLY);
        puts(fcntl(usr, F_NOTIFY, DN_ACCESS | DN_MULTISHOT) ? strerrorname_np(errno) : "watched");
        puts(fcntl(0, F_SETOWN, getpid()) ? strerrorname_np(errno) : "owned");
        puts(fcntl(file, F_SETLEASE, F_RDLCK) ? strerrorname_np(errno) : "leased");
        puts(syscall(SYS_fadvise64, file, 0L, 0L, POSIX_FADV_DONTNEED) ? strerrorname_np(errno) : "advised");
        puts(readahead(file, 0, 4096) ? strerrorname_np(errno) : "read ahead");
        /* Pages that are merged with equal ones of others. */
        void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        puts(madvise(page, 4096, MADV_MERGEABLE) ? strerrorname_np(errno) : "merged");
        /* What ordinary programs do with descriptors. */
        int copy = fcntl(file, F_DUPFD_CLOEXEC, 20);
        puts(copy >= 20 && fcntl(copy, F_GETFL) >= 0 && fcntl(copy, F_SETFD, 0) == 0 ? "works" : "broken");
    }
    if (is(mode, "type_for_user")) printf("%d\n", ioctl(0, TIOCSTI, "x"));

    if (is(mode, "read")) {
        char bytes[256];
        int file = open(args[2], O_RDONLY);
        long got = file < 0 ? -1 : read(file, bytes, sizeof bytes);
        printf("%s\n", got < 0 ? strerrorname_np(errno) : "read");
    }
    if (is(mode, "kill_all")) {
        kill(-1, SIGKILL);
        kill(1, SIGKILL);
        kill(1, SIGSTOP);
        kill(getppid(), SIGKILL);
        puts("alive");
    }
    if (is(mode, "limit_first")) {
        /* Process 1 would be ended for the time that it takes to reap. */
        struct rlimit none = {0, 0};
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        puts(prlimit(1, RLIMIT_CPU, &none, NULL) ? strerrorname_np(errno) : "limited");
        puts(sched_setaffinity(1, sizeof one, &one) ? strerrorname_np(errno) : "moved");
        puts(setpriority(PRIO_PROCESS, 1, 19) ? strerrorname_np(errno) : "slowed");
        puts(setpriority(PRIO_USER, 0, 19) ? strerrorname_np(errno) : "all slowed");
        fflush(stdout);
        /* Each of these is left to process 1. */
        for (int i = 0; i < 100; i++) {
            if (fork() == 0) {
                if (fork() == 0) _exit(0);
                _exit(0);
            }
            wait(NULL);
        }
        /* What a program may do with itself. */
        struct rlimit files = {16, 16};
        if (setrlimit(RLIMIT_NOFILE, &files) || setpriority(PRIO_PROCESS, 0, 19)) return 8;
        if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) == ENOSYS) return 9;
    }
    if (is(mode, "ignore")) {
        for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
        spin();
    }
    if (is(mode, "stop")) raise(SIGSTOP);
    if (is(mode, "abort")) abort();
    if (is(mode, "segv")) raise(SIGSEGV);
    if (is(mode, "terminate")) kill(getpid(), SIGTERM);

    if (is(mode, "flood"))
        for (;;)
            if (write(atoi(args[2]), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 32) < 0) return 3;
    if (is(mode, "deaf")) return 0;
    if (is(mode, "mute")) {
        close(1);
        close(2);
        char byte;
        while (read(0, &byte, 1) == 1) {
        }
        return 0;
    }
    if (is(mode, "bytes")) fwrite("\0\xff\xfe\r\n\xc0\0", 1, 7, stdout);

    if (is(mode, "sleep")) sleep(1000);
    if (is(mode, "relay")) {
        /* Each child burns less than the limit. */
        for (;;) {
            if (fork() == 0) {
                burn(60);
                _exit(0);
            }
            wait(NULL);
        }
    }
    if (is(mode, "unwaited")) {
        signal(SIGCHLD, SIG_IGN);
        for (int i = 0; i < 3; i++)
            if (fork() == 0) {
                burn(1000);
                _exit(0);
            }
        pause();
    }
    if (is(mode, "daemon")) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0) sleep(1000);
            _exit(0);
        }
        wait(NULL);
        puts("left one behind");
    }

    if (is(mode, "descriptors")) {
        for (int file = 0; file < 4096; file++)
            if (fcntl(file, F_GETFD) >= 0) printf("%d ", file);
    }
    if (is(mode, "leave")) {
        symlink("/etc/passwd", "link");
        symlink("plain", "near");
        mkdir("real", 0700);
        close(open("real/file", O_CREAT | O_WRONLY, 0600));
        symlink("real", "directory");
        mkfifo("fifo", 0600);
        int plain = open("plain", O_CREAT | O_WRONLY, 0600);
        if (write(plain, "plain", 5) != 5) return 4;
        link("plain", "hard");
        int large = open("large", O_CREAT | O_WRONLY, 0600);
        if (ftruncate(large, 4096) != 0) return 5;
        close(open("secret", O_CREAT | O_WRONLY, 0000));
        if (mknod("device", S_IFCHR | 0600, 0x103) == 0) return 6;
        rename("real", "renamed");
        symlink("/proc/self/environ", "real");
        /* The working directory itself stays. */
        if (rename("/work", "/work2") == 0) return 7;
        char link_out[64];
        snprintf(link_out, sizeof link_out, "/proc/%d/root", getpid());
        symlink(link_out, "magic");
    }
    return 0;
}
