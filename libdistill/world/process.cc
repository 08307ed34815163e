#include "libdistill/world/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "libdistill/core/interruption.h"
#include "libdistill/core/out_of_memory.h"

namespace distill {
namespace {

// What a step frees the next one takes again. glibc gives the heap's free end back to the system, and then each step
// clears its pages anew: a tenth of a step of small models.
void KeepFreedMemory() {
#if defined(__GLIBC__)
  constexpr int kLargestInHeap = 32 << 20;  // bytes; what glibc comes to by itself, once such a block was freed
  mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

// oneDNN, which multiplies LibTorch's bfloat16 matrices on CPUs, keeps code of its own for each shape: of 1,024 shapes,
// about a megabyte each, which the rows of a step that has never been as long before come to in minutes. A step has
// some tens of them.
void BoundKeptKernels() {
  constexpr char kShapes[] = "128";
  for (const char* name : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"}) setenv(name, kShapes, 0);
}

// The kernel sends this process SIGKILL once nobody holds the pipe's other end. No thread of ours is needed, so one
// that is stuck cannot prevent it.
void EndWithLauncher() {
  const char* text = std::getenv(kLauncherPipe);
  int inherited = -1;
  unsigned long long inode = 0;
  if (text == nullptr || std::sscanf(text, "%d:%llu", &inherited, &inode) != 2) return;
  struct stat about = {};
  if (fstat(inherited, &about) != 0 || !S_ISFIFO(about.st_mode) || about.st_ino != inode) return;
  // Who gets the signal belongs to an open file: not to the one that a wrapper script shares with this process.
  const int own = open(absl::StrCat("/proc/self/fd/", inherited).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (own < 0) return;
  fcntl(own, F_SETOWN, getpid());
  fcntl(own, F_SETSIG, SIGKILL);
  fcntl(own, F_SETFL, O_NONBLOCK | O_ASYNC);
  pollfd gone = {own, POLLIN, 0};
  if (poll(&gone, 1, 0) == 1 && (gone.revents & POLLHUP)) raise(SIGKILL);
}

}  // namespace

void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // the lowest that is free
    if (opened > STDERR_FILENO) close(opened);
  }
}

int64_t RaiseDescriptorLimit() {
  constexpr rlim_t kEnough = 1 << 20;  // some programs walk through all descriptors that are possible
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

void PrepareProcess() {
  OpenStandardStreams();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  RaiseDescriptorLimit();
  KeepFreedMemory();
  BoundKeptKernels();
  HandleUncaughtOutOfMemory();
  Interruption::NoteEarly();
  EndWithLauncher();
}

std::string DescriptorRemedy(int error) {
  if (error == ENFILE) return " (the limit of open files of this host is reached: sysctl fs.file-max)";
  if (error != EMFILE) return "";
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return absl::StrCat(" (this process may open ", limit.rlim_cur,
                      " files: rank 0 of each communicator needs one for each of its ranks, over libfabric's tcp two, "
                      "and about 50 for all else; raise the hard limit, ulimit -Hn, or LimitNOFILE= of the service "
                      "that starts the job)");
}

}  // namespace distill
