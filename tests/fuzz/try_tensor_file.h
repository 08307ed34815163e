// What every fuzzer of files of tensors does with one that opens: it reads all of them.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/core/check.h"
#include "libdistill/store/tensor_file.h"

namespace distill {

template <typename File>
void TryTensorFile(const absl::StatusOr<File>& file) {
  if (!file.ok()) {
    DISTILL_CHECK(!absl::IsOutOfRange(file.status()), "a file's error is no reader's");
    return;
  }
  volatile char last = 0;
  for (const auto& [name, about] : file->tensors()) {
    const absl::StatusOr<TensorView> view = file->Load(name);
    DISTILL_CHECK(view.ok(), "a tensor of a file that opens cannot be read");
    for (int64_t i = 0; i < view->size_bytes; ++i) last = static_cast<const char*>(view->data)[i];
    file->Forget(name);
  }
  (void)last;
}

}  // namespace distill
