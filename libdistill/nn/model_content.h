// What a model was loaded from, by content and not by path: ranks compare it before they train, since each reads its
// own copy of the folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"

namespace distill {

// Names and values: each field of config.json that is computed with, a hash of each tokenizer file, and "weights", a
// hash of the weights that were read.
using ModelContent = std::vector<std::pair<std::string, std::string>>;

// What a model that comes out of a folder derives from.
class HasContent {
 public:
  virtual ~HasContent() = default;
  // Empty for a model that came from no folder.
  const ModelContent& content() const { return content_; }
  void SetContent(ModelContent content) { content_ = std::move(content); }

 private:
  ModelContent content_;
};

// Of a module and all that it holds; names of a submodule's end with its path.
ModelContent ContentOf(const torch::nn::Module& module);

// A folder's config.json and tokenizer files. Its errors are those of reading them.
[[nodiscard]] absl::StatusOr<ModelContent> ReadContent(const std::string& folder);

// The files, beside config.json and the weights, that belong to a model.
const std::vector<std::string>& TokenizerFiles();

}  // namespace distill
