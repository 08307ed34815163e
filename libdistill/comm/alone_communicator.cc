// The communicator of a job of one rank: what a call gives is what it was given.
#include <cstring>
#include <memory>

#include "libdistill/comm/setup.h"

namespace distill {
namespace {

class AloneCommunicator : public CommBackend {
 public:
  AloneCommunicator() : CommBackend(0, 1) {}
  absl::string_view backend() const override { return "alone"; }
  bool takes_strides(Placement) const override { return true; }  // of its one block

 protected:
  absl::Status Execute(const CommCall& call) override {
    if (IsPair(call.operation)) return absl::InternalError("a job of one rank has no peer");
    if (call.count > 0) std::memmove(call.output, call.input, static_cast<size_t>(call.bytes()));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    if (part.members.empty()) return nullptr;
    return CreateAloneCommunicator();
  }
};

}  // namespace

std::unique_ptr<CommBackend> CreateAloneBackend() { return std::make_unique<AloneCommunicator>(); }

std::unique_ptr<Communicator> CreateAloneCommunicator() { return CreateAloneBackend(); }

}  // namespace distill
