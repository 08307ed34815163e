#include "libdistill/store/gguf.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/gguf_blocks.h"
#include "libdistill/store/gguf_header.h"
#include "libdistill/store/gguf_names.h"

namespace distill {
namespace {

constexpr char kSuffix[] = ".gguf", kArchitecture[] = "general.architecture";

int64_t SizeOfModel(const GgufMetadata& metadata, const std::string& key) {
  const GgufValue* value = FindOfModel(metadata, key);
  const auto* size = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return size == nullptr ? 0 : *size;
}

// Numbers of a head's query; 0 where the file does not say.
int64_t HeadSize(const GgufMetadata& metadata) {
  if (const int64_t size = SizeOfModel(metadata, "attention.key_length"); size > 0) return size;
  const int64_t heads = SizeOfModel(metadata, "attention.head_count");
  return heads > 0 ? SizeOfModel(metadata, "embedding_length") / heads : 0;
}

// Where the elements of a tensor end, from its first byte; the type is one that is read.
absl::StatusOr<int64_t> SpanOf(const GgufTensor& tensor, const StoredType& type, int64_t file_bytes) {
  if (!CheckedBytes(type, tensor.shape).has_value()) return absl::DataLossError("its shape overflows");
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  if (type.block_size > 1 && (tensor.shape.empty() || tensor.shape.back() % type.block_size != 0)) {
    return absl::DataLossError(
        absl::StrCat("its rows are no multiple of the ", type.block_size, " elements of a block"));
  }
  const int64_t span = elements / type.block_size * type.bytes;
  if (span <= file_bytes - tensor.offset) return span;
  return absl::DataLossError(absl::StrCat("its ", span, " bytes from ", tensor.offset, " on do not lie in the file of ",
                                          file_bytes, "; it is truncated or damaged"));
}

absl::Status CheckApart(std::vector<std::pair<int64_t, int64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) return absl::DataLossError("tensors overlap one another");
  }
  return absl::OkStatus();
}

// Of NAME-00002-of-00003.gguf.
struct PartName {
  std::string stem;
  int number = 0, count = 0;
};

std::optional<PartName> ParsePart(const std::string& name) {
  constexpr size_t kTail = 20;  // "-00002-of-00003.gguf"
  PartName part;
  if (name.size() <= kTail) return std::nullopt;
  const std::string tail = name.substr(name.size() - kTail);
  for (const size_t digit : {1, 2, 3, 4, 5, 10, 11, 12, 13, 14}) {
    if (tail[digit] < '0' || tail[digit] > '9') return std::nullopt;
    int& target = digit < 6 ? part.number : part.count;
    target = target * 10 + (tail[digit] - '0');
  }
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  part.stem = name.substr(0, name.size() - kTail);
  return part;
}

}  // namespace

bool IsGgufRopeFactors(const std::string& name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

std::string GgufText(const GgufMetadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  const auto* text = found == metadata.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

const GgufValue* FindOfModel(const GgufMetadata& metadata, const std::string& key) {
  const auto found = metadata.find(absl::StrCat(GgufText(metadata, kArchitecture), ".", key));
  return found == metadata.end() ? nullptr : &found->second;
}

absl::StatusOr<int64_t> GgufFile::AddTensor(GgufTensor tensor, const GgufMetadata& of_model) {
  const StoredType* type = GgufTypeOf(tensor.type);
  if (type == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("it is ", GgufTypeName(tensor.type),
                                                   ", which is not read; read are ", GgufTypesRead(),
                                                   ": take a file of Q8_0 or Q4_K_M"));
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t span, SpanOf(tensor, *type, bytes().size()));
  is_quantised_ |= type->decode != nullptr;
  const std::string architecture = GgufText(of_model, kArchitecture);
  if (IsOneAbove(architecture, tensor.name)) {
    type = GgufTypeOneBelow(*type);
    if (type == nullptr) return absl::InvalidArgumentError("a norm of numbers other than F32 is not read");
  }
  Place place{.type = type, .offset = tensor.offset, .span_bytes = span};
  if (HasAlternatingRows(architecture, tensor.name)) {
    place.head_rows = HeadSize(of_model);
    if (tensor.shape.empty() || place.head_rows < 2 || place.head_rows % 2 != 0 ||
        tensor.shape.front() % place.head_rows != 0) {
      return absl::DataLossError("its rows are no heads by attention.head_count and embedding_length");
    }
  }
  if (!Add(TransformersName(architecture, tensor.name), std::move(tensor.shape), place)) {
    return absl::DataLossError("it is there twice");
  }
  return span;
}

absl::Status GgufFile::Parse(const GgufMetadata* first) {
  DISTILL_ASSIGN_OR_RETURN(GgufHeader header, ReadGgufHeader(bytes()));
  metadata_ = std::move(header.metadata);
  const GgufMetadata& of_model = first == nullptr ? metadata_ : *first;
  DISTILL_RETURN_IF_ERROR(CheckGgufArchitecture(GgufText(of_model, kArchitecture)));
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (GgufTensor& tensor : header.tensors) {
    const std::string what = absl::StrCat("tensor \"", tensor.name, "\"");
    const int64_t begin = tensor.offset;
    const absl::StatusOr<int64_t> span = AddTensor(std::move(tensor), of_model);
    if (!span.ok()) return Annotate(span.status(), what);
    spans.emplace_back(begin, begin + *span);
  }
  return CheckApart(std::move(spans));
}

absl::StatusOr<GgufFile> GgufFile::Of(std::shared_ptr<const FileBytes> bytes, const GgufMetadata* first) {
  GgufFile file(std::move(bytes));
  DISTILL_RETURN_IF_ERROR(Annotate(file.Parse(first), file.path()));
  return file;
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path, const GgufMetadata* first) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Open(path));
  return Of(std::move(bytes), first);
}

absl::StatusOr<GgufFile> GgufFile::Open(std::shared_ptr<const ReadableFile> file) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Of(std::move(file)));
  return Of(std::move(bytes), nullptr);
}

absl::StatusOr<std::vector<std::string>> GgufFilesIn(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFiles(folder, "", kSuffix));
  // Other parts of a model: a projector of pictures, a head for drafts.
  const auto is_beside = [](const std::string& name) {
    return absl::StartsWith(name, "mmproj") || absl::StartsWith(name, "mtp-");
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_beside), names.end());
  if (names.empty()) return names;
  const std::optional<PartName> part = ParsePart(names.front());
  std::vector<std::string> expected = {names.front()};
  if (part.has_value()) {
    expected.clear();
    for (int i = 1; i <= part->count; ++i) {
      expected.push_back(absl::StrFormat("%s-%05d-of-%05d%s", part->stem, i, part->count, kSuffix));
    }
  }
  if (names == expected) return names;
  return absl::FailedPreconditionError(absl::StrCat(
      folder, " holds ", absl::StrJoin(names, ", "),
      part.has_value() ? absl::StrCat("; a model of ", part->count, " parts needs all of them and no other")
                       : "; keep the file of one model in the folder"));
}

}  // namespace distill
