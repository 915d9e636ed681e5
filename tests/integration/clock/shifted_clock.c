/* The machine's clock, moved for one process: to be preloaded (LD_PRELOAD).
 *
 * Takes: SHIFTED_CLOCK, a file of eight bytes, the shift in seconds; it may change at any time. Gives: the time of day
 * with that shift, by all three ways of asking; and waits that end at a time of day end when the moved clock says so,
 * also when it is moved meanwhile, as in the kernel. Never: touches the clocks that only go forward.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* A condition may be waited for by either clock: times of day are the larger numbers. */
#define TIME_OF_DAY 1000000000
#define LOOK_NS 50000000

typedef int timed_wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static timed_wait *real_timed_wait;
static int (*real_cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_timed_wait = (timed_wait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_timed_wait) real_timed_wait = (timed_wait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_cnd_timedwait =
        (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) shift = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime)
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real_clock_gettime(clock, now);
    if (code == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (seconds) *seconds = precise.tv_sec;
    return precise.tv_sec;
}

static int is_before(const struct timespec *one, const struct timespec *other) {
    return one->tv_sec != other->tv_sec ? one->tv_sec < other->tv_sec : one->tv_nsec < other->tv_nsec;
}

/* Gives up early with 1 if the end is far: whoever waits must expect to be woken for nothing, and looks again. */
static int next_look(const struct timespec *until, struct timespec *end) {
    struct timespec look;
    clock_gettime(CLOCK_REALTIME, &look);
    look.tv_sec -= *shift;
    look.tv_nsec += LOOK_NS;
    look.tv_sec += look.tv_nsec / 1000000000;
    look.tv_nsec %= 1000000000;
    *end = *until;
    end->tv_sec -= *shift;
    if (!is_before(&look, end)) return 0;
    *end = look;
    return 1;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (!shift || until->tv_sec < TIME_OF_DAY) return real_timed_wait(condition, mutex, until);
    struct timespec end;
    int early = next_look(until, &end);
    int code = real_timed_wait(condition, mutex, &end);
    return code == ETIMEDOUT && early ? 0 : code;
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    if (!shift) return real_cnd_timedwait(condition, mutex, until);
    struct timespec end;
    int early = next_look(until, &end);
    int code = real_cnd_timedwait(condition, mutex, &end);
    return code == thrd_timedout && early ? thrd_success : code;
}
