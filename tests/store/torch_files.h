// Files as torch.save writes them, and such as it never would: made byte by byte, so that tests can damage any part.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace distill::testing {

inline std::string Little(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

inline std::string Text(const std::string& text) { return absl::StrCat("X", Little(text.size(), 4), text); }
inline std::string Number(int64_t value) { return absl::StrCat("\x8a\x08", Little(static_cast<uint64_t>(value), 8)); }
inline std::string Numbers(const std::vector<int64_t>& values) {
  std::string items = "(";
  for (const int64_t value : values) items += Number(value);
  return items + "t";
}
inline std::string Global(const std::string& module, const std::string& name) {
  return absl::StrCat("c", module, "\n", name, "\n");
}
inline const std::string kNoHooks = Global("collections", "OrderedDict") + ")R";

// A float32 tensor of a state_dict, in a storage of its own unless `key` says another one.
struct TorchTensor {
  std::string name;
  std::vector<float> values;  // of the storage
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  std::string key = name;
  int64_t elements = static_cast<int64_t>(values.size());
  std::string type = "FloatStorage";

  std::string Pickled(bool is_legacy) const {
    const std::string storage = absl::StrCat("(", Text("storage"), Global("torch", type), Text(key), Text("cpu"),
                                             Number(elements), is_legacy ? "N" : "", "tQ");
    return absl::StrCat(Text(name), Global("torch._utils", "_rebuild_tensor_v2"), "(", storage, Number(offset),
                        Numbers(shape), Numbers(strides), "\x89", kNoHooks, "tR");
  }
  std::string Bytes() const {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
};

inline TorchTensor TensorOf(const std::string& name, const std::vector<float>& values) {
  return {.name = name, .values = values, .shape = {static_cast<int64_t>(values.size())}, .strides = {1}};
}

inline std::string PickleOf(const std::vector<TorchTensor>& tensors, bool is_legacy) {
  std::string pickle = "\x80\x02}(";
  for (const TorchTensor& tensor : tensors) pickle += tensor.Pickled(is_legacy);
  return pickle + "u.";
}

struct ZipFile {
  std::string name, bytes;
  uint16_t method = 0, flags = 0;
};

// With `is_zip64`, every size and place is in the wide fields, as in files beyond 4 GiB.
inline std::string ZipOf(const std::vector<ZipFile>& files, bool is_zip64 = false) {
  std::string out, directory;
  const auto narrow = [&](uint64_t value) { return Little(is_zip64 ? 0xffffffff : value, 4); };
  for (const ZipFile& file : files) {
    const uint64_t size = file.bytes.size(), at = out.size();
    const std::string about = Little(20, 2) + Little(file.flags, 2) + Little(file.method, 2) + Little(0, 8);
    const std::string sizes = narrow(size) + narrow(size) + Little(file.name.size(), 2);
    const std::string wide = is_zip64 ? Little(1, 2) + Little(16, 2) + Little(size, 8) + Little(size, 8) : "";
    const std::string wide_place = is_zip64 ? Little(1, 2) + Little(24, 2) + wide.substr(4) + Little(at, 8) : "";
    absl::StrAppend(&out, "PK\x03\x04", about, sizes, Little(wide.size(), 2), file.name, wide, file.bytes);
    absl::StrAppend(&directory, "PK\x01\x02", Little(20, 2), about, sizes, Little(wide_place.size(), 2), Little(0, 10),
                    narrow(at), file.name, wide_place);
  }
  const uint64_t begin = out.size(), size = directory.size(), count = files.size();
  out += directory;
  if (is_zip64) {
    const uint64_t record = out.size();
    absl::StrAppend(&out, "PK\x06\x06", Little(44, 8), Little(45, 2), Little(45, 2), Little(0, 8), Little(count, 8),
                    Little(count, 8), Little(size, 8), Little(begin, 8));
    absl::StrAppend(&out, "PK\x06\x07", Little(0, 4), Little(record, 8), Little(1, 4));
  }
  return absl::StrCat(out, "PK\x05\x06", Little(0, 4), Little(count, 2), Little(count, 2), narrow(size), narrow(begin),
                      Little(0, 2));
}

inline std::vector<ZipFile> TorchEntries(const std::vector<TorchTensor>& tensors) {
  std::vector<ZipFile> files = {{"m/data.pkl", PickleOf(tensors, /*is_legacy=*/false)}, {"m/byteorder", "little"}};
  for (const TorchTensor& tensor : tensors) {
    if (tensor.key == tensor.name) files.push_back({"m/data/" + tensor.key, tensor.Bytes()});
  }
  files.push_back({"m/version", "3\n"});
  return files;
}

inline std::string TorchZip(const std::vector<TorchTensor>& tensors) { return ZipOf(TorchEntries(tensors)); }

// The format before torch 1.6.
inline std::string TorchLegacy(const std::vector<TorchTensor>& tensors, bool is_little_endian = true) {
  std::string out = absl::StrCat("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "\x80\x02", Number(1001),
                                 ".", "\x80\x02}", Text("little_endian"), is_little_endian ? "\x88" : "\x89", "s.",
                                 PickleOf(tensors, /*is_legacy=*/true), "\x80\x02](");
  std::string storages;
  for (const TorchTensor& tensor : tensors) {
    if (tensor.key != tensor.name) continue;
    out += Text(tensor.key);
    absl::StrAppend(&storages, Little(static_cast<uint64_t>(tensor.elements), 8), tensor.Bytes());
  }
  return absl::StrCat(out, "e.", storages);
}

}  // namespace distill::testing
