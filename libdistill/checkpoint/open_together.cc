#include "libdistill/checkpoint/open_together.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// Rank 0's request that all check; without a folder there is nothing more to check.
struct Request {
  std::string folder;
  std::string files;  // IdentityOf
  CheckpointManifest manifest;
};

// Tells these files from copies of them; "" where one cannot be seen.
std::string IdentityOf(const std::string& folder, const CheckpointManifest& manifest) {
  std::string identity;
  for (const FileEntry& file : manifest.files) {
    const absl::StatusOr<std::shared_ptr<const ReadableFile>> seen = OpenFile(PathOfFile(folder, manifest, file.name));
    if (!seen.ok()) return "";
    absl::StrAppend(&identity, (*seen)->version(), "\n");
  }
  return identity;
}

absl::StatusOr<Request> Share(Communicator& comm, const Request& of_rank0) {
  const std::string mine =
      comm.rank() == 0 ? PackStrings({of_rank0.folder, of_rank0.files, Serialize(of_rank0.manifest)}) : "";
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, BroadcastBytes(comm, mine));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(bytes));
  if (fields.size() != 3) return absl::InternalError("a request to check a checkpoint has three fields");
  DISTILL_ASSIGN_OR_RETURN(CheckpointManifest manifest, ParseCheckpointManifest(fields[2], kManifestFile));
  return Request{fields[0], fields[1], std::move(manifest)};
}

// This rank's share of the parts, where it sees the files: the numbers of those that are not as they were written, or
// cannot be read.
absl::StatusOr<std::vector<int64_t>> CheckShare(Communicator& comm, const Request& request) {
  std::vector<int64_t> sees(comm.world_size(), 0);
  const bool helps = IdentityOf(request.folder, request.manifest) == request.files;
  sees[comm.rank()] = helps || comm.rank() == 0 ? 1 : 0;
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(sees.data(), sees.data(), sees.size(), DType::kInt64, ReduceOp::kSum));
  std::vector<int64_t> bad;
  if (sees[comm.rank()] == 0) return bad;
  int64_t helpers = 0, before = 0;
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    helpers += sees[rank];
    if (rank < comm.rank()) before += sees[rank];
  }
  const BusyPhase phase(comm, "checking a checkpoint");
  const int64_t parts = CountParts(request.manifest);
  for (int64_t part = parts * before / helpers; part < parts * (before + 1) / helpers; ++part) {
    if (!CheckPart(request.folder, request.manifest, part).ok()) bad.push_back(part);
  }
  return bad;
}

// Every rank's part of a request. On rank 0 the error of the first part that is damaged.
absl::Status Check(Communicator& comm, const Request& request) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<int64_t> bad, CheckShare(comm, request));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(comm, absl::StrJoin(bad, ",")));
  for (const std::string& of_rank : all) {
    for (const absl::string_view word : absl::StrSplit(of_rank, ',', absl::SkipEmpty())) {
      int64_t part = 0;
      if (!absl::SimpleAtoi(word, &part)) return absl::InternalError("the number of a checkpoint's part is none");
      DISTILL_RETURN_IF_ERROR(CheckPart(request.folder, request.manifest, part));
    }
  }
  return absl::OkStatus();
}

absl::Status Follow(Communicator& comm) {
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const Request request, Share(comm, {}));
    if (request.folder.empty()) return absl::OkStatus();
    DISTILL_RETURN_IF_ERROR(Check(comm, request));
  }
}

}  // namespace

absl::StatusOr<Checkpoint> OpenTogether(Communicator& comm,
                                        absl::FunctionRef<absl::StatusOr<Checkpoint>(CheckParts check)> open) {
  absl::StatusOr<Checkpoint> opened = Checkpoint();
  absl::Status mine;
  if (comm.rank() == 0) {
    const BusyPhase phase(comm, "reading a checkpoint");
    opened = open([&](const std::string& folder, const CheckpointManifest& manifest) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const Request request, Share(comm, {folder, IdentityOf(folder, manifest), manifest}));
      return Check(comm, request);
    });
    mine = opened.status();
    const absl::Status told = Share(comm, {}).status();
    if (mine.ok()) mine = told;
  } else {
    mine = Follow(comm);
  }
  DISTILL_RETURN_IF_ERROR(Agree(comm, mine));
  return opened;
}

}  // namespace distill
