// Collectives between the ranks of a job.
//
//   DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));   // comm/create.h
//   DISTILL_RETURN_IF_ERROR(comm->AllReduce(grad, grad, count, DType::kFloat32, ReduceOp::kSum));
//
// Every rank makes the same calls, in the same order, with the same counts, types, operations and roots. A call blocks
// until this rank's part is done (its buffers may then be reused) or until the time-out of the options has passed.
// After a failed call the communicator is poisoned: this and every later call return that first error, which names
// the operation, its sequence number, this rank and, where it is known, the rank that was lost.
// All ranks end with identical bits; the same call on the same inputs gives the same bits again.
// A communicator is used by one thread at a time, but for Abort.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/lifeline.h"
#include "libdistill/core/dtype.h"

namespace distill {

enum class ReduceOp : uint8_t { kSum, kAverage, kMin, kMax, kProduct };
const char* NameOf(ReduceOp op);

// Where a collective's buffers live and on which queue it runs. The default is host memory.
struct Placement {
  bool on_device = false;
  // A cudaStream_t: the call comes after what is enqueued there and before what will be. Like every call it returns
  // when this rank's part is done, so that a rank that is lost is this call's error and no stream hangs.
  void* stream = nullptr;
};

// Memory that collectives use where it lies, without a copy on the way: mapped by every rank of the host, registered
// with the fabric, or NCCL's own. Zeroed, aligned to a page. Any part of it may be a buffer of a call.
class CommMemory {
 public:
  virtual ~CommMemory() = default;
  CommMemory(const CommMemory&) = delete;
  CommMemory& operator=(const CommMemory&) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  CommMemory(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

 private:
  char* const data_;
  const int64_t bytes_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // "rank 3 on p4d-17"; without the host where it is not known.
  std::string Describe(int rank) const;
  // "alone", "shm", "fabric", "mpi", "nccl": what moves the bytes. Tests assert it.
  virtual absl::string_view backend() const = 0;
  // Whether buffers in device memory are taken as they are; otherwise callers stage them through host memory.
  virtual bool takes_device_memory() const { return false; }

  // In all of these `count` is in elements, `send` may equal `receive` (in place) and need not be aligned beyond its
  // element type; counts of 0 are fine.

  // receive[i] = op over ranks of send[i].
  [[nodiscard]] absl::Status AllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                       Placement placement = {});
  // send holds world_size * count elements; receive gets the reduced elements [rank * count, (rank + 1) * count).
  // In place means receive == send + rank * count elements.
  [[nodiscard]] absl::Status ReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                           Placement placement = {});
  // receive gets world_size * count elements, rank r's at r * count. In place: send == receive + rank * count elements.
  [[nodiscard]] absl::Status AllGather(const void* send, void* receive, int64_t count, DType dtype,
                                       Placement placement = {});
  [[nodiscard]] absl::Status Broadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement = {});
  [[nodiscard]] absl::Status Barrier();

  // Memory for the buffers of later calls. Every rank must call it, with the same size, above 0. Freed with the object,
  // by each rank for itself; it may outlive the communicator. ResourceExhausted on every rank, without poisoning the
  // communicator, when one of them has not that much. A call is free of copies where every rank passes parts of memory
  // of the same Allocate; other pointers, and a mixture, work as well.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes);

  // Unavailable once a peer is known to be lost, to have given up or to have left; OK also where the backend cannot
  // tell. One rank alone may ask. Never blocks, and does not poison.
  [[nodiscard]] virtual absl::Status CheckPeers() { return absl::OkStatus(); }

  // Ends this rank's and the peers' pending and later calls with this error. Never blocks; from any thread. A call that
  // cannot end within CommunicatorOptions::abort_grace, here or where a peer is lost, is named and ends its process.
  void Abort(const absl::Status& error) { lifeline_.Abort(error); }

  // Internal: lets a lost rank and the watchdog end calls. Once, before the first call.
  void Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration grace);

  // What is appended to errors, say "step 17". Asked only when a call fails.
  void SetErrorContext(std::function<std::string()> context) { error_context_ = std::move(context); }

 protected:
  Communicator(int rank, int world_size) : rank_(rank), world_size_(world_size) {}
  // `hosts`: the host name of every rank.
  Communicator(int rank, std::vector<std::string> hosts)
      : rank_(rank), world_size_(static_cast<int>(hosts.size())), hosts_(std::move(hosts)) {}

  // Backends implement these; arguments were checked, count > 0, and world_size > 1 unless the backend is "alone". One
  // that waits ends as soon as its rendezvous has failed: that is how an Abort and a lost rank reach it.
  virtual absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                   Placement placement) = 0;
  virtual absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                       Placement placement) = 0;
  virtual absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype,
                                   Placement placement) = 0;
  virtual absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) = 0;
  virtual absl::Status DoBarrier() = 0;
  // Plain memory by default. ResourceExhausted: this rank, or a peer that it names, has not that much.
  virtual absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes);
  // Called once, when the communicator is poisoned and the peers were told: withdraws what is still under way.
  virtual void Abandon(const absl::Status& error) { (void)error; }

 private:
  // Runs one call: refuses when poisoned, numbers it, and turns its failure into the error described above.
  absl::Status Guard(const char* operation, absl::FunctionRef<absl::Status()> call);
  // "barrier number 3 over shm failed on rank 1 on host-a of 2 ranks (step 5)", `where` being "failed on".
  std::string DescribeCall(const char* operation, int64_t sequence, const char* where) const;
  absl::Status CheckBuffers(const void* send, const void* receive, int64_t count, int64_t blocks, DType dtype,
                            Placement placement) const;

  const int rank_;
  const int world_size_;
  const std::vector<std::string> hosts_;
  int64_t sequence_ = 0;
  absl::Status poison_;
  std::function<std::string()> error_context_;
  Lifeline lifeline_;
};

}  // namespace distill
