// A batch (data/sample.h) as torch tensors, on the device of the model.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "libdistill/data/sample.h"

namespace distill {

struct TensorBatch : Batch {
  TensorBatch() = default;
  TensorBatch(Batch batch) : Batch(std::move(batch)) {}  // NOLINT: every batch is one

  // A tensor by its name: of the batch's type and shape, on the device that Load named. Throws c10::Error, with the
  // names that there are.
  torch::Tensor operator[](const std::string& name) const;

  // Views of the host's tensors, which share their memory; with `copies`, the stream of a GPU, copies on that GPU, for
  // which this thread does not wait.
  void Load(const c10::Stream* copies);

 private:
  std::map<std::string, torch::Tensor> loaded_;
  std::shared_ptr<c10::Event> there_;  // of the copies; null on the host
};

}  // namespace distill
