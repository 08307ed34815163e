// A slow disk for a whole program: LD_PRELOAD=slow_disk.so SLOW_DISK=CALL:RANK:SECONDS:PART makes the first CALL (open
// or fsync) of rank RANK on a path that contains PART take that long. SLOW_DISK_MARK: a file that is written, with the
// process's number, when it begins.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int slept;

static void Mark(void) {
  const char* path = getenv("SLOW_DISK_MARK");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%d\n", getpid());
  fclose(file);
}

static void SleepIfSlow(const char* call, const char* path) {
  char wanted[16];
  int rank = 0;
  unsigned seconds = 0;
  char part[256];
  const char* setting = getenv("SLOW_DISK");
  const char* mine = getenv("DISTILL_RANK");
  if (setting == NULL || mine == NULL || path == NULL) return;
  if (sscanf(setting, "%15[^:]:%d:%u:%255s", wanted, &rank, &seconds, part) != 4) return;
  if (strcmp(wanted, call) != 0 || atoi(mine) != rank || strstr(path, part) == NULL) return;
  if (atomic_exchange(&slept, 1)) return;
  Mark();
  for (unsigned left = seconds; left > 0;) left = sleep(left);
}

int fsync(int fd) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  path[length < 0 ? 0 : length] = '\0';
  SleepIfSlow("fsync", path);
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return real(fd);
}

#define OPEN(name)                                                                                \
  int name(const char* path, int flags, ...) {                                                    \
    va_list arguments;                                                                            \
    va_start(arguments, flags);                                                                   \
    const unsigned mode = va_arg(arguments, unsigned);                                            \
    va_end(arguments);                                                                            \
    SleepIfSlow("open", path);                                                                    \
    int (*real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name); \
    return real(path, flags, mode);                                                               \
  }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                                           \
  FILE* name(const char* path, const char* mode) {                                                            \
    SleepIfSlow("open", path);                                                                                \
    FILE* (*real)(const char*, const char*) = (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, #name); \
    return real(path, mode);                                                                                  \
  }
FOPEN(fopen)
FOPEN(fopen64)
