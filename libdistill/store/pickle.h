// Python's pickles as plain data. A pickle is a program: it names functions and calls them with what it has built.
// Here nothing is called: a call is kept as a record of the function's name and arguments, and a name that is not in
// the reader's table is refused.
//
//   DISTILL_ASSIGN_OR_RETURN(const PickleDocument document, PickleDocument::Parse(bytes, kGlobals));
//   if (document.root().kind == PickleValue::Kind::kDict) ... document.Items(document.root()) ...
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace distill {

// A name that a pickle may have, as the module and the name within it.
struct PickleGlobal {
  enum class Use : uint8_t {
    kName,  // it is only named
    kCall,  // it may be called: the document has a kCall
    kDict,  // called without arguments it makes a dictionary
  };
  const char* module;
  const char* name;
  Use use;
  int64_t id;  // the reader's own
};

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInteger,
    kLong,   // an integer beyond 64 bits; Text has its bytes, little-endian
    kFloat,  // its value is not kept
    kText,   // UTF-8, or what Python 2 has for text; not checked
    kBytes,
    kTuple,
    kList,
    kDict,        // Items has each key and, after it, its value
    kGlobal,      // integer is its id
    kCall,        // integer is the id of what is called, Items are its arguments
    kPersistent,  // an object outside of the pickle; Items has one item, which says which
  };
  Kind kind = Kind::kNone;
  uint32_t index = 0;   // the document's own
  int64_t integer = 0;  // of kBool, kInteger, kGlobal and kCall
};

class PickleDocument {
 public:
  // More of either is refused; the weights of the largest models stay far below.
  static constexpr int64_t kMaxBytes = 100'000'000;
  static constexpr int64_t kMaxValues = 10'000'000;

  // The pickle at the start of `bytes`, which must outlive the document; protocols 2 to 5, as far as torch.save uses
  // them. OutOfRange: it goes on beyond `bytes`. DataLoss: it is damaged, or has other instructions. InvalidArgument: a
  // name that is not in `globals`. The memory is proportional to `bytes`.
  [[nodiscard]] static absl::StatusOr<PickleDocument> Parse(absl::string_view bytes,
                                                            absl::Span<const PickleGlobal> globals);

  const PickleValue& root() const { return root_; }
  // Of a text, bytes or a kLong; empty for others.
  absl::string_view Text(const PickleValue& value) const;
  // Of a tuple, list, dictionary, call or persistent object; empty for others. They may hold each other in a ring.
  absl::Span<const PickleValue> Items(const PickleValue& value) const;
  int64_t size_bytes() const { return size_bytes_; }  // of the pickle

 private:
  friend class PickleMachine;

  PickleValue root_;
  int64_t size_bytes_ = 0;
  std::vector<absl::string_view> texts_;
  std::vector<std::vector<PickleValue>> nodes_;
};

}  // namespace distill
