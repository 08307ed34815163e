// Communicators that were split from another: who is in them, and that each lives and fails for itself.
#include "libdistill/comm/split.h"
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/descriptors.h"
#include "tests/comm/collectives_grid.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

std::string RunOver(BackendPreference backend, int ranks, const std::function<absl::Status(Communicator&)>& body) {
  return Failures(RunRanks(ranks, absl::Seconds(60), [&](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    CommunicatorOptions options;
    options.backend = backend;
    options.timeout = absl::Seconds(20);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
    return body(*comm);
  }));
}

// The parent's rank of every rank of the part.
absl::StatusOr<std::vector<int64_t>> WhoIsIn(Communicator& part, int64_t me) {
  std::vector<int64_t> all(static_cast<size_t>(part.world_size()));
  DISTILL_RETURN_IF_ERROR(part.AllGather(&me, all.data(), 1, DType::kInt64));
  return all;
}

TEST_CASE("a split by parity has the ranks of each color in the order of their keys") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    CHECK(
        RunOver(backend, 5, [backend](Communicator& comm) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto part, comm.Split(comm.rank() % 2, -comm.rank()));
          DISTILL_RETURN_IF_ERROR(Expect(part->backend() == FieldText(backend), std::string(part->backend())));
          DISTILL_ASSIGN_OR_RETURN(const std::vector<int64_t> all, WhoIsIn(*part, comm.rank()));
          const std::vector<int64_t> even = {4, 2, 0}, odd = {3, 1};
          DISTILL_RETURN_IF_ERROR(Expect(all == (comm.rank() % 2 == 0 ? even : odd), "other ranks"));
          DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(*part, {.counts = {3, 1009}, .dtypes = {DType::kFloat32}}));
          return comm.Barrier();
        }) == "");
  }
}

TEST_CASE("a rank without a color gets none, a rank alone gets one of its own, and parts are split again") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    CHECK(RunOver(backend, 4, [](Communicator& comm) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto three, comm.Split(comm.rank() == 2 ? -1 : 7, 0));
            if (comm.rank() == 2) return Expect(three == nullptr, "a communicator for color -1");
            DISTILL_RETURN_IF_ERROR(Expect(three->world_size() == 3, "another size"));
            DISTILL_ASSIGN_OR_RETURN(const auto nested, three->Split(three->rank() / 2, 0));
            const bool alone = comm.rank() == 3;
            DISTILL_RETURN_IF_ERROR(Expect(nested->world_size() == (alone ? 1 : 2), "another size"));
            DISTILL_RETURN_IF_ERROR(Expect((nested->backend() == "alone") == alone, std::string(nested->backend())));
            int64_t sum = comm.rank();
            DISTILL_RETURN_IF_ERROR(nested->AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
            return Expect(sum == (alone ? 3 : 1), absl::StrCat("a sum of ", sum));
          }) == "");
  }
}

TEST_CASE("a part that fails leaves the others and its parent as they were") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    CHECK(RunOver(backend, 4, [](Communicator& comm) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto part, comm.Split(comm.rank() / 2, 0));
            int64_t x = 1;
            if (comm.rank() == 0) {
              DISTILL_RETURN_IF_ERROR(ExpectError(part->Broadcast(&x, 1, DType::kInt64, 9),
                                                  absl::StatusCode::kInvalidArgument,
                                                  {"broadcast number 1", "root 9 in a world of 2"}));
            } else if (comm.rank() == 1) {
              const absl::Status told = part->Broadcast(&x, 1, DType::kInt64, 0);
              DISTILL_RETURN_IF_ERROR(
                  Expect(told.message().find("root 9 in a world of 2") != std::string::npos, told.ToString()));
            } else {
              DISTILL_RETURN_IF_ERROR(part->Barrier());
            }
            DISTILL_RETURN_IF_ERROR(comm.AllReduce(&x, &x, 1, DType::kInt64, ReduceOp::kSum));
            return Expect(x == 4, absl::StrCat("a sum of ", x));
          }) == "");
  }
}

TEST_CASE("a part outlives the communicator that it was split from") {
  CHECK(Failures(RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
          CommunicatorOptions options;
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));
          DISTILL_ASSIGN_OR_RETURN(const auto part, comm->Split(0, 0));
          comm.reset();
          return testing::CheckSameBits(*part);
        })) == "");
}

TEST_CASE("a split for which a rank may open too few files is an error on every rank, and leaves the whole as it was") {
  CHECK(RunOver(BackendPreference::kShm, 3, [](Communicator& comm) -> absl::Status {
          rlimit limit = {};
          getrlimit(RLIMIT_NOFILE, &limit);
          if (comm.rank() == 0) {
            limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(OpenDescriptors()) + 10;
            setrlimit(RLIMIT_NOFILE, &limit);
          }
          DISTILL_RETURN_IF_ERROR(ExpectError(comm.Split(0, 0).status(), absl::StatusCode::kResourceExhausted,
                                              {"rank 0 on ", "descriptors to meet the other 2 ranks", "LimitNOFILE="}));
          int64_t sum = 1;
          DISTILL_RETURN_IF_ERROR(comm.AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
          // Rank 1 is rank 0 of the part, and its limit suffices.
          DISTILL_ASSIGN_OR_RETURN(const auto part, comm.Split(comm.rank() == 0 ? -1 : 0, 0));
          DISTILL_RETURN_IF_ERROR(Expect((part == nullptr) == (comm.rank() == 0), "another part"));
          return Expect(sum == 3, absl::StrCat("a sum of ", sum));
        }) == "");
}

// A communicator that notes what is sent over it: a split only gathers.
class Tapped : public Communicator {
 public:
  explicit Tapped(Communicator& inner) : Communicator(inner.rank(), inner.world_size()), inner_(inner) {}
  absl::string_view backend() const override { return "tapped"; }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int, int) override { return absl::UnimplementedError("split"); }
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t, Placement) override {
    return absl::UnimplementedError("allocate");
  }
  void Abort(const absl::Status&) override {}
  void SetErrorContext(std::function<std::string()>) override {}
  const std::string& sent() const { return sent_; }

 private:
  absl::Status Run(const CommCall& call) override {
    if (call.operation != CommOperation::kAllGather) return absl::UnimplementedError("no gather");
    sent_.append(call.in(), static_cast<size_t>(call.bytes()));
    return inner_.AllGather(call.input, call.output, call.count, call.dtype);
  }

  Communicator& inner_;
  std::string sent_;
};

TEST_CASE("a split sends no secret: each rank makes the part's of the job's, or of what rank 0 told it without one") {
  for (const bool has_secret : {true, false}) {
    CHECK(Failures(RunRanks(2, absl::Seconds(30), [has_secret](World world) -> absl::Status {
            if (!has_secret) world.job_secret.clear();
            CommunicatorOptions options;
            DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
            DISTILL_RETURN_IF_ERROR(comm->Barrier());
            Setup setup = {world, options, Deadline::After(absl::Seconds(20)), nullptr, {"a", "a"}, true};
            setup.host_ids = {"a", "a"};
            DISTILL_ASSIGN_OR_RETURN(setup.rendezvous, CreateRendezvous(world, setup.deadline));
            const SplitSeed seed(setup);
            DISTILL_RETURN_IF_ERROR(Expect(!seed.secret.empty(), "the ranks share no secret"));
            Tapped tapped(*comm);
            std::string secret;
            DISTILL_RETURN_IF_ERROR(SplitFrom(tapped, seed, {0, 1}, [&secret](Setup part) -> MadeCommunicator {
                                      secret = part.world.job_secret;
                                      return CreateAloneBackend();
                                    }).status());
            DISTILL_RETURN_IF_ERROR(Expect(!secret.empty() && secret != seed.secret, "no secret of the part's own"));
            DISTILL_RETURN_IF_ERROR(Expect(tapped.sent().find("127.0.0.1:") != std::string::npos || world.rank == 1,
                                           "the place was not sent"));
            for (const std::string& kept : {secret, seed.secret}) {
              DISTILL_RETURN_IF_ERROR(Expect(tapped.sent().find(kept) == std::string::npos, "a secret was sent"));
            }
            return comm->Barrier();
          })) == "");
  }
}

}  // namespace
}  // namespace distill
