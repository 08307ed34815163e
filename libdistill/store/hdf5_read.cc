#include "libdistill/store/hdf5_read.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr size_t kChunksAtATime = 64;
constexpr int64_t kRunBytes = 16 << 20, kGapBytes = 256 << 10;

std::string AsText(const std::vector<int64_t>& numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

// Of neighbouring chunks that one request fetches.
struct Run {
  size_t begin = 0, end = 0;
  Hdf5Range range;
};

std::vector<Run> RunsOf(const std::vector<Hdf5Chunk>& chunks) {
  std::vector<Run> runs;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Hdf5Range& range = chunks[i].range;
    if (!runs.empty()) {
      Run& last = runs.back();
      const int64_t end = last.range.offset + last.range.size;
      if (range.size > 0 && range.offset >= end && range.offset - end <= kGapBytes &&
          range.offset + range.size - last.range.offset <= kRunBytes && last.range.size > 0) {
        last.end = i + 1;
        last.range.size = range.offset + range.size - last.range.offset;
        continue;
      }
    }
    runs.push_back({i, i + 1, range});
  }
  return runs;
}

}  // namespace

absl::Status Hdf5BlockReader::Prepare(Hdf5Id file, const Hdf5Dataset& expected) {
  DISTILL_ASSIGN_OR_RETURN(const OpenedHdf5Dataset opened, OpenedHdf5Dataset::Open(file_, file, expected.name));
  dataset_ = opened.description();
  if (dataset_.shape != expected.shape || dataset_.type.name != expected.type.name ||
      dataset_.type.is_little_endian != expected.type.is_little_endian) {
    return absl::InvalidArgumentError("is another data set than the one that was found under this name");
  }
  element_bytes_ = opened.element_bytes();
  if (dataset_.type.kind == Hdf5Kind::kOther) {
    return absl::InvalidArgumentError(
        absl::StrCat("its elements are of type ", dataset_.type.name, "; numbers and strings are read"));
  }
  DISTILL_RETURN_IF_ERROR(CheckBlock());
  if (is_done_) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(fill_, opened.FillValue());
  if (opened.is_compact()) {
    DISTILL_ASSIGN_OR_RETURN(const std::string all, opened.ReadCompact());
    bytes_.assign(block_bytes_, '\0');
    CopyBlock(all, std::vector<int64_t>(count_.size(), 0), dataset_.shape);
    is_done_ = true;
  } else if (dataset_.chunk.empty()) {
    contiguous_ = opened.Offset();
    if (contiguous_ >= 0 && block_bytes_ > static_cast<size_t>(file_.size())) {
      return absl::DataLossError("it is larger than the file; fetch or write the file again");
    }
    bytes_.assign(block_bytes_, '\0');
  } else {
    DISTILL_ASSIGN_OR_RETURN(filters_, opened.Filters());
    chunk_bytes_ = element_bytes_;
    for (const int64_t size : dataset_.chunk) {
      if (size > options_.most_chunk_bytes / chunk_bytes_) {
        return absl::InvalidArgumentError(absl::StrCat("its chunks of ", AsText(dataset_.chunk),
                                                       " elements have more than ", options_.most_chunk_bytes,
                                                       " bytes: write smaller ones, by h5repack -l CHUNK=..."));
      }
      chunk_bytes_ *= size;
    }
    // Chunks that were never written take nothing in the file, and a damaged shape may have any number of them.
    int64_t chunks = 1;
    const int64_t most = file_.size() / 8 + 65536 / 16;
    for (size_t i = 0; i < count_.size() && chunks <= most; ++i) {
      const int64_t first = offset_[i] / dataset_.chunk[i], last = (offset_[i] + count_[i] - 1) / dataset_.chunk[i];
      chunks = last - first >= most ? most + 1 : chunks * (last - first + 1);
    }
    if (chunks > most) {
      return absl::DataLossError(absl::StrCat("the block of ", AsText(count_),
                                              " elements lies in more chunks than a file of ", file_.size(),
                                              " bytes holds"));
    }
    for (size_t i = 0; i < count_.size(); ++i) next_.push_back(offset_[i] - offset_[i] % dataset_.chunk[i]);
    bytes_.assign(block_bytes_, '\0');
    has_more_ = true;
  }
  return absl::OkStatus();
}

absl::Status Hdf5BlockReader::CheckBlock() {
  const std::vector<int64_t>& shape = dataset_.shape;
  bool is_within = offset_.size() == shape.size() && count_.size() == shape.size();
  int64_t bytes = element_bytes_;
  for (size_t i = 0; is_within && i < shape.size(); ++i) {
    is_within = offset_[i] >= 0 && count_[i] >= 0 && offset_[i] <= shape[i] && count_[i] <= shape[i] - offset_[i];
    is_done_ = is_done_ || count_[i] == 0;
  }
  if (!is_within) {
    return absl::OutOfRangeError(absl::StrCat("the block of ", AsText(count_), " elements at ", AsText(offset_),
                                              " does not lie in its shape ", AsText(shape)));
  }
  for (size_t i = 0; i < shape.size() && !is_done_; ++i) {
    if (count_[i] > options_.most_read_bytes / bytes) {
      return absl::InvalidArgumentError(absl::StrCat("the block of ", AsText(count_), " elements has more than ",
                                                     options_.most_read_bytes, " bytes: read it by parts"));
    }
    bytes *= count_[i];
  }
  block_bytes_ = is_done_ ? 0 : static_cast<size_t>(bytes);
  return absl::OkStatus();
}

absl::Status Hdf5BlockReader::FindChunks(Hdf5Id file, Hdf5Source& source) {
  chunks_.clear();
  if (dataset_.chunk.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const OpenedHdf5Dataset opened, OpenedHdf5Dataset::Open(file_, file, dataset_.name));
  // Filters make a chunk larger where they find nothing to save.
  const int64_t most = std::min<int64_t>(2 * chunk_bytes_ + 65536, source.file->size());
  while (has_more_ && chunks_.size() < kChunksAtATime) {
    DISTILL_RETURN_IF_ERROR(opened.FindChunk(source, next_, most, chunks_));
    has_more_ = AdvanceChunk();
  }
  return absl::OkStatus();
}

bool Hdf5BlockReader::AdvanceChunk() {
  for (size_t i = next_.size(); i > 0; --i) {
    const size_t d = i - 1;
    next_[d] += dataset_.chunk[d];
    if (next_[d] < offset_[d] + count_[d]) return true;
    next_[d] = offset_[d] - offset_[d] % dataset_.chunk[d];
  }
  return false;
}

absl::Status Hdf5BlockReader::ReadChunks() {
  if (dataset_.chunk.empty()) {
    is_done_ = true;
    return ReadContiguous();
  }
  std::sort(chunks_.begin(), chunks_.end(),
            [](const Hdf5Chunk& a, const Hdf5Chunk& b) { return a.range.offset < b.range.offset; });
  for (const Run& run : RunsOf(chunks_)) {
    std::string fetched(static_cast<size_t>(run.range.size), '\0');
    if (!fetched.empty()) {
      DISTILL_RETURN_IF_ERROR(file_.ReadAt(run.range.offset, absl::MakeSpan(&fetched[0], fetched.size())));
    }
    for (size_t i = run.begin; i < run.end; ++i) {
      const Hdf5Chunk& chunk = chunks_[i];
      std::string elements;
      if (chunk.range.size == 0) {
        for (int64_t at = 0; at < chunk_bytes_; at += element_bytes_) elements += fill_;
      } else {
        absl::StatusOr<std::string> undone =
            UndoFilters(filters_, chunk.skipped, element_bytes_, chunk_bytes_,
                        fetched.substr(static_cast<size_t>(chunk.range.offset - run.range.offset),
                                       static_cast<size_t>(chunk.range.size)));
        if (!undone.ok()) {
          return Annotate(undone.status(),
                          absl::StrCat("at ", AsText(chunk.origin), ", fetch or write the file again"));
        }
        elements = *std::move(undone);
      }
      CopyBlock(elements, chunk.origin, dataset_.chunk);
    }
  }
  is_done_ = !has_more_;
  return absl::OkStatus();
}

// Row by row; where the last dimensions are taken as a whole, their rows are one.
absl::Status Hdf5BlockReader::ReadContiguous() {
  if (contiguous_ < 0) {
    for (size_t at = 0; at < bytes_.size(); at += fill_.size()) std::copy(fill_.begin(), fill_.end(), &bytes_[at]);
    return absl::OkStatus();
  }
  const std::vector<int64_t>& shape = dataset_.shape;
  size_t whole = shape.size();  // dimensions from here on are taken as a whole, and the one before it by parts
  int64_t run = element_bytes_;
  while (whole > 0 && count_[whole - 1] == shape[whole - 1]) run *= shape[--whole];
  if (whole > 0) run *= count_[--whole];
  std::vector<int64_t> at = offset_;
  for (size_t done = 0; done < bytes_.size(); done += static_cast<size_t>(run)) {
    int64_t element = 0;
    for (size_t i = 0; i < shape.size(); ++i) element = element * shape[i] + at[i];
    const bool is_number = element <= (INT64_MAX - contiguous_) / element_bytes_;
    const int64_t begin = is_number ? contiguous_ + element * element_bytes_ : -1;
    if (!CheckRange(file_, begin, static_cast<size_t>(run)).ok()) {
      return absl::DataLossError("it lies outside of the file; fetch or write the file again");
    }
    DISTILL_RETURN_IF_ERROR(file_.ReadAt(begin, absl::MakeSpan(&bytes_[done], static_cast<size_t>(run))));
    for (size_t i = whole; i > 0; --i) {
      if (++at[i - 1] < offset_[i - 1] + count_[i - 1]) break;
      at[i - 1] = offset_[i - 1];
    }
  }
  return absl::OkStatus();
}

// What `from`, elements of `shape` that begin at `origin` of the data set, has of the block.
void Hdf5BlockReader::CopyBlock(const std::string& from, const std::vector<int64_t>& origin,
                                const std::vector<int64_t>& shape) {
  const size_t rank = shape.size();
  if (rank == 0) {
    bytes_ = from;
    return;
  }
  std::vector<int64_t> begin(rank), end(rank);
  for (size_t i = 0; i < rank; ++i) {
    begin[i] = std::max(offset_[i], origin[i]);
    end[i] = std::min(offset_[i] + count_[i], origin[i] + shape[i]);
    if (begin[i] >= end[i]) return;
  }
  const size_t run = static_cast<size_t>((end[rank - 1] - begin[rank - 1]) * element_bytes_);
  for (std::vector<int64_t> at = begin;;) {
    int64_t source = 0, target = 0;
    for (size_t i = 0; i < rank; ++i) {
      source = source * shape[i] + at[i] - origin[i];
      target = target * count_[i] + at[i] - offset_[i];
    }
    std::memcpy(&bytes_[static_cast<size_t>(target * element_bytes_)],
                from.data() + static_cast<size_t>(source * element_bytes_), run);
    size_t i = rank - 1;
    for (; i > 0; --i) {
      if (++at[i - 1] < end[i - 1]) break;
      at[i - 1] = begin[i - 1];
    }
    if (i == 0) return;
  }
}

}  // namespace distill
