// Several sources in one data set, and in which shares an epoch takes their samples.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Dataset> all,
//                            MixSources({chats, web}, {.weights = {0.7, 0.3}, .stopping = Stopping::kAllExhausted}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"
#include "libdistill/data/dataset.h"

namespace distill {

// When an epoch of sources with weights ends; as interleave_datasets of the datasets library has it.
enum class Stopping {
  kFirstExhausted,  // when a source has no samples left: of the others a part is taken, another one each epoch
  kAllExhausted,    // when each sample came at least once: those of the other sources come several times
};

constexpr EnumNames<Stopping, 2> NamesOf(Stopping) {
  return {{{"first_exhausted", Stopping::kFirstExhausted}, {"all_exhausted", Stopping::kAllExhausted}}};
}

struct MixOptions {
  std::vector<double> weights = {};  // one a source, above 0, of any sum; none: each sample comes once an epoch
  Stopping stopping = Stopping::kFirstExhausted;
};

// How many samples each source has, and how many of them an epoch takes.
struct Mixture {
  std::vector<int64_t> sizes;
  std::vector<int64_t> taken;         // less than the size, or more: then samples come again
  std::vector<int64_t> windows = {};  // of each source (Dataset::window); empty: no source is streamed

  // "1000 of 5000, 3000 of 1000 in windows of 500", by which jobs are told apart.
  std::string Describe() const;
};

// The samples of all sources, one source after the other: ids count through. An epoch takes samples as `options` say
// (Dataset::mixture, which is there without weights, too, where a source is streamed). InvalidArgument: no source, an
// empty one, weights that are not one a source or not above 0.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> MixSources(std::vector<std::shared_ptr<const Dataset>> sources,
                                                                  const MixOptions& options);

// `count` of a data set's samples, evenly over all of it; all of them where it has no more.
std::shared_ptr<Dataset> SpreadSamples(std::shared_ptr<const Dataset> dataset, int64_t count);

// The samples of a data set, in two parts: which of them a sample is in depends on its id alone, so that it stays there
// when the data set grows. `share`, from 0 to 1: of the second part, about.
struct SplitDataset {
  std::shared_ptr<Dataset> first, second;
};
SplitDataset SplitByIds(std::shared_ptr<const Dataset> dataset, double share);

}  // namespace distill
