#include "libdistill/store/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

// Events of nlohmann's parser, which does not recurse; returning false stops it at once.
class Checker : public nlohmann::json_sax<nlohmann::json> {
 public:
  Checker(absl::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return Fail(absl::StrCat("the key \"", name, "\" is given twice in one object"));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const size_t end = std::min(position, text_.size());
    const auto line = 1 + std::count(text_.begin(), text_.begin() + end, '\n');
    // The parser quotes what it read last, which may be long.
    return Fail(absl::StrCat("line ", line, ": no valid JSON (", std::string(error.what()).substr(0, 160), ")"));
  }

  const absl::Status& status() const { return status_; }

 private:
  bool Enter() {
    if (keys_.size() >= static_cast<size_t>(max_depth_)) {
      return Fail(absl::StrCat("JSON nested deeper than ", max_depth_, " levels"));
    }
    keys_.emplace_back();
    return true;
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }
  bool Fail(const std::string& message) {
    status_ = absl::DataLossError(message);
    return false;
  }

  const absl::string_view text_;
  const int max_depth_;
  std::vector<std::unordered_set<std::string>> keys_;  // of every object or array that is open
  absl::Status status_;
};

}  // namespace

absl::Status CheckJson(absl::string_view text, int max_depth) {
  Checker checker(text, max_depth);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &checker);
  if (parsed) return absl::OkStatus();
  return checker.status().ok() ? absl::DataLossError("no valid JSON") : checker.status();
}

}  // namespace distill
