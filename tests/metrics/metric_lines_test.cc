#include "libdistill/metrics/metric_lines.h"

#include <string>

#include "tests/support/catch.h"

namespace distill {
namespace {

// What `show` prints.
template <typename Show>
std::string Printed(const Show& show) {
  FILE* file = std::tmpfile();
  show(file);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  REQUIRE(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  return text;
}

TEST_CASE("a record is a line with train_loss, an evaluation a line for each metric") {
  const std::string printed = Printed([](FILE* out) {
    MetricLines lines(out);
    TrainingControl control;
    CHECK(lines.OnLog({3, 10, {{"loss", 1.25}, {"kl", 2}, {"epoch", 0.5}}}, control) == absl::OkStatus());
    CHECK(lines.OnEvaluate({3, 0.5, {{"accuracy", 0.75}, {"loss", 1e-7}}}, control) == absl::OkStatus());
  });
  CHECK(printed == "train_loss = 1.25\nepoch = 0.5\neval_accuracy = 0.75\neval_loss = 1e-07\nepoch = 0.5\n");
}

TEST_CASE("a task without tokens has no tokens per second, but samples and steps") {
  CHECK(SpeedsOf({.seconds = 4, .samples = 16, .steps = 2}) ==
        NamedValues{{"train_runtime", 4}, {"train_samples_per_second", 4}, {"train_steps_per_second", 0.5}});
  CHECK(SpeedsOf({.seconds = 4, .samples = 16, .steps = 2, .tokens = 8}).back() ==
        std::pair<std::string, double>("train_tokens_per_second", 2));
}

}  // namespace
}  // namespace distill
