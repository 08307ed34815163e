// Trials of HDF5 files as samples: each group of a file that holds the wanted data sets is a trial, as neural
// recordings are kept: /trial_0007/input_features float32 [T, 512], /trial_0007/seq_class_ids int32, and attributes.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Hdf5Trials> trials,
//                            Hdf5Trials::Open({"s3://bucket/t15.2023.08.11/data_train.hdf5", ...},
//                                             {.datasets = {"input_features", "seq_class_ids"},
//                                              .attributes = {"seq_len", "sentence_label"}}));
//   DISTILL_ASSIGN_OR_RETURN(const Sample sample, trials->Read(17));      // the 18th trial of all files
//   const int64_t day = trials->file_of(17);                             // from which file it comes
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/store/hdf5_file.h"

namespace distill {

struct Hdf5TrialsOptions {
  // Each becomes a tensor of its name: floats float32 (float64 stays), int8 to int32 and uint16 int32, uint8 uint8,
  // other integers int64. The first says by its first dimension how long the trial is.
  std::vector<std::string> datasets;
  // Of the group: integers become int64, floats float64, texts the uint8 of their UTF-8. One that a trial lacks is left
  // out.
  std::vector<std::string> attributes = {};
  std::string prefix = "";     // of the groups that are trials; others are left alone
  int64_t cache_blocks = 256;  // of 1 MiB, of all files together
};

class Hdf5Trials : public Dataset {
 public:
  // Lists the trials of each file, in the order of files and then of names; reads none. InvalidArgument: a file has no
  // trial. Errors of Hdf5File::Open.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<Hdf5Trials>> Open(const std::vector<std::string>& files,
                                                                        Hdf5TrialsOptions options);

  int64_t size() const override { return static_cast<int64_t>(trials_.size()); }
  // Reads the trial's description.
  absl::StatusOr<int64_t> Length(int64_t index) const override;
  absl::StatusOr<Sample> Read(int64_t index) const override;
  // Of names, sizes, and what the first and the last 64 KiB of each file hold.
  absl::StatusOr<std::string> Fingerprint() const override;

  // Of those that were opened; `index` is a trial's.
  int64_t file_of(int64_t index) const { return trials_[static_cast<size_t>(index)].file; }
  const std::string& name_of(int64_t index) const { return trials_[static_cast<size_t>(index)].name; }

 private:
  struct Trial {
    int64_t file = 0;
    std::string name;
    int64_t begin = -1, end = -1;  // where its bytes lie, nearly
  };

  explicit Hdf5Trials(Hdf5TrialsOptions options) : options_(std::move(options)) {}
  absl::Status AddFile(std::shared_ptr<const Hdf5File> file);
  void Prefetch(const Trial& trial) const;

  const Hdf5TrialsOptions options_;
  std::vector<std::shared_ptr<const Hdf5File>> files_;
  std::vector<Trial> trials_;
};

}  // namespace distill
