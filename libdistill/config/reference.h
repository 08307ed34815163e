// What a program says of its options: the words of --help, and the page docs/config.md.
#pragma once

#include <string>

#include "libdistill/config/command_line.h"
#include "libdistill/core/description.h"

namespace distill {

// "what the learning rate does after the warm-up: cosine, linear or constant"
std::string HelpOf(const FieldDescription& field);
// What --help KEY prints: the option with its values, its default and its other names.
std::string DescribeOption(const FieldDescription& field);
// "INT", "PATH", ...
std::string TypeOf(const FieldDescription& field);

// Every option with its default, its values and its other names; the maps of config files; other tools' names.
std::string OptionsAsMarkdown(const ProgramText& program, const Description& settings, const Description& flags);

}  // namespace distill
