#include "libdistill/data/token_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/file_writer.h"

namespace distill {
namespace {

// A file is this header; begins, one more than samples; a hash of each sample; the samples; the notes. A sample is its
// ids, 4 bytes each, then its marks, a byte each, then up to 3 zeros.
struct Header {
  char magic[8] = {'D', 'S', 'T', 'T', 'O', 'K', '0', '1'};
  uint64_t samples = 0;
  uint64_t data_bytes = 0;
  uint64_t notes_bytes = 0;
  uint64_t index_hash = 0;  // of begins and hashes
  uint64_t notes_hash = 0;
  uint64_t unused[2] = {};
};
static_assert(sizeof(Header) == 64);

absl::string_view BytesOf(const std::vector<uint64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint64_t)};
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": is damaged (", what, "): remove its folder, and make it again"));
}

}  // namespace

void TokenShardWriter::Add(const TokenSample& sample) {
  const size_t begin = data_.size();
  data_.append(reinterpret_cast<const char*>(sample.ids.data()), sample.ids.size() * sizeof(int32_t));
  data_.append(reinterpret_cast<const char*>(sample.is_target.data()), sample.is_target.size());
  data_.resize((data_.size() + 3) / 4 * 4);
  begins_.push_back(data_.size());
  sums_.push_back(HashOfBytes(absl::string_view(data_).substr(begin)));
}

absl::Status TokenShardWriter::Write(const std::string& path, const std::string& notes) {
  const std::string index = absl::StrCat(BytesOf(begins_), BytesOf(sums_));
  Header header;
  header.samples = sums_.size();
  header.data_bytes = data_.size();
  header.notes_bytes = notes.size();
  header.index_hash = HashOfBytes(index);
  header.notes_hash = HashOfBytes(notes);
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append({reinterpret_cast<const char*>(&header), sizeof(header)}));
  for (const absl::string_view part : {absl::string_view(index), absl::string_view(data_), absl::string_view(notes)}) {
    DISTILL_RETURN_IF_ERROR(file->Append(part));
  }
  DISTILL_RETURN_IF_ERROR(file->Commit());
  data_.clear();
  begins_ = {0};
  sums_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TokenShard>> TokenShard::Open(const std::string& path) {
  auto shard = std::make_shared<TokenShard>();
  DISTILL_ASSIGN_OR_RETURN(shard->file_, FileBytes::Open(path));
  DISTILL_RETURN_IF_ERROR(shard->Init());
  return shard;
}

absl::Status TokenShard::Init() {
  const std::string& path = file_->path();
  const auto file_size = static_cast<uint64_t>(file_->size());
  if (file_size < sizeof(Header)) return Damaged(path, "it is too short");
  DISTILL_ASSIGN_OR_RETURN(const FileSlice first, file_->Read(0, sizeof(Header)));
  Header header;
  std::memcpy(&header, first.bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, Header().magic, sizeof(header.magic)) != 0) {
    return absl::DataLossError(absl::StrCat(path, ": holds no tokens of this version of libdistill"));
  }
  // Each part is below the file's size, so that their sum is no overflow.
  if (header.samples > file_size / 16 || header.data_bytes > file_size || header.notes_bytes > file_size ||
      sizeof(Header) + 16 * header.samples + 8 + header.data_bytes + header.notes_bytes != file_size) {
    return Damaged(path, "its size is not what it says");
  }
  const size_t index_bytes = 16 * header.samples + 8;
  DISTILL_ASSIGN_OR_RETURN(index_, file_->Read(sizeof(Header), index_bytes));
  if (HashOfBytes(index_.bytes) != header.index_hash) return Damaged(path, "its index");
  const auto* values = reinterpret_cast<const uint64_t*>(index_.bytes.data());
  begins_ = {values, header.samples + 1};
  sums_ = {values + header.samples + 1, header.samples};
  if (begins_.front() != 0 || begins_.back() != header.data_bytes || !std::is_sorted(begins_.begin(), begins_.end()) ||
      std::any_of(begins_.begin(), begins_.end(), [](uint64_t begin) { return begin % 4 != 0; })) {
    return Damaged(path, "its index");
  }
  data_begin_ = sizeof(Header) + index_bytes;
  DISTILL_ASSIGN_OR_RETURN(const FileSlice notes, file_->Read(data_begin_ + header.data_bytes, header.notes_bytes));
  notes_ = std::string(notes.bytes);
  return HashOfBytes(notes_) == header.notes_hash ? absl::OkStatus() : Damaged(path, "its notes");
}

absl::StatusOr<Sample> TokenShard::Read(int64_t index, int64_t id) const {
  const uint64_t size = begins_[index + 1] - begins_[index];
  DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, file_->Read(data_begin_ + begins_[index], size));
  if (HashOfBytes(slice.bytes) != sums_[index]) return Damaged(file_->path(), absl::StrCat("sample ", index));
  const int64_t length = LengthOf(index);
  const char* const ids = slice.bytes.data();
  const char* const marks = ids + length * sizeof(int32_t);
  return Sample{.id = id,
                .tensors = {{"ids", HostTensor(DType::kInt32, {length}, {slice.owner, ids})},
                            {"is_target", HostTensor(DType::kUInt8, {length}, {slice.owner, marks})}}};
}

}  // namespace distill
