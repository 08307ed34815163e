// Bytes as a GGUF file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "libdistill/store/gguf.h"
#include "tests/fuzz/try_tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  distill::TryTensorFile(distill::GgufFile::Open(distill::MakeMemoryFile("model.gguf", bytes)));
  return 0;
}
