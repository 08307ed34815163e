// In which order, and on whose thread, a communicator over the fabric gives back what libfabric holds. tcp does not
// mind; a network card would continue to write to memory that is registered no more. So libfabric's own closing calls
// are watched here, with registrations for every buffer, as efa wants them.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::JoinForCallsOf;
using testing::RunJobs;
using testing::RunRanks;
using testing::WatchedFabric;

// What was closed, in order; `elsewhere`: on another thread than the test's.
struct Closed {
  std::string what;
  bool elsewhere;
};

std::mutex mutex;
std::vector<Closed> closed;
std::thread::id test_thread;

fi_ops_mr mr_ops, real_mr_ops;

template <int kKind>
struct Watched {
  static inline fi_ops ops, real;
  static inline const char* what;
  static int Close(fid* object) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      closed.push_back({what, std::this_thread::get_id() != test_thread});
    }
    return real.close(object);
  }
  static void Watch(fid& object, const char* name) {
    what = name;
    real = ops = *object.ops;
    ops.close = &Close;
    object.ops = &ops;
  }
};

void WatchEndpoint(fid_ep& endpoint) { Watched<0>::Watch(endpoint.fid, "endpoint"); }

int Register(fid* domain, const fi_mr_attr* attributes, uint64_t flags, fid_mr** region) {
  const int rc = real_mr_ops.regattr(domain, attributes, flags, region);
  if (rc == 0) Watched<1>::Watch((*region)->fid, "registration");
  return rc;
}

void WatchDomain(fid_domain& domain) {
  Watched<2>::Watch(domain.fid, "domain");
  real_mr_ops = mr_ops = *domain.mr;
  mr_ops.regattr = &Register;
  domain.mr = &mr_ops;
}

int GetInfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** found) {
  const int rc = WatchedFabric::real.getinfo(version, node, service, flags, hints, found);
  for (fi_info* info = rc == 0 ? *found : nullptr; info != nullptr; info = info->next) {
    info->domain_attr->mr_mode |= FI_MR_LOCAL;
  }
  return rc;
}

// In a process of a test's own: for good.
absl::Status WatchFabric() {
  test_thread = std::this_thread::get_id();
  return WatchedFabric::Watch({.on_domain = &WatchDomain, .on_endpoint = &WatchEndpoint}, &GetInfo);
}

void Forget() {
  const std::lock_guard<std::mutex> lock(mutex);
  closed.clear();
}

// The endpoint, then `registrations` of them at least, on its own thread; then the rest.
absl::Status ExpectOrder(size_t registrations) {
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string all = absl::StrJoin(closed, ", ", [](std::string* text, const Closed& one) {
    absl::StrAppend(text, one.what, one.elsewhere ? " there" : " here");
  });
  DISTILL_RETURN_IF_ERROR(Expect(closed.size() >= 2 + registrations, absl::StrCat("too few were closed: ", all)));
  for (size_t i = 0; i < closed.size(); ++i) {
    const std::string wanted = i == 0 ? "endpoint" : i + 1 == closed.size() ? "domain" : "registration";
    DISTILL_RETURN_IF_ERROR(Expect(closed[i].what == wanted, absl::StrCat("another order: ", all)));
    if (wanted == "domain") continue;
    DISTILL_RETURN_IF_ERROR(Expect(closed[i].elsewhere, absl::StrCat("not on the endpoint's thread: ", all)));
  }
  return absl::OkStatus();
}

absl::Status Use(Communicator& comm, char* data, int64_t bytes, const std::string& operation) {
  if (operation == "ring") return comm.AllReduce(data, data, bytes, DType::kUInt8, ReduceOp::kSum);
  if (operation == "exchange") return comm.AllReduce(data, data, 100, DType::kUInt8, ReduceOp::kSum);
  return comm.Receive(data, bytes, DType::kUInt8, 1);
}

TEST_CASE("after an error the fabric's operations end before the registrations of their buffers, on its thread",
          "[own_fabric]") {
  constexpr int64_t kBytes = 4 << 20;
  const std::vector<std::string> operations = {"ring", "exchange",
                                               "receive"};  // a job each, since most of it is waiting
  const auto jobs = RunJobs(3, 2, absl::Seconds(90), [&](int job, const World& world) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchFabric());
    DISTILL_ASSIGN_OR_RETURN(auto comm,
                             JoinForCallsOf(absl::Seconds(5), world, BackendPreference::kFabric, {"a", "b"}));
    DISTILL_ASSIGN_OR_RETURN(auto memory, comm->Allocate(kBytes));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    Forget();
    if (world.rank == 1) {
      while (comm->CheckPeers().ok()) absl::SleepFor(absl::Milliseconds(5));
      return absl::OkStatus();
    }
    std::vector<char> plain(kBytes);
    DISTILL_RETURN_IF_ERROR(ExpectError(Use(*comm, plain.data(), kBytes, operations[static_cast<size_t>(job)]),
                                        absl::StatusCode::kDeadlineExceeded, {}));
    return ExpectOrder(/*registrations=*/3);  // the call's buffer, Allocate's, the landing
  });
  for (size_t job = 0; job < jobs.size(); ++job) {
    INFO(operations[job]);
    CHECK(Failures(jobs[job]) == "");
  }
}

TEST_CASE("a communicator that ends in order closes the endpoint, then its registrations, on the fabric's thread",
          "[own_fabric]") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchFabric());
    DISTILL_ASSIGN_OR_RETURN(auto comm,
                             JoinForCallsOf(absl::Seconds(20), world, BackendPreference::kFabric, {"a", "b"}));
    DISTILL_ASSIGN_OR_RETURN(auto memory, comm->Allocate(1000));
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    Forget();
    comm.reset();
    return ExpectOrder(/*registrations=*/2);
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
