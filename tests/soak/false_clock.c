/* A wall clock that is wrong by what a file says, for the processes that are told to load this (LD_PRELOAD).
 *
 * libfaketime would do more, and with it time.sleep of Python 3.11 fails (EINVAL from clock_nanosleep). Here only
 * reading the wall clock is changed; every other clock, and every way to sleep, stays what it is. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset_ns; /* shared with whoever sets the clock */

__attribute__((constructor)) static void find_offset(void) {
    const char *path = getenv("STERNA_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset_ns = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && offset_ns) {
        long long at = now->tv_sec * 1000000000LL + now->tv_nsec + *offset_ns;
        now->tv_sec = at / 1000000000LL;
        now->tv_nsec = at % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
