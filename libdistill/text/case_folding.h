// Which characters are the same where case does not count: those that Unicode's full case folding (CaseFolding.txt,
// statuses C and F) makes the same. Internal to text/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distill {

// 'k', 'K' and U+212A with the folding "k"; U+00DF and U+1E9E with the folding "ss".
struct CaseGroup {
  std::u32string folding;
  std::vector<char32_t> members;
};

// Every character that has another one in its group, or folds to several.
const std::vector<CaseGroup>& CaseGroups();

// nullptr: it has no case.
const CaseGroup* CaseGroupOf(char32_t character);

// Whether `folded`, a text of folded characters, ends with what a single character folds to: "ss".
bool EndsWithJointFolding(std::u32string_view folded);

}  // namespace distill
