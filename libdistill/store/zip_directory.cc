#include "libdistill/store/zip_directory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr uint64_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr uint64_t kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr int64_t kMostComment = 0xffff;
constexpr uint64_t kIn64 = 0xffffffff;                // in place of a number that the zip64 fields have
constexpr uint64_t kEncrypted = 1, kSizesFollow = 8;  // bits of an entry's flags
constexpr int64_t kMostDirectoryBytes = 256 << 20;

// Little-endian, at most 8 bytes; 0 beyond the end.
uint64_t NumberAt(absl::string_view bytes, size_t offset, size_t size) {
  uint64_t number = 0;
  if (offset > bytes.size() || size > bytes.size() - offset) return 0;
  for (size_t i = 0; i < size; ++i) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return number;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, "; the zip file is truncated or damaged"));
}

struct DirectoryPlace {
  uint64_t offset = 0, size = 0, entries = 0;
};

struct CentralEntry {
  std::string name;
  uint64_t flags = 0, method = 0, header = 0, size = 0;
  ZipEntry place;  // known from the local header
};

// The record at the file's end that is told by its magic and by a comment that ends with the file.
absl::StatusOr<int64_t> FindEnd(const FileBytes& file) {
  const int64_t tail_bytes = std::min(file.size(), kEndBytes + kMostComment);
  DISTILL_ASSIGN_OR_RETURN(const FileSlice tail, file.Read(file.size() - tail_bytes, tail_bytes));
  for (int64_t at = tail_bytes - kEndBytes; at >= 0; --at) {
    const auto place = static_cast<size_t>(at);
    if (NumberAt(tail.bytes, place, 4) != kEndMagic) continue;
    const auto comment = static_cast<int64_t>(NumberAt(tail.bytes, place + 20, 2));
    if (at + kEndBytes + comment == tail_bytes) return file.size() - tail_bytes + at;
  }
  return Damaged("no end of its directory");
}

absl::StatusOr<DirectoryPlace> FindDirectory(const FileBytes& file) {
  DISTILL_ASSIGN_OR_RETURN(int64_t end, FindEnd(file));
  DISTILL_ASSIGN_OR_RETURN(const FileSlice record, file.Read(end, kEndBytes));
  DirectoryPlace place{.offset = NumberAt(record.bytes, 16, 4),
                       .size = NumberAt(record.bytes, 12, 4),
                       .entries = NumberAt(record.bytes, 10, 2)};
  uint64_t disks = NumberAt(record.bytes, 4, 2) | NumberAt(record.bytes, 6, 2);
  FileSlice locator;
  if (end >= kLocatorBytes) {
    DISTILL_ASSIGN_OR_RETURN(locator, file.Read(end - kLocatorBytes, kLocatorBytes));
  }
  if (NumberAt(locator.bytes, 0, 4) == kLocator64Magic) {
    const uint64_t at = NumberAt(locator.bytes, 8, 8);
    if (end < kLocatorBytes + kEnd64Bytes || at > static_cast<uint64_t>(end - kLocatorBytes - kEnd64Bytes)) {
      return Damaged("its zip64 record lies outside of it");
    }
    end = static_cast<int64_t>(at);
    DISTILL_ASSIGN_OR_RETURN(const FileSlice wide, file.Read(end, kEnd64Bytes));
    if (NumberAt(wide.bytes, 0, 4) != kEnd64Magic) return Damaged("it has no zip64 record where it says");
    disks = NumberAt(wide.bytes, 16, 4) | NumberAt(wide.bytes, 20, 4);
    place = {.offset = NumberAt(wide.bytes, 48, 8),
             .size = NumberAt(wide.bytes, 40, 8),
             .entries = NumberAt(wide.bytes, 32, 8)};
  }
  if (disks != 0) return Damaged("it is a part of several files");
  if (place.offset > static_cast<uint64_t>(end) || place.size > static_cast<uint64_t>(end) - place.offset) {
    return Damaged("its directory lies outside of it");
  }
  if (place.size > kMostDirectoryBytes) return Damaged("its directory is larger than any");
  return place;
}

// Numbers that did not fit into their fields, in the order in which the format has them.
absl::Status ReadZip64(absl::string_view extra, uint64_t* stored_size, CentralEntry& entry) {
  uint64_t* const numbers[] = {&entry.size, stored_size, &entry.header};
  const bool needs = std::any_of(std::begin(numbers), std::end(numbers), [](const uint64_t* n) { return *n == kIn64; });
  if (!needs) return absl::OkStatus();
  for (size_t at = 0; extra.size() - at >= 4;) {
    const size_t size = NumberAt(extra, at + 2, 2);
    if (size > extra.size() - at - 4) break;
    if (NumberAt(extra, at, 2) == 1) {
      size_t used = 0;
      for (uint64_t* number : numbers) {
        if (*number != kIn64) continue;
        if (size - used < 8) return Damaged("a zip64 field is too short");
        *number = NumberAt(extra, at + 4 + used, 8);
        used += 8;
      }
      return absl::OkStatus();
    }
    at += 4 + size;
  }
  return Damaged("a zip64 field is missing");
}

absl::Status CheckIsStored(const CentralEntry& entry, uint64_t stored_size) {
  if ((entry.flags & kEncrypted) != 0) return absl::InvalidArgumentError("it is encrypted");
  if (entry.method != 0) {
    return absl::InvalidArgumentError(
        "it is compressed, as torch.save writes none: unpack the file and zip it again without compression (zip -0), "
        "or load it with torch.load and save it again");
  }
  return stored_size == entry.size ? absl::OkStatus() : Damaged("its two sizes differ");
}

// The entry at `at`, which then is behind it.
absl::StatusOr<CentralEntry> ReadCentral(absl::string_view directory, size_t& at) {
  constexpr auto kFixed = static_cast<size_t>(kCentralBytes);
  const absl::string_view rest = directory.substr(at);
  const size_t name_bytes = NumberAt(rest, 28, 2), extra_bytes = NumberAt(rest, 30, 2);
  const size_t all = kFixed + name_bytes + extra_bytes + NumberAt(rest, 32, 2);
  if (rest.size() < kFixed || NumberAt(rest, 0, 4) != kCentralMagic || all > rest.size()) {
    return Damaged("its directory is cut");
  }
  CentralEntry entry{.name = std::string(rest.substr(kFixed, name_bytes)),
                     .flags = NumberAt(rest, 8, 2),
                     .method = NumberAt(rest, 10, 2),
                     .header = NumberAt(rest, 42, 4),
                     .size = NumberAt(rest, 24, 4),
                     .place = {}};
  uint64_t stored_size = NumberAt(rest, 20, 4);
  absl::Status status = ReadZip64(rest.substr(kFixed + name_bytes, extra_bytes), &stored_size, entry);
  if (status.ok()) status = CheckIsStored(entry, stored_size);
  if (!status.ok()) return Annotate(status, absl::StrCat("entry \"", absl::Utf8SafeCHexEscape(entry.name), "\""));
  at += all;
  return entry;
}

// Where the entry's bytes are, by the header before them, which must say what the directory says.
absl::Status ReadLocal(const FileBytes& file, uint64_t end, CentralEntry& entry) {
  const auto fixed = static_cast<uint64_t>(kLocalBytes);
  if (entry.header > end || end - entry.header < fixed + entry.name.size()) return Damaged("it lies outside");
  const auto header_at = static_cast<int64_t>(entry.header);
  DISTILL_ASSIGN_OR_RETURN(const FileSlice header,
                           file.Read(header_at, kLocalBytes + static_cast<int64_t>(entry.name.size())));
  const uint64_t name_bytes = NumberAt(header.bytes, 26, 2), stored_size = NumberAt(header.bytes, 18, 4);
  const bool is_same = NumberAt(header.bytes, 0, 4) == kLocalMagic && name_bytes == entry.name.size() &&
                       header.bytes.substr(kLocalBytes) == entry.name && NumberAt(header.bytes, 8, 2) == entry.method;
  const bool has_size = (NumberAt(header.bytes, 6, 2) & kSizesFollow) == 0 && stored_size != kIn64;
  if (!is_same || (has_size && stored_size != entry.size)) return Damaged("its header is not what the directory says");
  const uint64_t begin = entry.header + fixed + name_bytes + NumberAt(header.bytes, 28, 2);
  if (begin > end || entry.size > end - begin) return Damaged("it lies outside");
  entry.place = {.offset = static_cast<int64_t>(begin), .size = static_cast<int64_t>(entry.size)};
  return absl::OkStatus();
}

absl::Status CheckApart(std::vector<CentralEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.header < b.header; });
  int64_t end = 0;
  for (const CentralEntry& entry : entries) {
    if (static_cast<int64_t>(entry.header) < end) {
      return Damaged(absl::StrCat("entry \"", absl::Utf8SafeCHexEscape(entry.name), "\" overlaps another one"));
    }
    end = entry.place.offset + entry.place.size;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, ZipEntry>> ReadZipDirectory(const FileBytes& file) {
  DISTILL_ASSIGN_OR_RETURN(const DirectoryPlace place, FindDirectory(file));
  DISTILL_ASSIGN_OR_RETURN(const FileSlice directory,
                           file.Read(static_cast<int64_t>(place.offset), static_cast<int64_t>(place.size)));
  std::vector<CentralEntry> entries;
  for (size_t at = 0; at < directory.bytes.size();) {
    DISTILL_ASSIGN_OR_RETURN(CentralEntry entry, ReadCentral(directory.bytes, at));
    const absl::Status status = ReadLocal(file, place.offset, entry);
    if (!status.ok()) return Annotate(status, absl::StrCat("entry \"", absl::Utf8SafeCHexEscape(entry.name), "\""));
    entries.push_back(std::move(entry));
  }
  if (entries.size() != place.entries) return Damaged("its directory has another number of entries than it says");
  DISTILL_RETURN_IF_ERROR(CheckApart(entries));
  std::map<std::string, ZipEntry> found;
  for (const CentralEntry& entry : entries) {
    if (!found.emplace(entry.name, entry.place).second) {
      return Damaged(absl::StrCat("entry \"", absl::Utf8SafeCHexEscape(entry.name), "\" is there twice"));
    }
  }
  return found;
}

}  // namespace distill
