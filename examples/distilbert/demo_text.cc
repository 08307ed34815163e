#include "examples/distilbert/demo_text.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/random.h"

namespace distill {
namespace {

// What a kind of thing can be, in each slot of a sentence.
enum Slot : size_t { kNoun, kLike, kDoes, kObject, kPlace };
constexpr size_t kSlots = 5;
using Kind = std::array<const char*, kSlots>;
constexpr Kind kWorld[] = {
    {"fox wolf bear deer owl hare badger otter", "red wild hungry grey quiet quick",
     "hunts follows hears smells watches chases", "mouse berry trail nest feather shadow",
     "forest meadow den river valley hill"},
    {"baker doctor teacher farmer sailor painter miller tailor", "young kind tired busy old cheerful",
     "buys sells carries paints repairs borrows", "bread letter book hat coat lamp",
     "market school harbour kitchen village street"},
    {"ship boat ferry raft canoe barge yacht tug", "wooden slow heavy white leaking narrow",
     "crosses passes leaves reaches rounds nears", "island pier lighthouse reef buoy cliff",
     "bay sea lake strait canal coast"},
    {"engine train tram crane lorry tractor mill clock", "loud rusty new steel broken powerful",
     "pulls lifts drives turns pushes shakes", "wagon stone wheel beam chain bell",
     "station yard factory mine tunnel tower"},
};
constexpr const char* kSentences[] = {
    "the %like %noun %does the %object in the %place .",
    "near the %place the %noun %does a %object .",
    "because it is %like , the %noun %does the %object .",
    "every day the %noun is %like and %does the %object .",
    "the %noun of the %place is %like .",
    "in the %place a %like %noun %does another %object .",
};
constexpr size_t kSentenceForms = std::size(kSentences);

std::vector<std::string> Words(const char* list) { return absl::StrSplit(list, ' '); }

// Preferences are the world's, and of no seed: a noun's own, over the words of a slot.
size_t Choose(Random& random, size_t kind, size_t noun, Slot slot, size_t words) {
  std::vector<double> up_to;
  double sum = 0;
  for (size_t word = 0; word < words; ++word) {
    Random preference(0x776f726c64 + kind, (noun * kSlots + slot) * 64 + word);
    up_to.push_back(sum += std::exp(4 * preference.Uniform()));
  }
  const double drawn = random.Uniform() * sum;
  size_t word = 0;
  while (word + 1 < words && up_to[word] <= drawn) ++word;
  return word;
}

std::string Sentence(Random& random, size_t kind, size_t noun) {
  const std::vector<std::string> form = Words(kSentences[random.Below(kSentenceForms)]);
  std::string text;
  for (const std::string& word : form) {
    const Slot slot = word == "%noun"     ? kNoun
                      : word == "%like"   ? kLike
                      : word == "%does"   ? kDoes
                      : word == "%object" ? kObject
                                          : kPlace;
    std::string chosen = word;
    if (word[0] == '%') {
      const std::vector<std::string> words = Words(kWorld[kind][slot]);
      chosen = words[slot == kNoun ? noun : Choose(random, kind, noun, slot, words.size())];
    }
    absl::StrAppend(&text, text.empty() ? "" : " ", chosen);
  }
  return text;
}

}  // namespace

std::vector<std::string> DemoTexts(uint64_t seed, int64_t count) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    const size_t kind = random.Below(std::size(kWorld)), noun = random.Below(Words(kWorld[kind][kNoun]).size());
    std::string& text = texts.emplace_back();
    for (uint64_t left = 4 + random.Below(4); left > 0; --left) {
      absl::StrAppend(&text, text.empty() ? "" : " ", Sentence(random, kind, noun));
    }
  }
  return texts;
}

std::vector<std::string> DemoWords() {
  std::set<std::string> words;
  for (const Kind& kind : kWorld) {
    for (const char* list : kind) {
      for (const std::string& word : Words(list)) words.insert(word);
    }
  }
  for (const char* sentence : kSentences) {
    for (const std::string& word : Words(sentence)) {
      if (word[0] != '%') words.insert(word);
    }
  }
  return {words.begin(), words.end()};
}

}  // namespace distill
