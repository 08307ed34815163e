#include "libdistill/plan/process_memory.h"

#include <malloc.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "libdistill/core/check.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/optim/adamw_sweep.h"
#include "libdistill/task/distiller.h"

namespace distill {
namespace {

DecoderConfig TinyShape() {
  DecoderConfig config;
  config.model_type = "qwen2";
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  config.tie_word_embeddings = true;
  config.query_key_value_bias = true;
  return config;
}

TokenBatch TinyBatch() {
  TokenBatch batch;
  batch.rows = 2;
  batch.length = 32;
  batch.input_ids.assign(64, 1);
  batch.labels.assign(64, 2);
  batch.document_starts = {{0, 32}, {0, 16, 32}};
  return batch;
}

void MakeTinyStep(torch::Dtype dtype) {
  const auto make = [&] {
    auto model = std::make_shared<Decoder>(TinyShape());
    model->to(dtype);
    return model;
  };
  const auto student = make();
  const auto distiller = Distiller::Create(make(), student, {});
  DISTILL_CHECK(distiller.ok(), std::string(distiller.status().message()));
  for (int step = 0; step < 2; ++step) (*distiller)(TinyBatch()).loss.backward();
  // Libraries of matrix products keep the memory that they pack blocks into: of these sizes, all that they keep.
  const torch::Tensor square = torch::ones({512, 512}, dtype);
  torch::mm(square, square);
  std::vector<float> values(1 << 12, 1.0f);
  SweepAdamW({.master = values.data(),
              .exp_avg = values.data(),
              .exp_avg_sq = values.data(),
              .gradient = values.data(),
              .count = static_cast<int64_t>(values.size())},
             AdamWFactors());
}

}  // namespace

ProcessMemory MeasureProcess(torch::Dtype dtype) {
  MakeTinyStep(dtype);
  malloc_trim(0);
  ProcessMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() < 2) continue;
    const int64_t bytes = std::atoll(words[1].c_str()) * 1024;
    if (words[0] == "RssAnon:") memory.own_bytes = bytes;
    if (words[0] == "RssFile:") memory.shared_bytes = bytes;
  }
  return memory;
}

}  // namespace distill
