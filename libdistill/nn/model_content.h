// What a model was loaded from, by content and not by path: ranks compare it before they train, since each reads its
// own copy of the folder.
#pragma once

#include <map>
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
  // The Hugging Face folder that the model came from, where its tokenizer lies too, and what was in it; empty where
  // there is none.
  virtual std::string source_folder() const { return folder_; }
  const ModelContent& content() const { return content_; }
  void SetSource(const std::string& folder, ModelContent content) {
    folder_ = folder;
    content_ = std::move(content);
  }

  // A text that Save writes as `name` beside the weights, in place of the tokenizer folder's file of that name: the
  // chat template that the model was trained with. It is content, too: ranks must have the same. Replaces an earlier
  // one.
  void SaveFile(const std::string& name, const std::string& text);
  const std::map<std::string, std::string>& files() const { return files_; }  // name to text

 private:
  std::string folder_;
  ModelContent content_;
  std::map<std::string, std::string> files_;
};

// Of a module and all that it holds; names of a submodule's end with its path.
ModelContent ContentOf(const torch::nn::Module& module);

// A folder's config.json and tokenizer files. Its errors are those of reading them.
[[nodiscard]] absl::StatusOr<ModelContent> ReadContent(const std::string& folder);

// The files, beside config.json and the weights, that belong to a model.
const std::vector<std::string>& TokenizerFiles();

}  // namespace distill
