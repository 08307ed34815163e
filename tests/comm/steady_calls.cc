#include "tests/comm/steady_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

namespace {

thread_local int64_t allocations = 0;
thread_local int64_t waits = 0;
// Of the one thread that has the filter; its signal handler writes them.
volatile int64_t others = 0;
volatile int first_other = -1;

// The filter lets calls with this sixth argument through, which no call that waits has of its own.
constexpr uint32_t kCarryOut = 0x5ca1ab1e;

int CountAndWait(long number, long a = 0, long b = 0, long c = 0) {
  ++waits;
  return static_cast<int>(syscall(number, a, b, c, 0L, 0L, static_cast<long>(kCarryOut)));
}

void CountOther(int, siginfo_t* info, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RAX] = 0;
#else
  machine.regs[0] = 0;
#endif
  if (others == 0) first_other = info->si_syscall;
  others = others + 1;
}

}  // namespace

// glibc's own under another name: what follows takes its place for the whole program, operator new included.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}

// And what waits, as cheaply as ever: how long it takes to give a core away says whether somebody wanted it.
int sched_yield() { return CountAndWait(SYS_sched_yield); }
int nanosleep(const timespec* time, timespec* left) {
  return CountAndWait(SYS_nanosleep, reinterpret_cast<long>(time), reinterpret_cast<long>(left));
}
int poll(pollfd* entries, nfds_t count, int milliseconds) {
  const timespec time = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return CountAndWait(SYS_ppoll, reinterpret_cast<long>(entries), static_cast<long>(count),
                      milliseconds < 0 ? 0 : reinterpret_cast<long>(&time));
}
}

namespace distill::testing {

int64_t Allocations() { return allocations; }

bool CountSystemCalls() {
  struct sigaction action = {};
  action.sa_sigaction = &CountOther;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  waits = 0;
  others = 0;
  first_other = -1;
  const auto allow = [](uint32_t number) { return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1); };
  const sock_filter through BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      allow(SYS_rt_sigreturn),
      through,
      allow(SYS_exit_group),
      through,
      // The low half of the sixth argument: both machines have it first.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 5 * sizeof(uint64_t)),
      allow(kCarryOut),
      through,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

SystemCalls CountedSystemCalls() { return {waits, others, first_other}; }

}  // namespace distill::testing
