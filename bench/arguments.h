// A benchmark program's command line, by CLI11. It is compiled once here: each program that includes CLI11 itself takes
// longer for that than for all it measures.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace distill {

// One argument's rules. All end the program with a message in Arguments::Parse.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}
  Argument& Required();
  Argument& Positive();
  Argument& Between(int64_t least, int64_t most);
  Argument& Share();  // from 0 to 1
  Argument& OneOf(const std::vector<std::string>& values);

 private:
  CLI::Option* option_;
};

class Arguments {
 public:
  explicit Arguments(const std::string& what_the_program_does);
  ~Arguments();
  Arguments(Arguments&&) noexcept;

  // `name`: "--name", or without the dashes the next word. `value` holds the default and must outlive Parse.
  // Value: int, int64_t, double, bool ("--name true"), std::string, and vectors of int, int64_t and std::string, whose
  // elements are separated by commas.
  template <typename Value>
  Argument Add(const std::string& name, Value& value, const std::string& help = "");
  // "--name" alone sets it.
  void AddFlag(const std::string& name, bool& value, const std::string& help = "");
  // One of the program's commands, of which there must be one; *this must outlive it.
  Arguments AddCommand(const std::string& name);

  // The exit code of a program that ends here: after --help, or a message on standard error about bad arguments.
  std::optional<int> Parse(int argc, char** argv);
  // Whether this command was asked for, after Parse.
  bool asked() const;

 private:
  explicit Arguments(CLI::App* command);
  std::unique_ptr<CLI::App> own_;  // null: a command, which belongs to its program's
  CLI::App* app_;
};

}  // namespace distill
