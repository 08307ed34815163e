// pytorch_model.bin: what torch.save writes of a state_dict (docs/formats.md, "Weights"), both as a zip file and as
// before torch 1.6. It is a pickle, which in Python could run any program; here nothing runs (pickle.h).
//
//   DISTILL_ASSIGN_OR_RETURN(auto file, TorchFile::Open("pytorch_model.bin"));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, file.Load("bert.pooler.dense.weight"));
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/tensor_file.h"
#include "libdistill/store/torch_pickle.h"

namespace distill {

class TorchFile : public TensorFile {
 public:
  // InvalidArgument: the pickle names something that weights do not need, holds other things than tensors, or types
  // that are not supported; the file is compressed, big-endian, or of another program. DataLoss: truncated or damaged;
  // nothing is allocated beyond a small multiple of the file's size. NotFound: no such file.
  [[nodiscard]] static absl::StatusOr<TorchFile> Open(const std::string& path);
  // The same, of a file that is open; what is read of it is read through it.
  [[nodiscard]] static absl::StatusOr<TorchFile> Open(std::shared_ptr<const ReadableFile> file);

 private:
  struct Storage {
    int64_t offset = 0;  // in the file
    int64_t size_bytes = 0;
  };
  // By key. The keys are texts of the pickle.
  using Storages = std::map<std::string, Storage, std::less<>>;

  explicit TorchFile(std::shared_ptr<const FileBytes> bytes) : TensorFile(std::move(bytes)) {}
  static absl::StatusOr<TorchFile> Of(std::shared_ptr<const FileBytes> bytes);
  absl::Status Parse();
  absl::Status ParseZip();
  absl::Status ParseLegacy();
  // Of the pickles that follow one another in `window`, the start of the file. OutOfRange: they go on behind it.
  absl::Status ParseLegacyPickles(absl::string_view window);
  absl::StatusOr<Storages> LegacyStorages(const PickleDocument& keys, const std::vector<PickledTensor>& tensors,
                                          int64_t begin) const;
  absl::Status AddTensors(const std::vector<PickledTensor>& tensors, const Storages& storages);
  absl::StatusOr<Place> PlaceOf(const PickledTensor& tensor, const Storages& storages) const;
};

}  // namespace distill
