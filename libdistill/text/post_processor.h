// What is put around the tokens of one or two texts: the "post_processor" of tokenizer.json. Internal to text/.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/encoding.h"

namespace distill {

class PostProcessor {
 public:
  // Of the member "post_processor", which may be null. InvalidArgument: a kind that is not supported, or options that
  // make no sense.
  [[nodiscard]] static absl::StatusOr<PostProcessor> Parse(const nlohmann::json& json);

  // How many special tokens it adds.
  int64_t CountAdded(bool has_second) const;

  struct Input {
    absl::string_view text;
    Encoding encoding;
  };
  // One input or two become one. `token` spells an id.
  Encoding Join(std::vector<Input> inputs, bool add_special_tokens,
                absl::FunctionRef<absl::string_view(int32_t)> token) const;

 private:
  struct Piece {
    int text = -1;             // 0, 1: that text's tokens
    std::vector<int32_t> ids;  // else these
    int32_t type_id = 0;
  };
  using Template = std::vector<Piece>;
  // Spaces that byte-level tokens begin or end with are not counted to them.
  struct Trimming {
    bool add_prefix_space;
  };

  [[nodiscard]] absl::Status Add(const nlohmann::json& part);
  [[nodiscard]] absl::Status AddTrimming(const nlohmann::json& part);
  [[nodiscard]] absl::Status AddTemplates(const nlohmann::json& part);
  [[nodiscard]] absl::Status AddBert(const nlohmann::json& part, bool is_roberta);
  [[nodiscard]] static absl::StatusOr<Template> ParseTemplate(const nlohmann::json& pieces,
                                                              const nlohmann::json& tokens, bool has_second);
  static void Trim(const Trimming& trimming, absl::string_view text,
                   absl::FunctionRef<absl::string_view(int32_t)> token, Encoding* encoding);

  std::vector<Trimming> trimmings_;
  std::optional<Template> single_, pair_;
  bool retypes_parts_ = false;  // type ids of parts cut off are those of the template, too
};

}  // namespace distill
