#include "tests/support/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/check.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/identity.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/host_id.h"

namespace distill::testing {
namespace {

constexpr int kPatience = 3;  // a limit guards against a hang: what a loaded machine makes slow is no failure

struct Child {
  pid_t pid = 0;
  int pipe = -1;
  std::string text;
  bool finished = false;
};

// How often ranks of a job have come to AwaitAllRanks; the jobs' counts lie in one page of all processes.
struct MeetingPoint {
  std::atomic<int>* arrivals = nullptr;
  int ranks = 0;
  int meetings = 0;
};

MeetingPoint meeting_point;  // this process's own

struct Preparation {
  std::function<void()> here = [] {};
  std::function<absl::Status(const World&)> there = [](const World&) { return absl::OkStatus(); };
};

Preparation& ThePreparation() {
  static Preparation preparation;  // made when it is first wanted: other files' static objects set it
  return preparation;
}

class Arrivals {
 public:
  explicit Arrivals(int jobs) : bytes_(static_cast<size_t>(jobs) * sizeof(std::atomic<int>)) {
    page_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DISTILL_CHECK(page_ != MAP_FAILED, "no memory that processes share");
    for (int job = 0; job < jobs; ++job) new (of(job)) std::atomic<int>(0);
  }
  ~Arrivals() { munmap(page_, bytes_); }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  std::atomic<int>* of(int job) const { return static_cast<std::atomic<int>*>(page_) + job; }

 private:
  size_t bytes_;
  void* page_;
};

[[noreturn]] void RunChild(const World& world, int pipe, const std::function<absl::Status(const World&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int caught : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTERM, SIGINT}) signal(caught, SIG_DFL);
  setenv("DISTILL_LOG_LEVEL", "error", 0);
  SetIdentity({world.rank, world.world_size, world.host});
  absl::Status status = ThePreparation().there(world);
  if (status.ok()) status = body(world);
  const std::string text = status.ok() ? "+" : EncodeStatus(status);
  const bool written = write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  _exit(written ? 0 : 3);
}

// Whether nothing more can come: who has not ended is stopped, and nobody runs who would wake it.
bool OnlyStoppedAreLeft(const std::vector<Child>& children) {
  for (const Child& child : children) {
    siginfo_t info = {};
    if (child.finished) continue;
    if (waitid(P_PID, static_cast<id_t>(child.pid), &info, WSTOPPED | WNOHANG | WNOWAIT) != 0) return false;
    if (info.si_pid != child.pid) return false;
  }
  return true;
}

// Reads what the children report until each has closed its pipe or is stopped.
void Collect(std::vector<Child>& children, std::vector<RankOutcome>& outcomes, const Deadline& deadline,
             absl::Time start) {
  constexpr int kLookMilliseconds = 50;  // a stop makes no pipe readable
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<size_t> who;
    for (size_t i = 0; i < children.size(); ++i) {
      if (children[i].finished) continue;
      entries.push_back({children[i].pipe, POLLIN, 0});
      who.push_back(i);
    }
    if (entries.empty() || deadline.Passed() || OnlyStoppedAreLeft(children)) return;
    if (poll(entries.data(), entries.size(), std::min(kLookMilliseconds, deadline.PollMilliseconds())) <= 0) continue;
    for (size_t e = 0; e < entries.size(); ++e) {
      if (entries[e].revents == 0) continue;
      Child& child = children[who[e]];
      char bytes[4096];
      const ssize_t count = read(child.pipe, bytes, sizeof(bytes));
      if (count > 0) child.text.append(bytes, static_cast<size_t>(count));
      child.finished = count == 0;
      if (child.finished) outcomes[who[e]].took = absl::Now() - start;
    }
  }
}

void Bury(Child& child, RankOutcome& outcome) {
  outcome.ended = child.finished;
  if (!child.finished) kill(child.pid, SIGKILL);
  int result = 0;
  waitpid(child.pid, &result, 0);
  close(child.pipe);
  if (child.finished && WIFSIGNALED(result)) outcome.signal = WTERMSIG(result);
  if (child.text == "+") return;
  outcome.status =
      child.text.empty() ? absl::AbortedError(outcome.ended ? "it died" : "it hung") : DecodeStatus(child.text);
}

}  // namespace

void PrepareRanks(std::function<void()> here, std::function<absl::Status(const World&)> there) {
  ThePreparation() = {std::move(here), std::move(there)};
}

void RefuseThreads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  constexpr size_t kNoRoom = size_t{1} << 50;  // for the stack, in 2^47 bytes of addresses
  DISTILL_CHECK(pthread_attr_setstacksize(&attributes, kNoRoom) == 0, "pthread_attr_setstacksize");
  DISTILL_CHECK(pthread_setattr_default_np(&attributes) == 0, "pthread_setattr_default_np");
  pthread_attr_destroy(&attributes);
}

ReservedPort::ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  DISTILL_CHECK(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0, "SO_REUSEADDR");
  DISTILL_CHECK(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0, "no free port");
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  number_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() { close(socket_); }

World LocalWorld(int rank, int world_size, int port) {
  World world;
  world.rank = world.local_rank = rank;
  world.world_size = world.local_size = world_size;
  world.host = HostName();
  world.host_id = HostId();
  world.launcher = "distillrun";
  world.rendezvous = absl::StrCat("127.0.0.1:", port);
  world.job_secret = "a secret of the test";
  return world;
}

std::vector<RankOutcome> RunRanks(int world_size, absl::Duration limit,
                                  const std::function<absl::Status(const World&)>& body) {
  return RunJobs(1, world_size, limit, [&body](int, const World& world) { return body(world); })[0];
}

std::vector<std::vector<RankOutcome>> RunJobs(int jobs, int world_size, absl::Duration limit,
                                              const std::function<absl::Status(int job, const World&)>& body) {
  ThePreparation().here();
  const absl::Time start = absl::Now();
  std::vector<Child> children(static_cast<size_t>(jobs * world_size));
  std::vector<RankOutcome> outcomes(children.size());
  const Arrivals arrivals(jobs);
  const std::vector<ReservedPort> ports(static_cast<size_t>(jobs));
  for (size_t i = 0; i < children.size(); ++i) {
    const int rank = static_cast<int>(i) % world_size;
    const int job = static_cast<int>(i) / world_size;
    int ends[2];
    DISTILL_CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    Child& child = children[i];
    outcomes[i].rank = rank;
    child.pid = fork();
    DISTILL_CHECK(child.pid >= 0, "no process");
    if (child.pid == 0) {
      meeting_point = {.arrivals = arrivals.of(job), .ranks = world_size};
      RunChild(LocalWorld(rank, world_size, ports[static_cast<size_t>(job)].number()), ends[1],
               [&](const World& world) { return body(job, world); });
    }
    close(ends[1]);
    child.pipe = ends[0];
  }
  Collect(children, outcomes, Deadline::After(kPatience * limit), start);
  std::vector<std::vector<RankOutcome>> by_job(static_cast<size_t>(jobs));
  for (size_t i = 0; i < children.size(); ++i) {
    Bury(children[i], outcomes[i]);
    by_job[i / static_cast<size_t>(world_size)].push_back(std::move(outcomes[i]));
  }
  return by_job;
}

absl::Status AwaitAllRanks() {
  MeetingPoint& point = meeting_point;
  DISTILL_CHECK(point.arrivals != nullptr, "AwaitAllRanks is for the bodies of RunRanks and RunJobs");
  point.arrivals->fetch_add(1);
  const int all = ++point.meetings * point.ranks;
  for (const Deadline patience = Deadline::After(absl::Minutes(2)); point.arrivals->load() < all;) {
    if (patience.Passed()) return absl::DeadlineExceededError("not every rank has come within 2 minutes");
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::OkStatus();
}

std::string Failures(const std::vector<RankOutcome>& outcomes) {
  std::string text;
  for (const RankOutcome& outcome : outcomes) {
    if (outcome.status.ok()) continue;
    absl::StrAppend(&text, "rank ", outcome.rank, ": ", outcome.status.ToString(), "\n");
  }
  return text;
}

void PrintTimes(const std::string& fault, const std::vector<RankOutcome>& outcomes) {
  std::string text;
  for (const RankOutcome& outcome : outcomes) {
    if (!outcome.ended || outcome.signal != 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", "rank ", outcome.rank, " ended after ",
                    absl::FormatDuration(absl::Trunc(outcome.took, absl::Milliseconds(1))));
  }
  std::printf("%s: %s\n", fault.c_str(), text.c_str());
  std::fflush(stdout);
}

absl::Status Expect(bool condition, absl::string_view text) {
  return condition ? absl::OkStatus() : absl::InternalError(text);
}

absl::Status ExpectWithin(absl::Duration limit, const std::function<absl::Status()>& wait) {
  const absl::Time start = absl::Now();
  const absl::Status status = wait();
  const absl::Duration took = absl::Now() - start;
  if (took <= limit) return status;
  return absl::InternalError(absl::StrCat("took ", absl::FormatDuration(took), ": ", status.ToString()));
}

absl::Status ExpectError(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& parts) {
  bool fits = status.code() == code;
  for (const std::string& part : parts) fits = fits && absl::StrContains(status.message(), part);
  return Expect(fits, absl::StrCat("not the error that was expected: ", status.ToString()));
}

}  // namespace distill::testing
