#include "libdistill/comm/host_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace distill {

HostLayout::HostLayout(const std::vector<std::string>& host_ids) {
  std::vector<std::string> known;
  for (size_t rank = 0; rank < host_ids.size(); ++rank) {
    const size_t host = static_cast<size_t>(std::find(known.begin(), known.end(), host_ids[rank]) - known.begin());
    if (host == known.size()) {
      known.push_back(host_ids[rank]);
      ranks_.emplace_back();
    }
    host_.push_back(static_cast<int>(host));
    local_rank_.push_back(static_cast<int>(ranks_[host].size()));
    ranks_[host].push_back(static_cast<int>(rank));
  }
}

std::vector<int> HostLayout::RanksAt(int local_rank) const {
  std::vector<int> found;
  for (const std::vector<int>& ranks : ranks_) {
    if (static_cast<size_t>(local_rank) < ranks.size()) found.push_back(ranks[static_cast<size_t>(local_rank)]);
  }
  return found;
}

int HostLayout::fewest() const {
  int count = ranks();
  for (const std::vector<int>& ranks : ranks_) count = std::min(count, static_cast<int>(ranks.size()));
  return count;
}

int HostLayout::most() const {
  int count = 0;
  for (const std::vector<int>& ranks : ranks_) count = std::max(count, static_cast<int>(ranks.size()));
  return count;
}

std::string HostLayout::Describe() const {
  if (fewest() == most()) return absl::StrCat(hosts(), " hosts x ", most(), most() == 1 ? " rank" : " ranks");
  std::string text = absl::StrCat(hosts(), " hosts of ");
  for (int host = 0; host < hosts(); ++host) {
    absl::StrAppend(&text, host == 0 ? "" : host + 1 == hosts() ? " and " : ", ", Count(host));
  }
  return absl::StrCat(text, " ranks");
}

}  // namespace distill
