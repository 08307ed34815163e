// Which of a host's network cards a rank uses: those nearest to its GPU, or to its cores where it has none, divided
// between the ranks to which the same ones are nearest. So the ranks of a host together use all that are near any of
// them, and none opens them all: an endpoint of efa's pins some 70 MB. Internal to the library.
//
//   P4d: 8 GPUs, 4 cards, one behind the PCI switch of each 2 GPUs: 1 card a rank, which 2 ranks share
//   P5:  8 GPUs, 32 cards, 4 behind the switch of each GPU: 4 cards a rank; so, too, 8 ranks without GPUs, 4 a NUMA
//   node
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace distill {

// Where a rank works.
struct RankSpot {
  std::string gpu;         // its PCI address, "0000:10:1c.0"; empty: it has none
  std::vector<int> cores;  // the kernel's numbers; empty: any. Of no meaning beside a GPU
};

// From a rank to each of the cards, which are PCI addresses; nearer ones have smaller numbers. Of a GPU: how far up the
// PCI tree the switch is that leads to the card, and beyond the tree whether the card is at the same NUMA node. Of
// cores: whether the card is at a NUMA node of theirs. All are equally far where nothing is known of the rank; a card
// of which nothing is known is as far as another node's from a GPU, and near to any cores. `sysfs`: "/sys" but for
// tests.
std::vector<int> CardDistances(const RankSpot& rank, const std::vector<std::string>& cards, const std::string& sysfs);

// A pure function: the cards of the rank `self`, in their order, given the distances from every rank of the host to
// every card. Ranks with the same nearest cards get equal runs of them, at most one more than another; where there are
// fewer cards than ranks, each rank one, which several share.
std::vector<size_t> ChooseRails(const std::vector<std::vector<int>>& distances, size_t self);

}  // namespace distill
