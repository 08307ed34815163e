// Token samples in one file, from which any of them can be read by itself (docs/formats.md, "Tokens").
//
//   TokenShardWriter writer;
//   writer.Add(sample);
//   DISTILL_RETURN_IF_ERROR(writer.Write("00000.tokens", notes));
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const TokenShard> shard, TokenShard::Open("00000.tokens"));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/data/sample.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/store/file_bytes.h"

namespace distill {

class TokenShardWriter {
 public:
  void Add(const TokenSample& sample);
  int64_t size() const { return static_cast<int64_t>(sums_.size()); }
  size_t bytes() const { return data_.size(); }
  // The file, of any store, appears as a whole; the writer is empty then. `notes`: what else is to be kept with the
  // samples. The errors of CreateFile.
  [[nodiscard]] absl::Status Write(const std::string& path, const std::string& notes);

 private:
  std::string data_;
  std::vector<uint64_t> begins_ = {0};
  std::vector<uint64_t> sums_;
};

// Any thread may read.
class TokenShard {
 public:
  // A local file is mapped; of another store's, the index alone is read. DataLoss: it is damaged, or no such file.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const TokenShard>> Open(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(sums_.size()); }
  // Both want an `index` from 0 to size() - 1.
  int64_t LengthOf(int64_t index) const { return static_cast<int64_t>((begins_[index + 1] - begins_[index]) / 5); }
  // Its tensors, as token_dataset.h says. DataLoss: its bytes are not those that were written.
  [[nodiscard]] absl::StatusOr<Sample> Read(int64_t index, int64_t id) const;
  const std::string& notes() const { return notes_; }

 private:
  [[nodiscard]] absl::Status Init();

  std::shared_ptr<const FileBytes> file_;
  FileSlice index_;  // where the next two are
  absl::Span<const uint64_t> begins_, sums_;
  uint64_t data_begin_ = 0;
  std::string notes_;
};

}  // namespace distill
