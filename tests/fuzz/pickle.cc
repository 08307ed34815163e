// Bytes as a pickle of torch.save, and the tensors that it describes.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "libdistill/core/check.h"
#include "libdistill/store/torch_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto document = distill::PickleDocument::Parse(bytes, distill::TorchGlobals());
  if (!document.ok()) return 0;
  DISTILL_CHECK(document->size_bytes() > 0 && document->size_bytes() <= static_cast<int64_t>(size), "a pickle's size");
  const auto tensors = distill::TensorsOf(*document);
  if (!tensors.ok()) return 0;
  for (const auto& tensor : *tensors) {
    DISTILL_CHECK(tensor.type != nullptr && tensor.shape.size() == tensor.strides.size(), "a tensor's parts");
  }
  return 0;
}
