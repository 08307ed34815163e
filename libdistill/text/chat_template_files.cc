#include "libdistill/text/chat_template_files.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

// tokenizer_config.json with another template: its only one, or the "default" of its list.
void SetTemplate(nlohmann::ordered_json& entry, const std::string& text) {
  if (!entry.is_array()) {
    entry = text;
    return;
  }
  for (nlohmann::ordered_json& named : entry) {
    if (named.is_object() && named.value("name", "") == "default") named["template"] = text;
  }
}

}  // namespace

absl::StatusOr<Files> FilesOf(const ChatTemplate& chat, const std::string& tokenizer_folder) {
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(tokenizer_folder));
  if (tokenizer.chat_template() == chat.text()) return Files();
  Files files = {{"chat_template.jinja", chat.text()}};
  const std::string path = JoinPath(tokenizer_folder, "tokenizer_config.json");
  if (!FileExists(path)) return files;
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("chat_template") || config["chat_template"].is_null()) return files;
  SetTemplate(config["chat_template"], chat.text());
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  files.emplace_back("tokenizer_config.json", config.dump(2, ' ', /*ensure_ascii=*/false, kReplace) + "\n");
  return files;
}

}  // namespace distill
