// GGUF files as tests make them, byte by byte (docs/formats.md, "GGUF").
//
//   folder.Write("a.gguf", gguf::File({.architecture = "qwen2"}));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distill::testing::gguf {

template <typename T>
std::string Bytes(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}
inline std::string Text(const std::string& text) { return Bytes<uint64_t>(text.size()) + text; }
inline std::string Entry(const std::string& key, uint32_t type, const std::string& value) {
  return Text(key) + Bytes(type) + value;
}
inline std::string Number(const std::string& key, uint32_t number) { return Entry(key, 4, Bytes(number)); }
inline std::string TensorEntry(const std::string& name, std::vector<uint64_t> columns_first, uint32_t type,
                               uint64_t offset) {
  std::string bytes = Text(name) + Bytes(static_cast<uint32_t>(columns_first.size()));
  for (const uint64_t size : columns_first) bytes += Bytes(size);
  return bytes + Bytes(type) + Bytes(offset);
}

struct Made {
  uint32_t version = 3;
  std::string architecture = "llama";
  std::vector<std::string> more = {};  // metadata
  std::vector<std::string> tensors = {TensorEntry("output_norm.weight", {3}, 0, 0)};
  std::string data = std::string(12, '\0');
};
inline std::string File(const Made& made) {
  std::vector<std::string> metadata = {Entry("general.architecture", 8, Text(made.architecture)),
                                       Number(made.architecture + ".embedding_length", 8),
                                       Entry(made.architecture + ".attention.head_count", 10, Bytes<uint64_t>(2))};
  metadata.insert(metadata.end(), made.more.begin(), made.more.end());
  std::string bytes =
      "GGUF" + Bytes(made.version) + Bytes<uint64_t>(made.tensors.size()) + Bytes<uint64_t>(metadata.size());
  for (const std::string& entry : metadata) bytes += entry;
  for (const std::string& tensor : made.tensors) bytes += tensor;
  return bytes + std::string((32 - bytes.size() % 32) % 32, '\0') + made.data;
}

}  // namespace distill::testing::gguf
