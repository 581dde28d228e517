/* A disk that fails: preloaded, it counts the file operations of this process under one folder, and
   fails the n-th of them once, or all from the n-th on, or says that the n-th write was done.

   An operation is one that changes files or their names. `fail_at(folder, n, how, error)` starts
   counting; `counted()` tells how many there were, and `operation(n)` which the n-th was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ONCE, ONWARDS, SILENTLY };
enum { FILES = 65536, MOST = 20000, LONGEST = 160 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static long at, count;
static int how, error;
static char log_[MOST][LONGEST];
static char names[FILES][LONGEST]; /* of open files under the folder; "" for others */

void fail_at(const char *under, long n, int mode, int code) {
    pthread_mutex_lock(&lock);
    snprintf(folder, sizeof folder, "%s", under);
    at = n, how = mode, error = code, count = 0;
    pthread_mutex_unlock(&lock);
}

long counted(void) { return count; }

const char *operation(long n) { return n > 0 && n <= count && n <= MOST ? log_[n - 1] : ""; }

/* The path of a name at an open folder, relative to our folder; "" if it is not under it. */
static void locate(int at_folder, const char *name, char *into) {
    char path[2 * PATH_MAX], link[64];
    into[0] = 0;
    if (!folder[0] || !name) return;
    if (name[0] == '/' || at_folder == AT_FDCWD) {
        snprintf(path, sizeof path, "%s", name);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at_folder);
        ssize_t length = readlink(link, path, PATH_MAX - 1);
        if (length < 0) return;
        snprintf(path + length, sizeof path - length, "/%s", name);
    }
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]))
        snprintf(into, LONGEST, "%s", path + length + (path[length] == '/'));
}

/* Count an operation; 0 if it is to be done, else it fails: errno is set unless it is silent. */
static int fails(const char *kind, const char *name) {
    if (!folder[0] || !name[0]) return 0;
    pthread_mutex_lock(&lock);
    long n = ++count;
    if (n <= MOST) snprintf(log_[n - 1], LONGEST, "%s %.140s", kind, name);
    int hit = at && (n == at || (how == ONWARDS && n > at));
    pthread_mutex_unlock(&lock);
    if (hit && how == SILENTLY) return strstr(kind, "write") != NULL;
    if (hit) errno = error;
    return hit;
}

static int fails_at(const char *kind, int at_folder, const char *name) {
    char path[LONGEST];
    locate(at_folder, name, path);
    return fails(kind, path);
}

static const char *name_of(int file) { return file >= 0 && file < FILES ? names[file] : ""; }

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int opened(int file, int at_folder, const char *name) {
    if (file >= 0 && file < FILES) locate(at_folder, name, names[file]);
    return file;
}

static int changes(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

#define OPEN(function)                                                                 \
    int function(const char *name, int flags, ...) {                                   \
        REAL(function);                                                                \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t mode = va_arg(more, mode_t);                                            \
        va_end(more);                                                                  \
        if (changes(flags) && fails_at("open", AT_FDCWD, name)) return -1;             \
        return opened(real(name, flags, mode), AT_FDCWD, name);                        \
    }
#define OPENAT(function)                                                               \
    int function(int at_folder, const char *name, int flags, ...) {                    \
        REAL(function);                                                                \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t mode = va_arg(more, mode_t);                                            \
        va_end(more);                                                                  \
        if (changes(flags) && fails_at("open", at_folder, name)) return -1;            \
        return opened(real(at_folder, name, flags, mode), at_folder, name);            \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static size_t length_of(const struct iovec *parts, int number) {
    size_t length = 0;
    for (int n = 0; n < number; n++) length += parts[n].iov_len;
    return length;
}

#define WRITE(function, kind, given, arguments, length)                                \
    ssize_t function given {                                                           \
        REAL(function);                                                                \
        if (fails(kind, name_of(file))) return how == SILENTLY ? (ssize_t)(length) : -1; \
        return real arguments;                                                         \
    }
WRITE(write, "write", (int file, const void *what, size_t size), (file, what, size), size)
WRITE(pwrite, "pwrite", (int file, const void *what, size_t size, off_t to),
      (file, what, size, to), size)
WRITE(pwrite64, "pwrite", (int file, const void *what, size_t size, off64_t to),
      (file, what, size, to), size)
WRITE(writev, "writev", (int file, const struct iovec *parts, int number), (file, parts, number),
      length_of(parts, number))
WRITE(pwritev, "pwritev", (int file, const struct iovec *parts, int number, off_t to),
      (file, parts, number, to), length_of(parts, number))
WRITE(pwritev64, "pwritev", (int file, const struct iovec *parts, int number, off64_t to),
      (file, parts, number, to), length_of(parts, number))

#define FILE_(kind, function, given, arguments)                                        \
    int function given {                                                               \
        REAL(function);                                                                \
        return fails(kind, name_of(file)) ? -1 : real arguments;                       \
    }
FILE_("fsync", fsync, (int file), (file))
FILE_("fdatasync", fdatasync, (int file), (file))
FILE_("truncate", ftruncate, (int file, off_t size), (file, size))
FILE_("truncate", ftruncate64, (int file, off64_t size), (file, size))
FILE_("allocate", fallocate, (int file, int mode, off_t from, off_t size), (file, mode, from, size))
FILE_("allocate", fallocate64, (int file, int mode, off64_t from, off64_t size),
      (file, mode, from, size))

int posix_fallocate(int file, off_t from, off_t size) {
    REAL(posix_fallocate);
    return fails("allocate", name_of(file)) ? error : real(file, from, size);
}

/* A file is closed even if that reports an error. */
int close(int file) {
    REAL(close);
    char name[LONGEST];
    snprintf(name, LONGEST, "%s", name_of(file));
    if (file >= 0 && file < FILES) names[file][0] = 0;
    struct stat about;
    int is_file = name[0] && fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
                  (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
    int code = real(file);
    if (is_file && fails("close", name)) return -1;
    return code;
}

ssize_t copy_file_range(int from, off64_t *start, int file, off64_t *to, size_t size, unsigned f) {
    REAL(copy_file_range);
    return fails("copy", name_of(file)) ? -1 : real(from, start, file, to, size, f);
}

ssize_t sendfile(int file, int from, off_t *start, size_t size);
ssize_t sendfile(int file, int from, off_t *start, size_t size) {
    REAL(sendfile);
    return fails("copy", name_of(file)) ? -1 : real(file, from, start, size);
}

ssize_t sendfile64(int file, int from, off64_t *start, size_t size);
ssize_t sendfile64(int file, int from, off64_t *start, size_t size) {
    REAL(sendfile64);
    return fails("copy", name_of(file)) ? -1 : real(file, from, start, size);
}

#define NAME(kind, function, given, arguments, at_folder, name)                        \
    int function given {                                                               \
        REAL(function);                                                                \
        return fails_at(kind, at_folder, name) ? -1 : real arguments;                  \
    }
NAME("rename", rename, (const char *from, const char *to), (from, to), AT_FDCWD, to)
NAME("rename", renameat, (int here, const char *from, int there, const char *to),
     (here, from, there, to), there, to)
NAME("rename", renameat2, (int here, const char *from, int there, const char *to, unsigned flags),
     (here, from, there, to, flags), there, to)
NAME("link", link, (const char *from, const char *to), (from, to), AT_FDCWD, to)
NAME("link", linkat, (int here, const char *from, int there, const char *to, int flags),
     (here, from, there, to, flags), there, to)
NAME("link", symlink, (const char *from, const char *to), (from, to), AT_FDCWD, to)
NAME("unlink", unlink, (const char *name), (name), AT_FDCWD, name)
NAME("unlink", unlinkat, (int here, const char *name, int flags), (here, name, flags), here, name)
NAME("rmdir", rmdir, (const char *name), (name), AT_FDCWD, name)
NAME("mkdir", mkdir, (const char *name, mode_t mode), (name, mode), AT_FDCWD, name)
NAME("mkdir", mkdirat, (int here, const char *name, mode_t mode), (here, name, mode), here, name)
NAME("truncate", truncate, (const char *name, off_t size), (name, size), AT_FDCWD, name)
NAME("truncate", truncate64, (const char *name, off64_t size), (name, size), AT_FDCWD, name)
