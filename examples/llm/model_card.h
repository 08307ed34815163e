// The page of a distilled model, README.md of its folder: metadata that the Hugging Face hub reads, how the model was
// made, what it reached, and how to load it.
//
//   const std::string text = ModelCardText({.name = "org/student", .teacher = "Qwen/Qwen2-7B", ...});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

constexpr char kPageFile[] = "README.md";  // of a model's folder

// In every page that ModelCardText has made. One without it is a person's.
constexpr char kCardMarker[] = "<!-- made by libdistill;";

using CardRows = std::vector<std::pair<std::string, std::string>>;

// Teacher, student and data sets: names on the hub ("org/name") become links and metadata; of others, the last part of
// their path is shown.
struct ModelCard {
  std::string name;                 // on the hub, or of the model's folder
  std::string teacher;              // empty: trained on labels alone
  std::string student;              // what training began with
  bool student_has_weights = true;  // false: it gave no more than a shape, and training began with random weights
  std::vector<std::string> data_sets = {};
  std::string license = {};  // as the hub calls it ("apache-2.0"); empty: not known
  CardRows options = {};     // that are not the defaults
  CardRows figures = {};
  std::string version = {};  // of the library
};

std::string ModelCardText(const ModelCard& card);

// The value of `name` in the metadata at the top of a page, where that is one plain word; else "".
std::string MetadataOf(absl::string_view page, absl::string_view name);

}  // namespace distill
