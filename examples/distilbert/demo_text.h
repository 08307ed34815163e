// Texts that the program makes up, for a first run without data: a small world of four kinds of things, in which what a
// thing is like, does and where follows from what it is. So a masked word can be told from the others of its text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distill {

// `count` texts of four to seven sentences; text i is a function of `seed` and i. The world is always the same.
std::vector<std::string> DemoTexts(uint64_t seed, int64_t count);

// Every word of such texts, once each: for a tokenizer of their own (examples/distilbert/teacher).
std::vector<std::string> DemoWords();

}  // namespace distill
