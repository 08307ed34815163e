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
#include "libdistill/store/file_writer.h"
#include "libdistill/store/followed_folder.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/store/store.h"

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

absl::Status WriteTensor(const std::string& path, const Entry& entry, TensorWriter write, ByteSink sink) {
  const auto& [name, view] = entry;
  int64_t bytes = 0;
  DISTILL_RETURN_IF_ERROR(write(name, [&](absl::string_view piece) {
    bytes += static_cast<int64_t>(piece.size());
    return sink(piece);
  }));
  if (bytes == view.size_bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(path, ": tensor \"", name, "\" has ", view.size_bytes, " bytes, and ", bytes, " were written"));
}

// What comes before the tensors: the header and its length.
std::string BeginOf(absl::string_view header) {
  std::string begin(8, '\0');
  for (size_t i = 0; i < begin.size(); ++i) begin[i] = static_cast<char>(header.size() >> (8 * i));
  begin.append(header.data(), header.size());
  return begin;
}

absl::Status WriteBytes(const std::string& path, absl::string_view begin, const std::vector<const Entry*>& order,
                        TensorWriter write, ByteSink sink) {
  DISTILL_RETURN_IF_ERROR(sink(begin));
  for (const Entry* entry : order) DISTILL_RETURN_IF_ERROR(WriteTensor(path, *entry, write, sink));
  return absl::OkStatus();
}

absl::Status WriteLocal(const std::string& path, absl::string_view begin, const std::vector<const Entry*>& order,
                        TensorWriter write_tensor) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("create", path, errno);
  const std::shared_ptr<FileFollower> follower = FollowerOf(path);
  auto size_bytes = static_cast<int64_t>(begin.size());
  for (const Entry* entry : order) size_bytes += entry->second.size_bytes;
  absl::Status status = WriteBytes(path, begin, order, write_tensor, [&](absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError("write", path, errno, size_bytes);
      if (follower != nullptr) follower->Add(bytes.substr(0, static_cast<size_t>(written)));
      bytes.remove_prefix(written);
    }
    return absl::OkStatus();
  });
  if (status.ok()) EndFollowed(follower.get(), fd);
  if (status.ok() && fsync(fd) != 0) status = FileError("sync", path, errno, size_bytes);
  if (close(fd) != 0 && status.ok()) status = FileError("close", path, errno);
  return status;
}

absl::Status WriteRemote(const std::string& path, absl::string_view begin, const std::vector<const Entry*>& order,
                         TensorWriter write) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(
      WriteBytes(path, begin, order, write, [&](absl::string_view bytes) { return file->Append(bytes); }));
  return file->Commit();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata, TensorWriter write) {
  const std::vector<const Entry*> order = OrderOf(tensors);
  absl::StatusOr<std::string> header = HeaderOf(order, metadata);
  if (!header.ok()) return Annotate(header.status(), path);
  const std::string begin = BeginOf(*header);
  return IsRemote(path) ? WriteRemote(path, begin, order, write) : WriteLocal(path, begin, order, write);
}

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  return WriteSafetensors(path, tensors, metadata, [&](const std::string& name, ByteSink sink) {
    const TensorView& view = tensors.at(name);
    return sink({static_cast<const char*>(view.data), static_cast<size_t>(view.size_bytes)});
  });
}

}  // namespace distill
