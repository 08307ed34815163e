#include "libdistill/store/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

using nlohmann::json;

// The reference implementation's own limit; headers of the largest models stay far below.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr uint64_t kLengthBytes = 8;

struct Mapping {
  Mapping(const char* data, uint64_t size) : data(data), size(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (size > 0) munmap(const_cast<char*>(data), size);
  }
  const char* data;
  uint64_t size;
};

absl::StatusOr<std::shared_ptr<const Mapping>> MapFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, ": no such file"))
                           : absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  struct stat info;
  void* data = MAP_FAILED;
  int error = 0;
  if (fstat(fd, &info) != 0) {
    error = errno;
  } else if (S_ISDIR(info.st_mode)) {
    error = EISDIR;
  } else if (info.st_size > 0) {
    data = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  close(fd);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot map"));
  if (info.st_size == 0) return std::make_shared<const Mapping>(nullptr, 0);
  auto mapping = std::make_shared<const Mapping>(static_cast<const char*>(data), info.st_size);
  DISTILL_RETURN_IF_ERROR(CheckIsNoPointer(path, absl::string_view(mapping->data, mapping->size)));
  return mapping;
}

absl::StatusOr<DType> ParseDType(const std::string& name) {
  static constexpr std::pair<absl::string_view, DType> kSupported[] = {
      {"F32", DType::kFloat32}, {"F64", DType::kFloat64}, {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16},
      {"I32", DType::kInt32},   {"I64", DType::kInt64},   {"U8", DType::kUInt8}};
  for (const auto& [known, dtype] : kSupported) {
    if (known == name) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", name, "\" is not supported; supported are F32, F64, F16, BF16, I32, I64 and U8"));
}

absl::StatusOr<std::vector<uint64_t>> ParseNumbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return absl::DataLossError(absl::StrCat("no array \"", key, "\""));
  std::vector<uint64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned()) {
      return absl::DataLossError(absl::StrCat("\"", key, "\" holds something that is no size"));
    }
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

// nullopt when the product does not fit into an int64.
std::optional<uint64_t> ProductOf(const std::vector<uint64_t>& sizes, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  for (const uint64_t size : sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return bytes;
}

// One entry of the header against the bytes that follow it.
absl::StatusOr<TensorView> ParseTensor(const json& entry, absl::string_view data) {
  if (!entry.is_object()) return absl::DataLossError("the entry is no object");
  const auto dtype_name = entry.find("dtype");
  if (dtype_name == entry.end() || !dtype_name->is_string()) return absl::DataLossError("no string \"dtype\"");
  DISTILL_ASSIGN_OR_RETURN(const DType dtype, ParseDType(dtype_name->get<std::string>()));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, ParseNumbers(entry, "shape"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, ParseNumbers(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    return absl::DataLossError(absl::StrCat("data_offsets [", absl::StrJoin(offsets, ", "), "] do not lie within the ",
                                            data.size(), " bytes of data; the file is truncated or damaged"));
  }
  const std::optional<uint64_t> bytes = ProductOf(shape, SizeOf(dtype));
  const bool sizes_fit = std::all_of(shape.begin(), shape.end(), [](uint64_t size) { return size <= INT64_MAX; });
  if (!bytes.has_value() || !sizes_fit) {
    return absl::DataLossError(absl::StrCat("shape [", absl::StrJoin(shape, ", "), "] overflows"));
  }
  if (*bytes != offsets[1] - offsets[0]) {
    return absl::DataLossError(absl::StrCat("shape [", absl::StrJoin(shape, ", "), "] of ", NameOf(dtype), " takes ",
                                            *bytes, " bytes, but data_offsets hold ", offsets[1] - offsets[0]));
  }
  return TensorView{.dtype = dtype,
                    .shape = std::vector<int64_t>(shape.begin(), shape.end()),
                    .data = data.data() + offsets[0],
                    .size_bytes = static_cast<int64_t>(*bytes)};
}

// The format allows neither holes nor overlaps: every byte of data belongs to exactly one tensor.
absl::Status CheckCoverage(const std::map<std::string, TensorView>& tensors, absl::string_view data) {
  std::vector<std::pair<const char*, const std::pair<const std::string, TensorView>*>> order;
  for (const auto& tensor : tensors) order.emplace_back(static_cast<const char*>(tensor.second.data), &tensor);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.size_bytes) < std::pair(b.first, b.second->second.size_bytes);
  });
  const char* end = data.data();
  for (const auto& [begin, tensor] : order) {
    if (begin < end) return absl::DataLossError(absl::StrCat("tensor \"", tensor->first, "\" overlaps another one"));
    if (begin > end) {
      return absl::DataLossError(
          absl::StrCat("a hole of ", begin - end, " bytes before tensor \"", tensor->first, "\""));
    }
    end = begin + tensor->second.size_bytes;
  }
  const int64_t left = data.data() + data.size() - end;
  if (left != 0) return absl::DataLossError(absl::StrCat(left, " bytes after the last tensor belong to none"));
  return absl::OkStatus();
}

absl::Status ParseMetadata(const json& entry, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) return absl::DataLossError("\"__metadata__\" is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return absl::DataLossError(absl::StrCat("metadata \"", key, "\" is no string"));
    metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ParseFile(const Mapping& file, std::map<std::string, TensorView>& tensors,
                       std::map<std::string, std::string>& metadata) {
  uint64_t header_bytes = 0;
  if (file.size < kLengthBytes) return absl::DataLossError(absl::StrCat("truncated: only ", file.size, " bytes"));
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= static_cast<uint64_t>(static_cast<unsigned char>(file.data[i])) << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size - kLengthBytes) {
    return absl::DataLossError(absl::StrCat("a header of ", header_bytes, " bytes in a file of ", file.size,
                                            ": no safetensors file, or a truncated one"));
  }
  const absl::string_view header(file.data + kLengthBytes, header_bytes);
  const absl::string_view data(header.data() + header.size(), file.size - kLengthBytes - header_bytes);
  DISTILL_RETURN_IF_ERROR(Annotate(CheckJson(header, /*max_depth=*/4), "header"));
  const json document = json::parse(header.begin(), header.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::DataLossError("the header is no JSON object");
  for (const auto& [name, entry] : document.items()) {
    if (name == "__metadata__") {
      DISTILL_RETURN_IF_ERROR(ParseMetadata(entry, metadata));
      continue;
    }
    absl::StatusOr<TensorView> view = ParseTensor(entry, data);
    if (!view.ok()) return Annotate(view.status(), absl::StrCat("tensor \"", name, "\""));
    tensors.emplace(name, *std::move(view));
  }
  return CheckCoverage(tensors, data);
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> mapping, MapFile(path));
  SafetensorsFile file;
  file.path_ = path;
  DISTILL_RETURN_IF_ERROR(Annotate(ParseFile(*mapping, file.tensors_, file.metadata_), path));
  file.mapping_ = std::move(mapping);
  return file;
}

void SafetensorsFile::Forget(const std::string& name) const {
  const TensorView* view = Find(name);
  if (view == nullptr) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(view->data), end = begin + static_cast<uintptr_t>(view->size_bytes);
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  // What cannot be let go of stays until the file is closed.
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

const TensorView* SafetensorsFile::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace distill
