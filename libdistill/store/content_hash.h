// A hash of bytes that come in pieces, by which ranks tell whether they read the same: XXH3 of 128 bits. It notices
// accidents, such as another file or a changed bit; it is no protection against somebody who wants to deceive.
//
//   ContentHash hash;
//   hash.Add(name).Add(data, size);
//   LogInfo(hash.Hex());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  ContentHash& Add(const void* data, size_t size);
  // The text and its length: texts that are added one after the other differ from other ones of the same letters.
  ContentHash& Add(absl::string_view text);
  // Of all that was added so far: 32 letters.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3 of 64 bits, of bytes that are all there.
uint64_t HashOfBytes(absl::string_view bytes);

// Of a file's bytes. NotFound, or what ReadFile says.
[[nodiscard]] absl::StatusOr<std::string> HashOfFile(const std::string& path);

}  // namespace distill
