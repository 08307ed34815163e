#include "libdistill/comm/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

constexpr int kMadvisePopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; older headers do not name it
constexpr int64_t kPage = 4096;

// The ranks that share one limit.
struct Sharers {
  const std::string* host = nullptr;
  const std::string* host_id = nullptr;
  const MemoryLimit* limit = nullptr;
  uint64_t left_bytes = 0;  // the least that any of them saw
  uint64_t asked_bytes = 0;
  int ranks = 0;
};

Sharers& FindSharers(std::vector<Sharers>& all, const MemoryRequest& request, const MemoryLimit& limit) {
  for (Sharers& sharers : all) {
    if (*sharers.host_id == request.host_id && sharers.limit->id == limit.id) return sharers;
  }
  return all.emplace_back(Sharers{&request.host, &request.host_id, &limit, limit.left_bytes});
}

}  // namespace

std::string MemoryRequest::Encode() const {
  std::vector<std::string> fields = {host, host_id, absl::StrCat(bytes)};
  for (const MemoryLimit& limit : limits) {
    fields.insert(fields.end(), {limit.name, limit.id, absl::StrCat(limit.left_bytes)});
  }
  return PackStrings(fields);
}

absl::StatusOr<MemoryRequest> MemoryRequest::Decode(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(text));
  MemoryRequest request;
  bool good = fields.size() >= 3 && fields.size() % 3 == 0 && absl::SimpleAtoi(fields[2], &request.bytes);
  for (size_t i = 3; good && i < fields.size(); i += 3) {
    MemoryLimit& limit = request.limits.emplace_back(MemoryLimit{fields[i], fields[i + 1], 0});
    good = absl::SimpleAtoi(fields[i + 2], &limit.left_bytes);
  }
  if (!good) return absl::InternalError("a rank's request for memory cannot be read");
  request.host = fields[0];
  request.host_id = fields[1];
  return request;
}

absl::Status CheckHostMemory(const std::vector<MemoryRequest>& requests) {
  std::vector<Sharers> all;
  for (const MemoryRequest& request : requests) {
    for (const MemoryLimit& limit : request.limits) {
      Sharers& sharers = FindSharers(all, request, limit);
      const auto bytes = static_cast<uint64_t>(request.bytes);
      const uint64_t most = std::numeric_limits<uint64_t>::max() - bytes;
      sharers.asked_bytes = std::min(sharers.asked_bytes, most) + bytes;
      sharers.left_bytes = std::min(sharers.left_bytes, limit.left_bytes);
      ++sharers.ranks;
    }
  }
  for (const Sharers& sharers : all) {
    if (sharers.asked_bytes <= sharers.left_bytes) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("host ", *sharers.host, " has not that much memory: ", sharers.ranks,
                     sharers.ranks == 1 ? " rank asks for " : " ranks ask for ", sharers.asked_bytes, " bytes in all, ",
                     sharers.left_bytes, " are available (limited by ", sharers.limit->name,
                     "); use fewer ranks a host, a smaller model, or end what else uses its memory"));
  }
  return absl::OkStatus();
}

// A page that is written is there; it is zero as it was. Older kernels know no call for it.
void TakePages(const CommMemory& memory) {
  if (madvise(memory.data(), static_cast<size_t>(memory.bytes()), kMadvisePopulateWrite) == 0) return;
  for (int64_t at = 0; at < memory.bytes(); at += kPage) {
    const_cast<volatile char*>(memory.data())[at] = 0;
  }
}

}  // namespace distill
