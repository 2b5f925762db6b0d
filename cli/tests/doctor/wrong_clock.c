/* A wall clock that is wrong by OFFSET seconds, for a program that is started with it as LD_PRELOAD.
 * Clocks that count from a start are right. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long answer = syscall(SYS_clock_gettime, clock, now);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += OFFSET;
    }
    return (int)answer;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int answer = clock_gettime(CLOCK_REALTIME, &exact);
    if (answer == 0 && now) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return answer;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) {
        *now = exact.tv_sec;
    }
    return exact.tv_sec;
}
