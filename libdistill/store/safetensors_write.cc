#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/safetensors.h"

namespace distill {
namespace {

using Entry = std::pair<const std::string, TensorView>;

const char* FormatNameOf(DType dtype) {
  constexpr const char* kNames[] = {"F32", "F64", "F16", "BF16", "I32", "I64", "U8"};
  return kNames[static_cast<size_t>(dtype)];
}

// Wide elements first, so that every tensor is aligned to its element when the data start at a multiple of 8.
std::vector<const Entry*> OrderOf(const std::map<std::string, TensorView>& tensors) {
  std::vector<const Entry*> order;
  for (const Entry& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return SizeOf(a->second.dtype) > SizeOf(b->second.dtype); });
  return order;
}

absl::StatusOr<std::string> HeaderOf(const std::vector<const Entry*>& order,
                                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Entry* entry : order) {
    const auto& [name, view] = *entry;
    int64_t bytes = SizeOf(view.dtype);
    for (const int64_t size : view.shape) bytes *= size;
    if (bytes != view.size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\": its shape takes ", bytes, " bytes, but ",
                                                     view.size_bytes, " were given"));
    }
    header[name] = {
        {"dtype", FormatNameOf(view.dtype)}, {"shape", view.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("a tensor name or metadata is no UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

struct Output {
  int fd;
  const std::string& path;
  int64_t size_bytes;  // of the whole file
};

absl::Status WriteAll(const Output& output, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(output.fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", output.path, errno, output.size_bytes);
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status WriteTensor(const Output& output, const Entry& entry, TensorWriter write) {
  const auto& [name, view] = entry;
  int64_t bytes = 0;
  DISTILL_RETURN_IF_ERROR(write(name, [&](absl::string_view piece) {
    bytes += static_cast<int64_t>(piece.size());
    return WriteAll(output, piece);
  }));
  if (bytes == view.size_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(output.path, ": tensor \"", name, "\" has ", view.size_bytes, " bytes, and ",
                                          bytes, " were written"));
}

absl::Status WriteTo(int fd, const std::string& path, absl::string_view header, const std::vector<const Entry*>& order,
                     TensorWriter write) {
  std::string length(8, '\0');
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  Output output{fd, path, static_cast<int64_t>(length.size() + header.size())};
  for (const Entry* entry : order) output.size_bytes += entry->second.size_bytes;
  DISTILL_RETURN_IF_ERROR(WriteAll(output, length));
  DISTILL_RETURN_IF_ERROR(WriteAll(output, header));
  for (const Entry* entry : order) DISTILL_RETURN_IF_ERROR(WriteTensor(output, *entry, write));
  if (fsync(fd) != 0) return FileError("sync", path, errno, output.size_bytes);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata, TensorWriter write) {
  const std::vector<const Entry*> order = OrderOf(tensors);
  absl::StatusOr<std::string> header = HeaderOf(order, metadata);
  if (!header.ok()) return Annotate(header.status(), path);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("create", path, errno);
  absl::Status status = WriteTo(fd, path, *header, order, write);
  if (close(fd) != 0 && status.ok()) status = FileError("close", path, errno);
  return status;
}

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  return WriteSafetensors(path, tensors, metadata, [&](const std::string& name, ByteSink sink) {
    const TensorView& view = tensors.at(name);
    return sink({static_cast<const char*>(view.data), static_cast<size_t>(view.size_bytes)});
  });
}

}  // namespace distill
