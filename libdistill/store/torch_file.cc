#include "libdistill/store/torch_file.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/pickle.h"
#include "libdistill/store/zip_directory.h"

namespace distill {
namespace {

using Kind = PickleValue::Kind;

constexpr char kZipMagic[] = "PK\x03\x04";
constexpr char kPickleMagic = '\x80';                                        // how protocols from 2 on begin
constexpr char kLegacyMagic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // 0x1950a86a20f9469cfc6c
constexpr int64_t kLegacyProtocol = 1001, kNewestVersion = 10;
constexpr int64_t kFirstWindow = 1 << 20;  // of the pickles, of a file that is not local
constexpr int64_t kLengthBytes = 8;

absl::StatusOr<std::string> ReadSmall(const FileBytes& file, const std::map<std::string, ZipEntry>& entries,
                                      const std::string& name) {
  constexpr int64_t kMost = 100;
  const auto found = entries.find(name);
  if (found == entries.end()) return std::string();
  DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, file.Read(found->second.offset, std::min(found->second.size, kMost)));
  return std::string(absl::StripAsciiWhitespace(slice.bytes));
}

absl::Status CheckByteOrder(bool is_little) {
  if (is_little) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a big-endian machine wrote it, and numbers would be read backwards: load and save "
      "it with torch on a little-endian one");
}

// The folder within the zip file that all entries are in, as its name and a slash.
absl::StatusOr<std::string> RootOf(const std::map<std::string, ZipEntry>& entries) {
  const std::string first = entries.empty() ? "" : entries.begin()->first;
  const std::string root = first.substr(0, first.find('/') + 1);  // empty where there is no slash
  if (entries.count(root + "constants.pkl") > 0) {
    return absl::InvalidArgumentError("a TorchScript archive, which is a program: save the model's state_dict instead");
  }
  if (!root.empty() && entries.count(root + "data.pkl") > 0) return root;
  return absl::InvalidArgumentError("a zip file without data.pkl: no file of torch.save, or a damaged one");
}

absl::Status CheckVersion(const std::string& version) {
  int64_t number = 0;
  if (version.empty() || (absl::SimpleAtoi(version, &number) && number <= kNewestVersion)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("version \"", version, "\" of torch's format; at most ", kNewestVersion, " is known"));
}

// What precedes the tensors of the older format: a number to know it by, its version, and the writer's machine.
absl::Status CheckLegacyHeader(const PickleDocument& magic, const PickleDocument& version,
                               const PickleDocument& machine) {
  if (magic.Text(magic.root()) != kLegacyMagic) {
    return absl::InvalidArgumentError("a pickle, but none that torch.save wrote");
  }
  if (version.root().kind != Kind::kInteger || version.root().integer != kLegacyProtocol) {
    return absl::InvalidArgumentError(absl::StrCat("a version of torch's older format that is not ", kLegacyProtocol));
  }
  const auto items = machine.Items(machine.root());
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (machine.Text(items[i]) == "little_endian") return CheckByteOrder(items[i + 1].integer != 0);
  }
  return absl::DataLossError("it does not say whether numbers are little-endian");
}

// Of the last element, counted from the first; nullopt where an int64 cannot hold it. No size is 0.
std::optional<int64_t> LastElement(const PickledTensor& tensor) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach)) return std::nullopt;
    if (__builtin_add_overflow(last, reach, &last)) return std::nullopt;
  }
  return last;
}

// Those that say something: of dimensions with several elements. Empty where the elements lie in row-major order.
std::vector<int64_t> StridesThatMatter(const PickledTensor& tensor) {
  std::vector<int64_t> strides(tensor.shape.size(), 0);
  bool is_in_order = true;
  int64_t expected = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    if (tensor.shape[i] == 1) continue;
    strides[i] = tensor.strides[i];
    is_in_order = is_in_order && strides[i] == expected;
    expected *= tensor.shape[i];
  }
  if (is_in_order) strides.clear();
  return strides;
}

}  // namespace

absl::StatusOr<TensorFile::Place> TorchFile::PlaceOf(const PickledTensor& tensor, const Storages& storages) const {
  const StoredType& type = *tensor.type;
  const std::string shape = absl::StrCat("shape [", absl::StrJoin(tensor.shape, ", "), "]");
  const auto storage = storages.find(tensor.storage);
  if (storage == storages.end())
    return absl::DataLossError(absl::StrCat("its storage \"", tensor.storage, "\" is missing"));
  if (storage->second.size_bytes != tensor.storage_bytes) {
    return absl::DataLossError(absl::StrCat("its storage has ", storage->second.size_bytes, " bytes, not ",
                                            tensor.storage_bytes, "; the file is truncated or damaged"));
  }
  const std::optional<int64_t> total = CheckedBytes(type, tensor.shape);
  if (!total.has_value()) return absl::DataLossError(shape + " overflows");
  if (*total == 0) return Place{.type = &type, .offset = storage->second.offset};
  const std::optional<int64_t> last = LastElement(tensor);
  const int64_t elements = tensor.storage_bytes / type.bytes;
  if (!last.has_value() || tensor.offset >= elements || *last >= elements - tensor.offset) {
    return absl::DataLossError(absl::StrCat(shape, " with the strides [", absl::StrJoin(tensor.strides, ", "),
                                            "] from ", tensor.offset, " on reaches beyond its storage of ", elements,
                                            " elements"));
  }
  const int64_t stored_bytes = *total / std::max(type.bytes, SizeOf(type.dtype)) * type.bytes;
  if (stored_bytes > bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(shape,
                                                   " repeats its elements (strides of 0) to more bytes than the ",
                                                   "file has: save it after .contiguous()"));
  }
  return Place{.type = &type,
               .offset = storage->second.offset + tensor.offset * type.bytes,
               .span_bytes = (*last + 1) * type.bytes,
               .strides = StridesThatMatter(tensor)};
}

absl::Status TorchFile::AddTensors(const std::vector<PickledTensor>& tensors, const Storages& storages) {
  for (const PickledTensor& tensor : tensors) {
    absl::StatusOr<Place> place = PlaceOf(tensor, storages);
    if (place.ok() && !Add(std::string(tensor.name), tensor.shape, *std::move(place))) {
      place = absl::DataLossError("it is there twice");
    }
    if (!place.ok()) return Annotate(place.status(), absl::StrCat("tensor \"", tensor.name, "\""));
  }
  return absl::OkStatus();
}

absl::Status TorchFile::ParseZip() {
  DISTILL_ASSIGN_OR_RETURN(const auto entries, ReadZipDirectory(bytes()));
  DISTILL_ASSIGN_OR_RETURN(const std::string root, RootOf(entries));
  DISTILL_ASSIGN_OR_RETURN(const std::string version, ReadSmall(bytes(), entries, root + "version"));
  DISTILL_RETURN_IF_ERROR(CheckVersion(version));
  DISTILL_ASSIGN_OR_RETURN(const std::string order, ReadSmall(bytes(), entries, root + "byteorder"));
  DISTILL_RETURN_IF_ERROR(CheckByteOrder(order.empty() || order == "little"));  // before torch 2.1 it says nothing
  const ZipEntry pickle = entries.at(root + "data.pkl");
  if (pickle.size > PickleDocument::kMaxBytes) {
    return absl::DataLossError(absl::StrCat("data.pkl has ", pickle.size, " bytes, as that of no model"));
  }
  DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, bytes().Read(pickle.offset, pickle.size));
  absl::StatusOr<PickleDocument> document = PickleDocument::Parse(slice.bytes, TorchGlobals());
  if (!document.ok()) {
    const bool is_cut = absl::IsOutOfRange(document.status());
    return Annotate(is_cut ? absl::DataLossError(document.status().message()) : document.status(), "data.pkl");
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<PickledTensor> tensors, TensorsOf(*document));
  Storages storages;
  for (const PickledTensor& tensor : tensors) {
    const auto entry = entries.find(absl::StrCat(root, "data/", tensor.storage));
    if (entry != entries.end()) {
      storages.emplace(tensor.storage, Storage{.offset = entry->second.offset, .size_bytes = entry->second.size});
    }
  }
  return AddTensors(tensors, storages);
}

// Each storage follows the one before it: the number of its elements in 8 bytes, and the elements.
absl::StatusOr<TorchFile::Storages> TorchFile::LegacyStorages(const PickleDocument& keys,
                                                              const std::vector<PickledTensor>& tensors,
                                                              int64_t begin) const {
  std::map<absl::string_view, const PickledTensor*> tensor_of;
  for (const PickledTensor& tensor : tensors) tensor_of.emplace(tensor.storage, &tensor);
  Storages storages;
  int64_t at = begin;
  for (const PickleValue& item : keys.Items(keys.root())) {
    const absl::string_view key = keys.Text(item);
    const auto owner = tensor_of.find(key);
    if (owner == tensor_of.end()) return absl::DataLossError(absl::StrCat("no tensor has the storage \"", key, "\""));
    const PickledTensor& tensor = *owner->second;
    const int64_t size = tensor.storage_bytes, left = bytes().size() - at - kLengthBytes;
    if (left < size) {
      return absl::DataLossError(absl::StrCat("the storage of tensor \"", tensor.name, "\" takes ", size,
                                              " bytes, and ", std::max<int64_t>(left, 0),
                                              " are left; the file is truncated or damaged"));
    }
    DISTILL_ASSIGN_OR_RETURN(const FileSlice length, bytes().Read(at, kLengthBytes));
    uint64_t elements = 0;
    for (size_t i = length.bytes.size(); i-- > 0;)
      elements = elements << 8 | static_cast<unsigned char>(length.bytes[i]);
    if (elements != static_cast<uint64_t>(tensor.storage_elements)) {
      return absl::DataLossError(absl::StrCat("the storage of tensor \"", tensor.name, "\" has ", elements,
                                              " elements, not ", tensor.storage_elements, "; the file is damaged"));
    }
    at += kLengthBytes;
    if (!storages.emplace(key, Storage{.offset = at, .size_bytes = size}).second) {
      return absl::DataLossError(absl::StrCat("the storage \"", key, "\" is there twice"));
    }
    at += size;
  }
  if (at == bytes().size()) return storages;
  return absl::DataLossError(absl::StrCat(bytes().size() - at, " bytes after the last storage belong to none"));
}

absl::Status TorchFile::ParseLegacyPickles(absl::string_view window) {
  std::vector<PickleDocument> documents;  // magic number, version, machine, tensors, keys of the storages
  size_t at = 0;
  while (documents.size() < 5) {
    DISTILL_ASSIGN_OR_RETURN(PickleDocument document, PickleDocument::Parse(window.substr(at), TorchGlobals()));
    at += static_cast<size_t>(document.size_bytes());
    documents.push_back(std::move(document));
    if (documents.size() == 3) {
      DISTILL_RETURN_IF_ERROR(CheckLegacyHeader(documents[0], documents[1], documents[2]));
    }
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<PickledTensor> tensors, TensorsOf(documents[3]));
  DISTILL_ASSIGN_OR_RETURN(const Storages storages, LegacyStorages(documents[4], tensors, static_cast<int64_t>(at)));
  return AddTensors(tensors, storages);
}

absl::Status TorchFile::ParseLegacy() {
  for (int64_t window = kFirstWindow;; window *= 8) {
    const int64_t size = std::min({window, bytes().size(), PickleDocument::kMaxBytes});
    DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, bytes().Read(0, size));
    const absl::Status status = ParseLegacyPickles(slice.bytes);
    if (!absl::IsOutOfRange(status)) return status;
    if (size < window) return absl::DataLossError(absl::StrCat(status.message(), "; the file is truncated or damaged"));
  }
}

absl::Status TorchFile::Parse() {
  constexpr int64_t kTarMagicAt = 257, kTarMagicBytes = 5;
  DISTILL_ASSIGN_OR_RETURN(const FileSlice start,
                           bytes().Read(0, std::min(bytes().size(), kTarMagicAt + kTarMagicBytes)));
  if (absl::StartsWith(start.bytes, kZipMagic)) return ParseZip();
  if (!start.bytes.empty() && start.bytes[0] == kPickleMagic) return ParseLegacy();
  if (absl::EndsWith(start.bytes, "ustar")) {
    return absl::InvalidArgumentError("a file of torch before 0.1.10: load and save it with a newer torch");
  }
  return absl::InvalidArgumentError(
      "no file that torch.save wrote, or a damaged one: fetch it again, or save its weights as model.safetensors");
}

absl::StatusOr<TorchFile> TorchFile::Of(std::shared_ptr<const FileBytes> bytes) {
  TorchFile file(std::move(bytes));
  DISTILL_RETURN_IF_ERROR(Annotate(file.Parse(), file.path()));
  return file;
}

absl::StatusOr<TorchFile> TorchFile::Open(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Open(path));
  return Of(std::move(bytes));
}

absl::StatusOr<TorchFile> TorchFile::Open(std::shared_ptr<const ReadableFile> file) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> bytes, FileBytes::Of(std::move(file)));
  return Of(std::move(bytes));
}

}  // namespace distill
