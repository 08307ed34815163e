#include <cstring>
#include <memory>

#include "libdistill/comm/create.h"

namespace distill {
namespace {

absl::Status Copy(const void* send, void* receive, int64_t count, DType dtype) {
  std::memmove(receive, send, static_cast<size_t>(count * SizeOf(dtype)));
  return absl::OkStatus();
}

class AloneCommunicator : public Communicator {
 public:
  AloneCommunicator() : Communicator(0, 1) {}
  absl::string_view backend() const override { return "alone"; }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp, Placement) override {
    return Copy(send, receive, count, dtype);
  }
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp,
                               Placement) override {
    return Copy(send, receive, count, dtype);
  }
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) override {
    return Copy(send, receive, count, dtype);
  }
  absl::Status DoBroadcast(void*, int64_t, DType, int, Placement) override { return absl::OkStatus(); }
  absl::Status DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp, int,
                        Placement) override {
    return Copy(send, receive, count, dtype);
  }
  absl::Status DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) override {
    return Copy(send, receive, count, dtype);
  }
  absl::Status DoBarrier() override { return absl::OkStatus(); }
  absl::Status DoSend(const void*, int64_t, DType, int, Placement) override { return NoPeer(); }
  absl::Status DoReceive(void*, int64_t, DType, int, Placement) override { return NoPeer(); }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    if (part.members.empty()) return nullptr;
    return CreateAloneCommunicator();
  }

 private:
  static absl::Status NoPeer() { return absl::InternalError("a job of one rank has no peer"); }
};

}  // namespace

std::unique_ptr<Communicator> CreateAloneCommunicator() { return std::make_unique<AloneCommunicator>(); }

}  // namespace distill
