#include "libdistill/store/line_index.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_lock.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// A file is this header, `begins` and `blanks`, 8 bytes each (docs/formats.md, "Indices of lines").
struct Header {
  char magic[8] = {'D', 'S', 'T', 'L', 'I', 'N', '0', '1'};
  uint64_t file_bytes = 0;
  uint64_t rows = 0;
  uint64_t blanks = 0;
  uint64_t hash = 0;  // of all that follows
};
static_assert(sizeof(Header) == 40);

struct Lists {
  std::vector<uint64_t> begins, blanks;
};

absl::string_view BytesOf(absl::Span<const uint64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint64_t)};
}

bool HasContent(absl::string_view text) { return text.find_first_not_of(" \t\r") != absl::string_view::npos; }

// What a part of the file says of its lines, without what lies before and behind it.
struct Part {
  std::vector<uint64_t> newlines;    // where they are in the file
  std::vector<uint8_t> has_content;  // of what lies before each newline, as far as it is in the part
  bool rest_has_content = false;     // behind the last newline
};

absl::StatusOr<Part> ReadPart(const ReadableFile& file, int64_t begin, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  DISTILL_RETURN_IF_ERROR(file.ReadAt(begin, absl::MakeSpan(bytes)));
  Part part;
  absl::string_view rest = bytes;
  while (const void* newline = std::memchr(rest.data(), '\n', rest.size())) {
    const auto length = static_cast<size_t>(static_cast<const char*>(newline) - rest.data());
    part.newlines.push_back(static_cast<uint64_t>(begin + (rest.data() - bytes.data())) + length);
    part.has_content.push_back(HasContent(rest.substr(0, length)));
    rest.remove_prefix(length + 1);
  }
  part.rest_has_content = HasContent(rest);
  return part;
}

std::string NameOf(const ReadableFile& file) {
  const std::string path = IsRemote(file.path()) ? file.path() : CanonicalPath(file.path());
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return absl::StrFormat("%s-%016x.lines", name.substr(0, 100),
                         HashOfBytes(absl::StrCat(path, "\n", file.size(), "\n", file.version())));
}

}  // namespace

// Parts in order, joined to lines.
class LineIndex::Scan {
 public:
  void Add(const Part& part) {
    for (size_t i = 0; i < part.newlines.size(); ++i) {
      End(part.has_content[i] != 0);
      begin_ = part.newlines[i] + 1;
    }
    has_content_ = has_content_ || part.rest_has_content;
  }
  Lists Finish() {
    if (has_content_) lists_.begins.push_back(begin_);
    return std::move(lists_);
  }

 private:
  void End(bool has_content) {
    if (std::exchange(has_content_, false) || has_content) {
      lists_.begins.push_back(begin_);
    } else {
      lists_.blanks.push_back(lists_.begins.size());
    }
  }

  Lists lists_;
  uint64_t begin_ = 0;        // of the line that is not at its end
  bool has_content_ = false;  // in the parts before
};

absl::StatusOr<std::shared_ptr<LineIndex>> LineIndex::Make(const ReadableFile& file, const LineIndexOptions& options) {
  Scan scan;
  const auto threads = static_cast<size_t>(std::max<int64_t>(1, options.threads));
  std::vector<std::future<absl::StatusOr<Part>>> ahead;
  for (int64_t begin = 0; begin < file.size();) {
    ahead.clear();
    for (; begin < file.size() && ahead.size() < threads; begin += options.part_bytes) {
      const int64_t size = std::min(options.part_bytes, file.size() - begin);
      const auto read = [&file, begin, size] { return ReadPart(file, begin, size); };
      try {
        ahead.push_back(std::async(threads == 1 ? std::launch::deferred : std::launch::async, read));
      } catch (const std::system_error&) {  // no thread is to be had
        ahead.push_back(std::async(std::launch::deferred, read));
      }
    }
    for (auto& part : ahead) {
      DISTILL_ASSIGN_OR_RETURN(const Part read, part.get());
      scan.Add(read);
    }
  }
  std::shared_ptr<LineIndex> index(new LineIndex);
  index->file_bytes_ = file.size();
  const auto lists = std::make_shared<const Lists>(scan.Finish());
  index->Use(lists, lists->begins, lists->blanks);
  return index;
}

void LineIndex::Use(std::shared_ptr<const void> owner, absl::Span<const uint64_t> begins,
                    absl::Span<const uint64_t> blanks) {
  owner_ = std::move(owner);
  begins_ = begins;
  blanks_ = blanks;
  hash_ = HashOfBytes(absl::StrCat(HashOfBytes(BytesOf(begins)), " ", HashOfBytes(BytesOf(blanks))));
}

absl::Status LineIndex::Save(const std::string& path) const {
  Header header;
  header.file_bytes = static_cast<uint64_t>(file_bytes_);
  header.rows = begins_.size();
  header.blanks = blanks_.size();
  header.hash = hash_;
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append({reinterpret_cast<const char*>(&header), sizeof(header)}));
  DISTILL_RETURN_IF_ERROR(file->Append(BytesOf(begins_)));
  DISTILL_RETURN_IF_ERROR(file->Append(BytesOf(blanks_)));
  return file->Commit();
}

absl::StatusOr<std::shared_ptr<LineIndex>> LineIndex::Load(const std::string& path, int64_t file_bytes) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(path, ": is damaged"));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  const auto size = static_cast<uint64_t>(file->size());
  Header header;
  if (size < sizeof(header)) return damaged;
  DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, file->Read(0, file->size()));
  std::memcpy(&header, slice.bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, Header().magic, sizeof(header.magic)) != 0 || header.rows > size / 8 ||
      header.blanks > size / 8 || sizeof(header) + 8 * (header.rows + header.blanks) != size ||
      header.file_bytes != static_cast<uint64_t>(file_bytes)) {
    return damaged;
  }
  const auto* values = reinterpret_cast<const uint64_t*>(slice.bytes.data() + sizeof(header));
  std::shared_ptr<LineIndex> index(new LineIndex);
  index->file_bytes_ = file_bytes;
  index->Use(slice.owner, {values, header.rows}, {values + header.rows, header.blanks});
  if (index->hash_ != header.hash) return damaged;
  return index;
}

absl::StatusOr<std::shared_ptr<const LineIndex>> LineIndex::Open(const ReadableFile& file,
                                                                 const LineIndexOptions& options) {
  if (options.folder.empty()) return Make(file, options);
  const std::string path = JoinPath(options.folder, NameOf(file));
  if (FileExists(path)) {
    auto kept = Load(path, file.size());
    if (kept.ok()) return *std::move(kept);
  }
  absl::Status written = MakeFolder(options.folder);
  std::unique_ptr<FileLock> lock;
  if (written.ok()) {
    auto taken = FileLock::Take(path + ".lock", [&] {
      LogInfo(absl::StrCat(file.path(), ": waits until another process has made its index, ", path));
    });
    written = taken.status();
    if (taken.ok()) lock = *std::move(taken);
  }
  if (lock != nullptr && FileExists(path)) {  // another process made it meanwhile
    auto kept = Load(path, file.size());
    if (kept.ok()) return *std::move(kept);
  }
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<LineIndex> index, Make(file, options));
  if (lock != nullptr) written = index->Save(path);
  if (!written.ok()) {
    LogWarning(absl::StrCat(file.path(), ": the index of its lines is not kept: ", written.message(),
                            "; name a folder that can be written (cache_dir)"));
  }
  return index;
}

LineIndex::Line LineIndex::line(int64_t row) const {
  const auto begin = static_cast<int64_t>(begins_[static_cast<size_t>(row)]);
  const int64_t end = row + 1 < size() ? static_cast<int64_t>(begins_[static_cast<size_t>(row) + 1]) : file_bytes_;
  const auto blanks = std::upper_bound(blanks_.begin(), blanks_.end(), static_cast<uint64_t>(row)) - blanks_.begin();
  return {begin, end - begin, row + 1 + blanks};
}

}  // namespace distill
