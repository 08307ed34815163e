#include "libdistill/text/case_folding.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace distill {
namespace {

constexpr char32_t kEndOfCase = 0x20000;  // the planes behind have no letters with case

std::u32string FoldingOf(char32_t character) {
  std::array<utf8proc_int32_t, 4> parts;  // the longest has 3
  int bounds = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_CASEFOLD, &bounds);
  std::u32string folding;
  for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(count, parts.size()); ++i) {
    folding.push_back(static_cast<char32_t>(parts[i]));
  }
  return folding.empty() ? std::u32string(1, character) : folding;
}

std::vector<CaseGroup> MakeGroups() {
  std::map<std::u32string, std::vector<char32_t>> by_folding;
  for (char32_t c = 0; c < kEndOfCase; ++c) {
    std::u32string folding = FoldingOf(c);
    if (folding.size() == 1 && folding[0] == c) continue;
    std::vector<char32_t>& members = by_folding[folding];
    if (members.empty() && folding.size() == 1) members.push_back(folding[0]);
    members.push_back(c);
  }
  std::vector<CaseGroup> groups;
  for (auto& [folding, members] : by_folding) groups.push_back({folding, std::move(members)});
  return groups;
}

}  // namespace

const std::vector<CaseGroup>& CaseGroups() {
  static const auto* const groups = new std::vector<CaseGroup>(MakeGroups());
  return *groups;
}

const CaseGroup* CaseGroupOf(char32_t character) {
  static const auto* const by_member = [] {
    auto* const index = new std::unordered_map<char32_t, const CaseGroup*>();
    for (const CaseGroup& group : CaseGroups()) {
      for (const char32_t member : group.members) index->emplace(member, &group);
    }
    return index;
  }();
  const auto found = by_member->find(character);
  return found == by_member->end() ? nullptr : found->second;
}

bool EndsWithJointFolding(std::u32string_view folded) {
  static const auto* const joint = [] {
    auto* const foldings = new std::vector<std::u32string_view>();
    for (const CaseGroup& group : CaseGroups()) {
      if (group.folding.size() > 1) foldings->push_back(group.folding);
    }
    return foldings;
  }();
  return std::any_of(joint->begin(), joint->end(), [&](std::u32string_view folding) {
    return folded.size() >= folding.size() && folded.substr(folded.size() - folding.size()) == folding;
  });
}

}  // namespace distill
