#include "libdistill/comm/agree.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// "learning_rate = 1e-4", or "nothing" for a rank that has fewer fields.
std::string Entry(const std::vector<std::string>& flat, size_t i) {
  return i + 1 < flat.size() ? absl::StrCat(flat[i], " = ", flat[i + 1]) : "nothing";
}

}  // namespace

// The lengths first, then the texts, padded to the longest.
absl::StatusOr<std::vector<std::string>> GatherTextsBy(int world_size, const std::string& mine, GatherElements gather) {
  const size_t ranks = static_cast<size_t>(world_size);
  std::vector<int64_t> lengths(ranks);
  const int64_t length = static_cast<int64_t>(mine.size());
  DISTILL_RETURN_IF_ERROR(gather(&length, lengths.data(), 1, DType::kInt64));
  const size_t longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded = mine;
  padded.resize(longest);
  std::string all(ranks * longest, '\0');
  DISTILL_RETURN_IF_ERROR(gather(padded.data(), all.data(), static_cast<int64_t>(longest), DType::kUInt8));
  std::vector<std::string> texts(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    texts[rank] = all.substr(rank * longest, static_cast<size_t>(lengths[rank]));
  }
  return texts;
}

absl::StatusOr<std::vector<std::string>> GatherTexts(Communicator& comm, const std::string& mine) {
  return GatherTextsBy(comm.world_size(), mine, [&comm](const void* in, void* out, int64_t count, DType dtype) {
    return comm.AllGather(in, out, count, dtype);
  });
}

absl::StatusOr<std::vector<std::string>> GatherBytes(Communicator& comm, const std::string& mine) {
  const int64_t size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<size_t>(comm.world_size()));
  DISTILL_RETURN_IF_ERROR(comm.AllGather(&size, sizes.data(), 1, DType::kInt64));
  std::vector<std::string> all;
  if (comm.rank() != 0) {
    if (size > 0) DISTILL_RETURN_IF_ERROR(comm.Send(mine.data(), size, DType::kUInt8, /*peer=*/0));
    return all;
  }
  all.push_back(mine);
  for (int rank = 1; rank < comm.world_size(); ++rank) {
    all.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(rank)]), '\0');
    if (all.back().empty()) continue;
    DISTILL_RETURN_IF_ERROR(
        comm.Receive(all.back().data(), static_cast<int64_t>(all.back().size()), DType::kUInt8, rank));
  }
  return all;
}

absl::StatusOr<std::string> BroadcastBytes(Communicator& comm, std::string bytes) {
  int64_t size = static_cast<int64_t>(bytes.size());
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(&size, 1, DType::kInt64, 0));
  bytes.resize(static_cast<size_t>(size));
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(bytes.data(), size, DType::kUInt8, 0));
  return bytes;
}

absl::Status Agree(Communicator& comm, const absl::Status& mine) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           GatherTexts(comm, mine.ok() ? "" : EncodeStatus(mine)));
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const std::string& text = texts[static_cast<size_t>(rank)];
    if (text.empty()) continue;
    return rank == comm.rank() ? mine : Annotate(DecodeStatus(text), comm.Describe(rank));
  }
  return absl::OkStatus();
}

absl::Status RequireSameOnAllRanks(Communicator& comm, const std::vector<std::pair<std::string, std::string>>& fields) {
  std::vector<std::string> flat;
  for (const auto& [name, value] : fields) flat.insert(flat.end(), {name, value});
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherTexts(comm, PackStrings(flat)));
  std::vector<std::vector<std::string>> all(texts.size());
  size_t longest = 0;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    DISTILL_ASSIGN_OR_RETURN(all[rank], UnpackStrings(texts[rank]));
    longest = std::max(longest, all[rank].size());
  }
  for (size_t i = 0; i < longest; i += 2) {
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (Entry(all[rank], i) == Entry(all[0], i)) continue;
      const std::string& name = i < all[0].size() ? all[0][i] : all[rank][i];
      return absl::FailedPreconditionError(absl::StrCat(name, " differs between ranks: ", comm.Describe(0), " has ",
                                                        Entry(all[0], i), ", ", comm.Describe(static_cast<int>(rank)),
                                                        " has ", Entry(all[rank], i)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> UnionOfNames(Communicator& comm, const std::vector<std::string>& mine) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherTexts(comm, absl::StrJoin(mine, "\n")));
  std::set<std::string> names;
  for (const std::string& text : texts) {
    for (const absl::string_view name : absl::StrSplit(text, '\n', absl::SkipEmpty())) names.emplace(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace distill
