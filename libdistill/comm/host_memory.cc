#include "libdistill/comm/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/host_id.h"

namespace distill {
namespace {

constexpr int kMadvisePopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; older headers do not name it
constexpr int64_t kPage = 4096;

// The ranks that share one limit.
struct Sharers {
  const std::string* host = nullptr;
  const MemoryLimit* limit = nullptr;
  uint64_t left_bytes = 0;  // the least that any of them saw
  uint64_t asked_bytes = 0;
  int ranks = 0;
};

Sharers& FindSharers(std::vector<Sharers>& all, const MemoryRequest& request, const MemoryLimit& limit) {
  for (Sharers& sharers : all) {
    if (sharers.limit->id == limit.id) return sharers;
  }
  return all.emplace_back(Sharers{&request.host, &limit, limit.left_bytes});
}

}  // namespace

std::string MemoryRequest::Encode() const {
  std::vector<std::string> fields = {host, absl::StrCat(bytes)};
  for (const MemoryLimit& limit : limits) {
    fields.insert(fields.end(), {limit.name, limit.id, absl::StrCat(limit.left_bytes)});
  }
  return PackStrings(fields);
}

absl::StatusOr<MemoryRequest> MemoryRequest::Decode(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(text));
  MemoryRequest request;
  bool good = fields.size() >= 2 && fields.size() % 3 == 2 && absl::SimpleAtoi(fields[1], &request.bytes);
  for (size_t i = 2; good && i < fields.size(); i += 3) {
    MemoryLimit& limit = request.limits.emplace_back(MemoryLimit{fields[i], fields[i + 1], 0});
    good = absl::SimpleAtoi(fields[i + 2], &limit.left_bytes);
  }
  if (!good) return absl::InternalError("a rank's request for memory cannot be read");
  request.host = fields[0];
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

// A page that is written is there; it is zero as it was. EINVAL: this kernel knows no call for it, or not for such
// memory.
absl::Status TakePages(const CommMemory& memory) {
  int error = 0;
  do {
    error = madvise(memory.data(), static_cast<size_t>(memory.bytes()), kMadvisePopulateWrite) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  if (error == 0) return absl::OkStatus();
  if (error != EINVAL) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "host ", HostName(), " cannot give the ", memory.bytes(),
        " bytes that a rank has allocated: ", std::strerror(error),
        "; use fewer ranks a host, a smaller model, a larger /dev/shm, or end what ", "else uses its memory"));
  }
  for (int64_t at = 0; at < memory.bytes(); at += kPage) {
    const_cast<volatile char*>(memory.data())[at] = 0;
  }
  return absl::OkStatus();
}

}  // namespace distill
