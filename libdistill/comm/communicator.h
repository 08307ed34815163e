// Collectives between the ranks of a job.
//
//   DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));   // comm/create.h
//   DISTILL_RETURN_IF_ERROR(comm->AllReduce(grad, grad, count, DType::kFloat32, ReduceOp::kSum));
//
// Every rank makes the same calls, in the same order, with the same counts, types, operations and roots; Send and
// Receive concern two ranks alone. A call blocks until this rank's part is done (its buffers may then be reused) or
// until the time-out of the options has passed; comm/async.h runs calls beside other work.
// After a failed call the communicator is poisoned: this and every later call return that first error, which names
// the operation, its sequence number, this rank and, where it is known, the rank that was lost.
// All ranks end with identical bits; the same call on the same inputs gives the same bits again.
// Sums of integers wrap in their type. Their average (kAverage) is that wrapped sum divided by the number of ranks,
// truncated towards zero, on every backend: -7 over 2 ranks gives -3, and uint8 200 and 100 (44, wrapped) give 22. So
// an average is exact only where the sum fits the type. uint8 holds few: over 256 ranks and more its averages are all
// 0. Convert to int64 or a float type first. A communicator is used by one thread at a time, but for Abort; several
// communicators know nothing of each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/memory.h"
#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/dtype.h"

namespace distill {

class BusyRanks;
struct CommCall;

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // "rank 3 on p4d-17"; without the host where it is not known.
  std::string Describe(int rank) const;
  // "alone", "shm", "fabric", "mpi", "nccl", "shm+fabric", "nccl+fabric": what moves the bytes. Tests assert it.
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
  // receive[i] = op over ranks of send[i], on rank `root` alone; the others' `receive` is not looked at.
  [[nodiscard]] absl::Status Reduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                                    Placement placement = {});
  // Block r of send (count elements at r * count) becomes block rank() of rank r's receive. The buffers, of
  // world_size * count elements each, must not overlap.
  [[nodiscard]] absl::Status AllToAll(const void* send, void* receive, int64_t count, DType dtype,
                                      Placement placement = {});
  [[nodiscard]] absl::Status Barrier();

  // To and from one other rank, which makes the opposite call with the same count and type; messages of a pair arrive
  // in the order of the calls. A Send may wait for its Receive: of ranks that send to each other, or in a circle, one
  // receives first; where none does, the time-out ends their calls (DeadlineExceeded), if not at the first message then
  // at a later one. Errors number the messages of each pair, each way.
  [[nodiscard]] absl::Status Send(const void* data, int64_t count, DType dtype, int peer, Placement placement = {});
  [[nodiscard]] absl::Status Receive(void* data, int64_t count, DType dtype, int peer, Placement placement = {});

  // A communicator of the ranks that pass the same color, ranked by key, then by their rank here; null for a color
  // below 0. Every rank must call it. It counts, fails and ends for itself, over the same backend ("alone" for one
  // rank; of two levels the one that is left), with the same options. An error on any rank is every rank's, and leaves
  // this communicator as it was unless the exchange over it failed. Over MPI a call of a part that did not end is also
  // the last of every other communicator of the process (world/mpi_runtime.h).
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

  // Memory for the buffers of later calls; on this rank's GPU where `placement` says so, which wants a backend that
  // takes device memory. Every rank must call it, with the same size, above 0. Freed with the object, by each rank for
  // itself, on any thread, also beside a call that does not use it; it may outlive the communicator. ResourceExhausted
  // on every rank, without poisoning the communicator, when a host has not what its ranks ask for together (it is
  // named, with what they ask for and what is left), or a rank has not that much. Two communicators (parts of a
  // Split, too) that allocate at one time know nothing of each other. A call is free of copies where every rank passes
  // parts of memory of the same Allocate; other pointers, and a mixture, work as well.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes,
                                                                             Placement placement = {}) = 0;

  // Unavailable once a peer is known to be lost, to have given up or to have left; OK also where the backend cannot
  // tell. One rank alone may ask. Never blocks, and does not poison.
  [[nodiscard]] virtual absl::Status CheckPeers() { return absl::OkStatus(); }

  // Ends this rank's and the peers' pending and later calls with this error. Never blocks; from any thread. A call that
  // cannot end within CommunicatorOptions::abort_grace, here or where a peer is lost, is named and ends its process; so
  // does a rank outside of calls that has not destroyed the communicator of its job by then.
  virtual void Abort(const absl::Status& error) = 0;

  // By which this rank says that it works outside of calls (comm/busy_phase.h); null where there are no other ranks.
  virtual std::shared_ptr<BusyRanks> busy_ranks() const { return nullptr; }

  // What is appended to errors, say "step 17". Asked only when a call fails.
  virtual void SetErrorContext(std::function<std::string()> context) = 0;

 protected:
  Communicator(int rank, int world_size) : rank_(rank), world_size_(world_size) {}
  // `names`: "rank 3 on p4d-17" for every rank.
  Communicator(int rank, std::vector<std::string> names)
      : rank_(rank), world_size_(static_cast<int>(names.size())), names_(std::move(names)) {}

 private:
  // Does a call, with all that holds for every one of them: comm/backend.h.
  virtual absl::Status Run(const CommCall& call) = 0;

  const int rank_;
  const int world_size_;
  const std::vector<std::string> names_;
};

}  // namespace distill
