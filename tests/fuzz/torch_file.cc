// Bytes as pytorch_model.bin, in both of torch's formats.
#include <cstddef>
#include <cstdint>
#include <string>

#include "libdistill/store/torch_file.h"
#include "tests/fuzz/try_tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  distill::TryTensorFile(distill::TorchFile::Open(distill::MakeMemoryFile("pytorch_model.bin", bytes)));
  return 0;
}
