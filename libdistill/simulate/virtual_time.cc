#include "libdistill/simulate/virtual_time.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"

namespace distill {
namespace {

// Of addresses: memory is what a fiber touches. The first page stays unmapped, so that an overflow is noticed.
constexpr size_t kStackBytes = 256 << 10;

}  // namespace

class VirtualTime::Fiber {
 public:
  explicit Fiber(VirtualTime* time) : time_(*time) {
    void* stack =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DISTILL_CHECK(stack != MAP_FAILED, "no addresses for a fiber's stack");
    stack_ = static_cast<char*>(stack);
    DISTILL_CHECK(mprotect(stack_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE) == 0, "no guard page");
    getcontext(&first_);
    first_.uc_stack.ss_sp = stack_;
    first_.uc_stack.ss_size = kStackBytes;
    first_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&first_, reinterpret_cast<void (*)()>(&Fiber::Begin), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
  ~Fiber() { munmap(stack_, kStackBytes); }

  void Give(std::function<void()> body) { body_ = std::move(body); }
  // A context is for the first time only: swapcontext asks the kernel for the signal mask each time, which was a third
  // of a simulation. _setjmp and _longjmp leave signals alone.
  void Enter() {
    if (_setjmp(scheduler_) != 0) return;
    if (!std::exchange(started_, true)) setcontext(&first_);
    _longjmp(here_, 1);
  }
  void Leave() {
    if (_setjmp(here_) == 0) _longjmp(scheduler_, 1);
  }

 private:
  // makecontext passes ints alone.
  static void Begin(unsigned high, unsigned low) {
    reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low)->Serve();
  }
  void Serve() {
    for (;;) {
      body_();
      body_ = nullptr;
      --time_.alive_;
      time_.idle_.push_back(this);
      Leave();
    }
  }

  VirtualTime& time_;
  char* stack_;
  bool started_ = false;
  ucontext_t first_;
  jmp_buf here_, scheduler_;
  std::function<void()> body_;
};

VirtualTime::VirtualTime() = default;
VirtualTime::~VirtualTime() = default;

void VirtualTime::Spawn(std::function<void()> body) {
  if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>(this)).get());
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  ++alive_;
  fiber->Give(std::move(body));
  Wake(fiber);
}

void VirtualTime::At(VirtualTicks when, void (*act)(void*), void* on) { next_.push({when, events_++, act, on}); }

void VirtualTime::Resume(void* fiber) { static_cast<Fiber*>(fiber)->Enter(); }

void VirtualTime::Wait() { current_->Leave(); }

void VirtualTime::WakeAt(VirtualTicks when, Fiber* fiber) { At(when, &VirtualTime::Resume, fiber); }

void VirtualTime::Advance(VirtualTicks ticks) {
  if (ticks <= 0) return;
  WakeAt(now_ + ticks, current_);
  Wait();
}

absl::Status VirtualTime::Run() {
  while (!next_.empty()) {
    const Event event = next_.top();
    next_.pop();
    now_ = event.when;
    current_ = event.act == &VirtualTime::Resume ? static_cast<Fiber*>(event.on) : nullptr;
    event.act(event.on);
  }
  current_ = nullptr;
  if (alive_ == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(alive_, " fibers wait for ever at ", ToMicroseconds(now_), " virtual microseconds"));
}

}  // namespace distill
