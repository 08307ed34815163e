// The matrix products of a step by themselves, one thread: what a recipe's step takes at least on this machine.
//
//   build/bin/bench_products 512x768x3072*12 512x768x30522:forward 96@64x64x64*6 [--bf16]
//
// ROWSxINxOUT*COUNT: x [rows, in] times a weight [out, in], COUNT times; with the two products of its backward pass,
// unless it ends in :forward. BATCH@: so many of them at once, as attention's heads. Each is timed several times, the
// best counts. Prints {"products_ms": the sum}.
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/arguments.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int kRepetitions = 3;

struct Product {
  int64_t batch = 1, rows = 0, in = 0, out = 0, count = 1;
  bool with_gradients = true;
};

absl::StatusOr<Product> Parse(absl::string_view text) {
  Product product;
  const std::string all(text);
  product.with_gradients = !absl::ConsumeSuffix(&text, ":forward");
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar("@x*"))) {
    if (int64_t& number = numbers.emplace_back(); absl::SimpleAtoi(part, &number) && number > 0) continue;
    numbers.clear();
    break;
  }
  const bool has_batch = absl::StrContains(text, "@"), has_count = absl::StrContains(text, "*");
  if (numbers.size() != 3u + has_batch + has_count) {
    return absl::InvalidArgumentError(absl::StrCat("'", all, "' is not [BATCH@]ROWSxINxOUT[*COUNT][:forward]"));
  }
  const int64_t* number = numbers.data();
  if (has_batch) product.batch = *number++;
  product.rows = *number++;
  product.in = *number++;
  product.out = *number++;
  if (has_count) product.count = *number;
  return product;
}

double SecondsOf(const torch::Tensor& a, const torch::Tensor& b) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    torch::matmul(a, b);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) best = std::min(best, seconds);  // the first one allocates
  }
  return best;
}

double SecondsOf(const Product& product, torch::Dtype dtype) {
  const auto random = [&](int64_t a, int64_t b) {
    return (product.batch == 1 ? torch::randn({a, b}) : torch::randn({product.batch, a, b})).to(dtype);
  };
  const torch::Tensor x = random(product.rows, product.in), weight = random(product.out, product.in);
  double seconds = SecondsOf(x, weight.transpose(-1, -2));
  if (product.with_gradients) {
    const torch::Tensor gradient = random(product.rows, product.out);
    seconds += SecondsOf(gradient, weight) + SecondsOf(gradient.transpose(-1, -2), x);
  }
  return seconds * static_cast<double>(product.count);
}

absl::StatusOr<double> Milliseconds(const std::vector<std::string>& texts, torch::Dtype dtype) {
  const torch::NoGradGuard no_grad;
  torch::set_num_threads(1);
  double seconds = 0;
  for (const std::string& text : texts) {
    DISTILL_ASSIGN_OR_RETURN(const Product product, Parse(text));
    seconds += SecondsOf(product, dtype);
  }
  return seconds * 1e3;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("A step's matrix products by themselves");
  std::vector<std::string> products;
  bool bf16 = false;
  arguments.Add("products", products, "[BATCH@]ROWSxINxOUT[*COUNT][:forward]").Required();
  arguments.AddFlag("--bf16", bf16, "of bfloat16");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::StatusOr<double> ms = distill::Milliseconds(products, bf16 ? torch::kBFloat16 : torch::kFloat32);
  if (!ms.ok()) std::fprintf(stderr, "error: %s\n", std::string(ms.status().message()).c_str());
  if (ms.ok()) std::printf("JSON {\"products_ms\": %.3f}\n", *ms);
  return ms.ok() ? 0 : 2;
}
