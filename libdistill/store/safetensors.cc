#include "libdistill/store/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/narrow_floats.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

using nlohmann::json;

// The reference implementation's own limit; headers of the largest models stay far below.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr int64_t kLengthBytes = 8;

// Of bytes that stand for a bfloat16 each.
template <uint16_t (*kConvert)(uint8_t)>
void WidenBytes(const char* from, int64_t count, char* to) {
  static constexpr std::array<uint16_t, 256> kWide = [] {
    std::array<uint16_t, 256> wide{};
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = kConvert(static_cast<uint8_t>(i));
    return wide;
  }();
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + 2 * i, &kWide[static_cast<unsigned char>(from[i])], sizeof(uint16_t));
  }
}

constexpr StoredType kTypes[] = {{"F32", DType::kFloat32, 4},
                                 {"F64", DType::kFloat64, 8},
                                 {"F16", DType::kFloat16, 2},
                                 {"BF16", DType::kBFloat16, 2},
                                 {kFloat8E4M3, DType::kBFloat16, 1, 1, WidenBytes<BFloat16OfE4M3>},
                                 {kFloat8E5M2, DType::kBFloat16, 1, 1, WidenBytes<BFloat16OfE5M2>},
                                 {"F8_E8M0", DType::kBFloat16, 1, 1, WidenBytes<BFloat16OfE8M0>},
                                 {"I64", DType::kInt64, 8},
                                 {"I32", DType::kInt32, 4},
                                 {"I16", DType::kInt32, 2},
                                 {"I8", DType::kInt32, 1},
                                 {"U8", DType::kUInt8, 1},
                                 {"BOOL", DType::kUInt8, 1}};

// What the header says of a tensor.
struct HeaderEntry {
  const StoredType* type = nullptr;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // in bytes of the data
};

absl::StatusOr<const StoredType*> ParseType(const json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) return absl::DataLossError("no string \"dtype\"");
  const std::string name = found->get<std::string>();
  if (const StoredType* type = FindType(kTypes, name); type != nullptr) return type;
  const auto add_name = [](std::string* out, const StoredType& type) { out->append(type.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", name, "\" is not supported; supported are ", absl::StrJoin(kTypes, ", ", add_name)));
}

absl::StatusOr<std::vector<int64_t>> ParseNumbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return absl::DataLossError(absl::StrCat("no array \"", key, "\""));
  std::vector<int64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned()) {
      return absl::DataLossError(absl::StrCat("\"", key, "\" holds something that is no size"));
    }
    const auto value = number.get<uint64_t>();
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      return absl::DataLossError(absl::StrCat("\"", key, "\" overflows: it holds ", value));
    }
    numbers.push_back(static_cast<int64_t>(value));
  }
  return numbers;
}

// One entry of the header against the bytes that follow it.
absl::StatusOr<HeaderEntry> ParseEntry(const json& json_entry, int64_t data_bytes) {
  if (!json_entry.is_object()) return absl::DataLossError("the entry is no object");
  HeaderEntry entry;
  DISTILL_ASSIGN_OR_RETURN(entry.type, ParseType(json_entry));
  DISTILL_ASSIGN_OR_RETURN(entry.shape, ParseNumbers(json_entry, "shape"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ParseNumbers(json_entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return absl::DataLossError(absl::StrCat("data_offsets [", absl::StrJoin(offsets, ", "), "] do not lie within the ",
                                            data_bytes, " bytes of data; the file is truncated or damaged"));
  }
  const std::string shape = absl::StrCat("shape [", absl::StrJoin(entry.shape, ", "), "]");
  if (!CheckedBytes(*entry.type, entry.shape).has_value()) return absl::DataLossError(shape + " overflows");
  int64_t bytes = entry.type->bytes;
  for (const int64_t size : entry.shape) bytes *= size;
  if (bytes != offsets[1] - offsets[0]) {
    return absl::DataLossError(absl::StrCat(shape, " of ", entry.type->name, " takes ", bytes,
                                            " bytes, but data_offsets hold ", offsets[1] - offsets[0]));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

// The format allows neither holes nor overlaps: every byte of data belongs to exactly one tensor.
absl::Status CheckCoverage(const std::map<std::string, HeaderEntry>& entries, int64_t data_bytes) {
  std::vector<const std::pair<const std::string, HeaderEntry>*> order;
  for (const auto& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t end = 0;
  for (const auto* entry : order) {
    const int64_t begin = entry->second.begin;
    if (begin < end) return absl::DataLossError(absl::StrCat("tensor \"", entry->first, "\" overlaps another one"));
    if (begin > end) {
      return absl::DataLossError(
          absl::StrCat("a hole of ", begin - end, " bytes before tensor \"", entry->first, "\""));
    }
    end = entry->second.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(data_bytes - end, " bytes after the last tensor belong to none"));
}

absl::Status ParseMetadata(const json& entry, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) return absl::DataLossError("\"__metadata__\" is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return absl::DataLossError(absl::StrCat("metadata \"", key, "\" is no string"));
    metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// The header's text: its length, which precedes it, against the file's.
absl::StatusOr<FileSlice> ReadHeader(const FileBytes& file) {
  if (file.size() < kLengthBytes) return absl::DataLossError(absl::StrCat("truncated: only ", file.size(), " bytes"));
  DISTILL_ASSIGN_OR_RETURN(const FileSlice length, file.Read(0, kLengthBytes));
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < length.bytes.size(); ++i) {
    header_bytes |= static_cast<uint64_t>(static_cast<unsigned char>(length.bytes[i])) << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > static_cast<uint64_t>(file.size() - kLengthBytes)) {
    return absl::DataLossError(absl::StrCat("a header of ", header_bytes, " bytes in a file of ", file.size(),
                                            ": no safetensors file, or a truncated one"));
  }
  return file.Read(kLengthBytes, static_cast<int64_t>(header_bytes));
}

absl::Status ParseHeader(absl::string_view header, int64_t data_bytes, std::map<std::string, HeaderEntry>& entries,
                         std::map<std::string, std::string>& metadata) {
  DISTILL_RETURN_IF_ERROR(Annotate(CheckJson(header, /*max_depth=*/4), "header"));
  const json document = json::parse(header.begin(), header.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::DataLossError("the header is no JSON object");
  for (const auto& [name, json_entry] : document.items()) {
    if (name == "__metadata__") {
      DISTILL_RETURN_IF_ERROR(ParseMetadata(json_entry, metadata));
      continue;
    }
    absl::StatusOr<HeaderEntry> entry = ParseEntry(json_entry, data_bytes);
    if (!entry.ok()) return Annotate(entry.status(), absl::StrCat("tensor \"", name, "\""));
    entries.emplace(name, *std::move(entry));
  }
  return CheckCoverage(entries, data_bytes);
}

}  // namespace

absl::Status SafetensorsFile::Parse() {
  DISTILL_ASSIGN_OR_RETURN(const FileSlice header, ReadHeader(bytes()));
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(header.bytes.size());
  std::map<std::string, HeaderEntry> entries;
  DISTILL_RETURN_IF_ERROR(ParseHeader(header.bytes, bytes().size() - data_begin, entries, metadata_));
  for (auto& [name, entry] : entries) {
    Add(name, std::move(entry.shape),
        {.type = entry.type, .offset = data_begin + entry.begin, .span_bytes = entry.end - entry.begin});
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Of(std::shared_ptr<const FileBytes> bytes) {
  SafetensorsFile file(std::move(bytes));
  DISTILL_RETURN_IF_ERROR(Annotate(file.Parse(), file.path()));
  return file;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Open(path));
  return Of(std::move(bytes));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(std::shared_ptr<const ReadableFile> file) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Of(std::move(file)));
  return Of(std::move(bytes));
}

}  // namespace distill
