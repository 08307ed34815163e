// Which ranks of a job share a host. Internal to comm/.
#pragma once

#include <string>
#include <vector>

namespace distill {

class HostLayout {
 public:
  HostLayout() = default;
  // `host_ids`: of every rank; equal for two that share a host. Hosts are counted in the order of their first ranks.
  explicit HostLayout(const std::vector<std::string>& host_ids);

  int ranks() const { return static_cast<int>(host_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  int HostOf(int rank) const { return host_[static_cast<size_t>(rank)]; }
  // The rank's place among those of its host, which stand in the order of their ranks.
  int LocalRankOf(int rank) const { return local_rank_[static_cast<size_t>(rank)]; }
  const std::vector<int>& RanksOn(int host) const { return ranks_[static_cast<size_t>(host)]; }
  int Count(int host) const { return static_cast<int>(RanksOn(host).size()); }
  // The ranks with this place on their hosts, in the order of the hosts that have one.
  std::vector<int> RanksAt(int local_rank) const;
  // The smallest and the largest number of ranks on a host.
  int fewest() const;
  int most() const;
  // "2 hosts x 4 ranks", or "3 hosts of 2, 2 and 1 ranks".
  std::string Describe() const;

 private:
  std::vector<int> host_;
  std::vector<int> local_rank_;
  std::vector<std::vector<int>> ranks_;
};

}  // namespace distill
