// Where the tokens of a text stand in it: for tasks whose answers are parts of a text.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// The bytes [begin, end) of `text`, valid UTF-8, that each of `ids` stands for, where `ids` are what the tokenizer
// makes of it. They are exact to the byte, also where a token ends within a character. A space that the tokenizer put
// before the text is of no width. Where normalization changes something (Unicode's form C), a token that touches it
// gets all that stands between the ASCII characters around: most often a letter with its marks. InvalidArgument: a
// token that is not in the text at its place.
[[nodiscard]] absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> OffsetsOf(const Tokenizer& tokenizer,
                                                                                 absl::string_view text,
                                                                                 absl::Span<const int32_t> ids);

}  // namespace distill
