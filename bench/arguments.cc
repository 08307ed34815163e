#include "bench/arguments.h"

#include <type_traits>

#include "CLI/CLI.hpp"

namespace distill {

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::Positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Argument& Argument::Between(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Argument& Argument::Share() {
  option_->check(CLI::Range(0.0, 1.0));
  return *this;
}

Argument& Argument::OneOf(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Arguments::Arguments(const std::string& what_the_program_does)
    : own_(std::make_unique<CLI::App>(what_the_program_does)), app_(own_.get()) {}
Arguments::Arguments(CLI::App* command) : app_(command) {}
Arguments::~Arguments() = default;
Arguments::Arguments(Arguments&&) noexcept = default;

template <typename Value>
Argument Arguments::Add(const std::string& name, Value& value, const std::string& help) {
  CLI::Option* const option = app_->add_option(name, value, help);
  if constexpr (std::is_same_v<Value, std::vector<int>> || std::is_same_v<Value, std::vector<int64_t>> ||
                std::is_same_v<Value, std::vector<std::string>>) {
    option->delimiter(',');
  }
  return Argument(option);
}
template Argument Arguments::Add(const std::string&, int&, const std::string&);
template Argument Arguments::Add(const std::string&, int64_t&, const std::string&);
template Argument Arguments::Add(const std::string&, double&, const std::string&);
template Argument Arguments::Add(const std::string&, bool&, const std::string&);
template Argument Arguments::Add(const std::string&, std::string&, const std::string&);
template Argument Arguments::Add(const std::string&, std::vector<int>&, const std::string&);
template Argument Arguments::Add(const std::string&, std::vector<int64_t>&, const std::string&);
template Argument Arguments::Add(const std::string&, std::vector<std::string>&, const std::string&);

void Arguments::AddFlag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

Arguments Arguments::AddCommand(const std::string& name) {
  app_->require_subcommand(1);
  return Arguments(app_->add_subcommand(name));
}

std::optional<int> Arguments::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error);
  }
  return std::nullopt;
}

bool Arguments::asked() const { return app_->parsed(); }

}  // namespace distill
