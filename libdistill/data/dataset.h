// The contract of every data set: how many samples, how long one is, what is in it. Samples may live in memory, in a
// mapped file or in a store far away; nothing here asks for all of them at once.
//
//   class Pictures : public Dataset { ... };                        // one of your own
//   auto points = MakeDataset({{.tensors = {{"x", HostTensor(std::vector<float>{1, 2})}}}});  // or in memory
//
// Samples are numbered from 0 to size() - 1, and never change. Any function may be called from several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/sample.h"

namespace distill {

struct Mixture;

class Dataset {
 public:
  virtual ~Dataset() = default;

  // Blocks for nothing.
  virtual int64_t size() const = 0;
  // How long the sample is, in the unit in which rows are packed: tokens of text, frames of features; 1 where there is
  // no such thing. At least 1. Asked for only by who packs, once for each sample.
  [[nodiscard]] virtual absl::StatusOr<int64_t> Length(int64_t index) const = 0;
  // The sample, whose id is `index`. May block while it is fetched; the errors are those of where it lives.
  [[nodiscard]] virtual absl::StatusOr<Sample> Read(int64_t index) const = 0;
  // A text that is the same wherever the samples are the same, and another where any of them differs: the number of
  // samples with a checksum of them, or the version of a file in a store. Ranks compare it before the first step.
  [[nodiscard]] virtual absl::StatusOr<std::string> Fingerprint() const = 0;
  // Memory of this process that samples take now, for who tells where memory went; 0: they are in files, mapped or not.
  virtual int64_t MemoryBytes() const { return 0; }
  // Of which of its samples an epoch consists (mixture.h); null: of each one, once.
  virtual const Mixture* mixture() const { return nullptr; }
  // 0: any sample can be read as cheaply as any other. Otherwise samples are streamed, in the order of their ids: a
  // Read is cheap only where its id is at most twice so many below the highest one that was read in this pass. An
  // epoch's shuffle then stays within windows of so many samples (EpochOrder). The same as long as the data set is.
  virtual int64_t window() const { return 0; }
};

// OutOfRange: there is no such sample. For implementations of Read and Length.
[[nodiscard]] absl::Status CheckIndex(const Dataset& dataset, int64_t index);

// For a data set that has no cheaper fingerprint: a hash of names, types, shapes and bytes of all samples, one after
// the other.
[[nodiscard]] absl::StatusOr<std::string> ChecksumOfSamples(const Dataset& dataset);

// Samples in memory, whose ids become their positions. Their length is the first dimension of the tensor `length_of`;
// where that is "", 1.
std::shared_ptr<Dataset> MakeDataset(std::vector<Sample> samples, std::string length_of = "");

}  // namespace distill
