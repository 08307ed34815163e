#include "libdistill/nn/model_content.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_fields.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/files.h"

namespace distill {

void HasContent::SaveFile(const std::string& name, const std::string& text) {
  const std::string key = absl::StrCat("hash of ", name);
  content_.erase(
      std::remove_if(content_.begin(), content_.end(), [&key](const auto& item) { return item.first == key; }),
      content_.end());
  content_.emplace_back(key, ContentHash().Add(text).Hex());
  files_[name] = text;
}

ModelContent ContentOf(const torch::nn::Module& module) {
  ModelContent all;
  const auto add = [&all](const torch::nn::Module& part, const std::string& suffix) {
    const auto* loaded = dynamic_cast<const HasContent*>(&part);
    if (loaded == nullptr) return;
    for (const auto& [name, value] : loaded->content()) all.emplace_back(name + suffix, value);
  };
  add(module, "");
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    add(*item.value(), absl::StrCat(" of ", item.key()));
  }
  return all;
}

absl::StatusOr<ModelContent> ReadContent(const std::string& folder) {
  constexpr size_t kLongestShown = 64;
  ModelContent content;
  DISTILL_ASSIGN_OR_RETURN(const ConfigText source, ReadConfigJson(folder));
  const absl::StatusOr<nlohmann::json> config = ParseConfigObject(source.text);
  if (!config.ok()) return Annotate(config.status(), source.name);
  for (const auto& [name, value] : config->items()) {
    if (IsBookkeepingField(name)) continue;
    const std::string shown = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    content.emplace_back(absl::StrCat("config.json's ", name),
                         shown.size() <= kLongestShown ? shown : ContentHash().Add(shown).Hex());
  }
  for (const std::string& name : TokenizerFiles()) {
    const std::string path = JoinPath(folder, name);
    if (!FileExists(path)) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string hash, HashOfFile(path));
    content.emplace_back(absl::StrCat("hash of ", name), hash);
  }
  return content;
}

const std::vector<std::string>& TokenizerFiles() {
  static const auto* const names = new std::vector<std::string>{"tokenizer.json",
                                                                "tokenizer_config.json",
                                                                "special_tokens_map.json",
                                                                "added_tokens.json",
                                                                "vocab.json",
                                                                "merges.txt",
                                                                "vocab.txt",
                                                                "tokenizer.model",
                                                                "chat_template.jinja",
                                                                "generation_config.json"};
  return *names;
}

}  // namespace distill
