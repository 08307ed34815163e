#include "bench/scale/rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "bench/scale/fabric_messages.h"
#include "bench/scale/process_usage.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/world.h"

namespace distill {
namespace {

constexpr int64_t kElementBytes = 8;

// Rank r gives i * (r + 1) at place i.
int64_t SumAt(const Communicator& comm, int64_t i) {
  const int64_t ranks = comm.world_size();
  return i * (ranks * (ranks + 1) / 2);
}

void Fill(const Communicator& comm, std::vector<int64_t>& data) {
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int64_t>(i) * (comm.rank() + 1);
}

// `data`: the sums from place `first` on.
absl::Status Verify(const Communicator& comm, const char* what, const int64_t* data, int64_t count, int64_t first) {
  for (int64_t i = 0; i < count; ++i) {
    if (data[i] == SumAt(comm, first + i)) continue;
    return absl::InternalError(absl::StrCat(what, " on ", comm.Describe(comm.rank()), ": element ", i, " is ", data[i],
                                            " instead of ", SumAt(comm, first + i)));
  }
  return absl::OkStatus();
}

absl::Status AllReduceOnce(Communicator& comm, std::vector<int64_t>& data) {
  return comm.AllReduce(data.data(), data.data(), static_cast<int64_t>(data.size()), DType::kInt64, ReduceOp::kSum);
}

// One line, written at once: lines of ranks that share a pipe stay whole.
void Print(const std::string& line) {
  std::fputs(absl::StrCat(line, "\n").c_str(), stdout);
  std::fflush(stdout);
}

// Where the job met, "HOST:PORT".
int PortIn(const std::string& rendezvous) {
  int port = 0;
  const size_t colon = rendezvous.rfind(':');
  return colon != std::string::npos && absl::SimpleAtoi(rendezvous.substr(colon + 1), &port) ? port : 0;
}

absl::StatusOr<std::unique_ptr<Communicator>> Meet(const World& world, const ScaleOptions& options) {
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  CommunicatorOptions made;
  made.timeout = options.timeout;
  return CreateCommunicator(world, made);
}

// What one rank does, one step after the other, and what each took.
class ScaleRank {
 public:
  ScaleRank(World world, const ScaleOptions& options) : world_(std::move(world)), options_(options) {}
  absl::Status Run();

 private:
  absl::Status Steps();
  absl::Status Sum(Communicator& comm, const char* name, int64_t count);
  absl::Status ScatterSums();
  absl::Status Split();
  // Runs `body` once every rank of `comm` is here, where there is one, and notes what it took.
  absl::Status Step(const char* name, Communicator* comm, absl::FunctionRef<absl::Status()> body);
  absl::Status LookAtPeak();
  std::string Json() const;

  const World world_;
  const ScaleOptions options_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Communicator> part_;
  int64_t of_part_ = 0;  // connections by which the part met
  std::vector<std::string> steps_;
  ProcessUsage peak_;
};

absl::Status ScaleRank::Step(const char* name, Communicator* comm, absl::FunctionRef<absl::Status()> body) {
  if (comm != nullptr) DISTILL_RETURN_IF_ERROR(comm->Barrier());
  const FabricMessages before = SentOverFabric();
  const absl::Time start = absl::Now();
  DISTILL_RETURN_IF_ERROR(Annotate(body(), name));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const FabricMessages after = SentOverFabric();
  steps_.push_back(absl::StrCat("\"", name, "\": {\"s\": ", seconds, ", \"messages\": ",
                                after.messages - before.messages, ", \"bytes\": ", after.bytes - before.bytes, "}"));
  return absl::OkStatus();
}

absl::Status ScaleRank::Sum(Communicator& comm, const char* name, int64_t count) {
  std::vector<int64_t> data(static_cast<size_t>(count));
  Fill(comm, data);
  DISTILL_RETURN_IF_ERROR(Step(name, &comm, [&] { return AllReduceOnce(comm, data); }));
  DISTILL_RETURN_IF_ERROR(Verify(comm, name, data.data(), count, 0));
  return LookAtPeak();
}

absl::Status ScaleRank::ScatterSums() {
  constexpr char kName[] = "reduce-scatter";
  const int64_t count = std::max<int64_t>(1, options_.bytes / kElementBytes / world_.world_size);
  std::vector<int64_t> data(static_cast<size_t>(count * world_.world_size)), block(static_cast<size_t>(count));
  Fill(*comm_, data);
  DISTILL_RETURN_IF_ERROR(Step(kName, comm_.get(), [&] {
    return comm_->ReduceScatter(data.data(), block.data(), count, DType::kInt64, ReduceOp::kSum);
  }));
  DISTILL_RETURN_IF_ERROR(Verify(*comm_, kName, block.data(), count, world_.rank * count));
  return LookAtPeak();
}

// Every other rank of each host, as a teacher and a student beside each other would be.
absl::Status ScaleRank::Split() {
  DISTILL_RETURN_IF_ERROR(Step("split", comm_.get(), [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(part_, comm_->Split(world_.local_rank % 2, world_.rank));
    return absl::OkStatus();
  }));
  if (part_->world_size() > 1) of_part_ = part_->rank() == 0 ? part_->world_size() - 1 : 1;
  return Sum(*part_, "all-reduce in a part", std::max<int64_t>(1, options_.bytes / kElementBytes));
}

absl::Status ScaleRank::LookAtPeak() {
  DISTILL_ASSIGN_OR_RETURN(const ProcessUsage now, LookAtProcess(PortIn(world_.rendezvous)));
  const int64_t memory = std::max(peak_.memory_bytes, now.memory_bytes);
  const int64_t own = std::max(peak_.private_bytes, now.private_bytes);
  if (now.descriptors >= peak_.descriptors) peak_ = now;
  peak_.memory_bytes = memory;
  peak_.private_bytes = own;
  return absl::OkStatus();
}

absl::Status ScaleRank::Steps() {
  DISTILL_RETURN_IF_ERROR(Step("meeting", nullptr, [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(comm_, Meet(world_, options_));
    return absl::OkStatus();
  }));
  DISTILL_RETURN_IF_ERROR(LookAtPeak());
  const int64_t count = std::max<int64_t>(1, options_.bytes / kElementBytes);
  DISTILL_RETURN_IF_ERROR(Sum(*comm_, "all-reduce of 8 bytes", 1));
  DISTILL_RETURN_IF_ERROR(Sum(*comm_, "first all-reduce", count));
  DISTILL_RETURN_IF_ERROR(Sum(*comm_, "all-reduce", count));
  DISTILL_RETURN_IF_ERROR(ScatterSums());
  DISTILL_RETURN_IF_ERROR(Split());
  return Step("end", comm_.get(), [&] {
    part_.reset();
    comm_.reset();
    return absl::OkStatus();
  });
}

std::string ScaleRank::Json() const {
  const ProcessUsage& u = peak_;
  return absl::StrCat(
      "JSON {\"rank\": ", world_.rank, ", \"local_rank\": ", world_.local_rank, ", \"memory\": ", u.memory_bytes,
      ", \"private\": ", u.private_bytes, ", \"threads\": ", u.threads, ", \"descriptors\": ", u.descriptors,
      ", \"at_meeting\": ", u.at_meeting, ", \"of_parts\": ", of_part_, ", \"of_fabric\": ", u.connections - of_part_,
      ", \"listeners\": ", u.listeners, ", \"processes\": ", u.processes, ", \"memories\": ", u.memories,
      ", \"meeting_bytes_sent\": ", u.meeting.bytes_sent, ", \"meeting_bytes_received\": ", u.meeting.bytes_received,
      ", \"meeting_segments_sent\": ", u.meeting.segments_sent,
      ", \"meeting_segments_received\": ", u.meeting.segments_received, ", \"steps\": {", absl::StrJoin(steps_, ", "),
      "}}");
}

absl::Status ScaleRank::Run() {
  DISTILL_RETURN_IF_ERROR(Steps());
  Print(Json());
  return absl::OkStatus();
}

}  // namespace

absl::Status RunScaleRank(const ScaleOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(World world, ReadWorld());
  return ScaleRank(std::move(world), options).Run();
}

absl::Status RunUntilLost(const ScaleOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const World world, ReadWorld());
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, Meet(world, options));
  std::vector<int64_t> data(static_cast<size_t>(std::max<int64_t>(1, options.bytes / kElementBytes)));
  Fill(*comm, data);
  DISTILL_RETURN_IF_ERROR(AllReduceOnce(*comm, data));
  DISTILL_RETURN_IF_ERROR(Verify(*comm, "all-reduce", data.data(), static_cast<int64_t>(data.size()), 0));
  Print(absl::StrCat("READY ", world.rank, " ", getpid()));
  absl::Status status;
  while (status.ok()) status = AllReduceOnce(*comm, data);
  Print(absl::StrCat("JSON {\"rank\": ", world.rank,
                     ", \"unavailable\": ", absl::IsUnavailable(status) ? "true" : "false",
                     ", \"ended_at\": ", absl::ToUnixMicros(absl::Now()), ", \"error\": \"",
                     absl::StrReplaceAll(status.message(), {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", " "}}), "\"}"));
  return absl::OkStatus();
}

}  // namespace distill
