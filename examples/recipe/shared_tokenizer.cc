#include "examples/recipe/shared_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

bool HasTokenizer(const std::string& folder) { return !folder.empty() && Tokenizer::IsIn(folder); }

}  // namespace

std::string TokenizerFolderOf(const std::string& student, const std::string& teacher) {
  return !HasTokenizer(student) && HasTokenizer(teacher) ? teacher : student;
}

absl::Status RequireTokenizerOf(const std::string& teacher, const std::string& student, const Tokenizer& tokenizer) {
  const absl::StatusOr<Tokenizer> teachers = Tokenizer::Load(teacher);
  if (!teachers.ok()) return Annotate(teachers.status(), "teacher_model");
  return Annotate(RequireSameTokenizer(*teachers, tokenizer), absl::StrCat(teacher, " and ", student));
}

}  // namespace distill
