// Ends a text that comes in pieces before the first of some strings.
//
//   StopStrings stops({"\nQuestion:"});
//   while (!stops.found()) std::cout << stops.Add(NextPiece());
//   std::cout << stops.Finish();
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

// What comes out does not depend on where pieces begin and end: a string counts that is complete first, and of those
// that end together the longest.
class StopStrings {
 public:
  // None of them is empty; there may be none.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // What can be shown of the text so far and was not yet: not what may be the beginning of a string. "" once one was
  // found.
  std::string Add(absl::string_view piece);
  // What was kept back, when no more comes.
  std::string Finish();
  bool found() const { return found_; }

 private:
  size_t WaitingBytes() const;

  const std::vector<std::string> strings_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace distill
