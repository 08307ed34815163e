// The tokenizer of a student and of the teacher whose logits it learns from: one for both.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// The folder whose tokenizer a run takes: the student's, or the teacher's where the student's has none. `teacher` may
// be empty.
std::string TokenizerFolderOf(const std::string& student, const std::string& teacher);

// Whether the folder `teacher` has the tokenizer of the folder `student`, which `tokenizer` is. InvalidArgument names
// both folders and the first id that is another token; errors of reading begin with teacher_model.
[[nodiscard]] absl::Status RequireTokenizerOf(const std::string& teacher, const std::string& student,
                                              const Tokenizer& tokenizer);

}  // namespace distill
