// Gradients of embeddings, of which only the blocks with values travel: against the sums of all values.
#include "libdistill/gradients/gradient_blocks.h"
#include "libdistill/core/field_text.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

// Which rows of the embedding have values on a rank in a case.
struct Pattern {
  const char* name;
  bool travels_packed;
  std::function<bool(int64_t row, int rank)> has_values;
};

const std::vector<Pattern>& AllPatterns() {
  static const auto& patterns = *new std::vector<Pattern>{
      {"no rows", true, [](int64_t, int) { return false; }},
      {"all rows", false, [](int64_t, int) { return true; }},
      {"the same rows", true, [](int64_t row, int) { return row % 1000 == 7; }},
      {"other rows on each rank", true, [](int64_t row, int rank) { return row % 1000 == 7 + 50 * rank; }},
      {"rows of rank 0 alone", true, [](int64_t row, int rank) { return rank == 0 && row > 15000; }},
      {"all rows of one rank alone", false, [](int64_t, int rank) { return rank == 0; }},
      {"the first rows and the last", true, [](int64_t row, int) { return row < 40 || row >= kEmbeddingRows - 40; }},
  };
  return patterns;
}

constexpr int64_t kColumns = 8;

// Whole numbers, so that sums are exact, also in bfloat16.
torch::Tensor GradientOf(const Pattern& pattern, int rank) {
  torch::Tensor values = torch::zeros({kEmbeddingRows, kColumns});
  auto* data = static_cast<float*>(values.data_ptr());
  for (int64_t row = 0; row < kEmbeddingRows; ++row) {
    if (!pattern.has_values(row, rank)) continue;
    for (int64_t c = 0; c < kColumns; ++c) {
      data[row * kColumns + c] = static_cast<float>((row + 3 * c) % 17 - 8 * (rank % 2));
    }
  }
  return values;
}

struct Module : torch::nn::Module {
  torch::Tensor bias = register_parameter("bias", torch::ones({301}));
  torch::Tensor words = register_parameter("words", torch::ones({kEmbeddingRows, kColumns}));
};

absl::Status CompareWithAllValues(const World& world, BackendPreference backend, GradientCompression compression) {
  torch::set_num_threads(1);
  setenv("FI_TCP_IFACE", "lo", 1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm,
                           CreateCommunicator(world, {.backend = backend, .timeout = absl::Seconds(60)}));
  Module module;
  const auto parameters = CollectParameters(module, {}).value();
  DISTILL_ASSIGN_OR_RETURN(const auto reducer,
                           GradientReducer::Create(*comm, parameters, {.compression = compression}));
  for (int step = 0; step < 2; ++step) {
    for (const Pattern& pattern : AllPatterns()) {
      const torch::Tensor words = GradientOf(pattern, world.rank);
      const torch::Tensor bias = torch::full({301}, static_cast<double>(world.rank + 1));
      reducer->StartStep();
      ((module.words * words).sum() + (module.bias * bias).sum()).backward();
      absl::Status mine;
      DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
      DISTILL_RETURN_IF_ERROR(mine);
      DISTILL_RETURN_IF_ERROR(AllReduceSum(*comm, words));
      DISTILL_RETURN_IF_ERROR(AllReduceSum(*comm, bias));
      const GradientBuckets& buckets = reducer->buckets();
      const std::string where = absl::StrCat(pattern.name, ", step ", step, ", ", FieldText(compression));
      DISTILL_RETURN_IF_ERROR(Expect(torch::equal(buckets.gradient(0), bias), where + ": the bias has other sums"));
      DISTILL_RETURN_IF_ERROR(Expect(torch::equal(buckets.gradient(1), words), where + ": the words have other sums"));
      const auto squares_of = [](const torch::Tensor& t) {
        return t.to(torch::kFloat64).square().sum().item<double>();
      };
      const double squares = squares_of(words) + squares_of(bias);
      DISTILL_RETURN_IF_ERROR(Expect(buckets.Norm() == std::sqrt(squares), where + ": another norm"));
      const bool packed = buckets.bucket(0).summed < buckets.bucket(0).values.numel();
      const bool expected = world.world_size > 1 && pattern.travels_packed;
      DISTILL_RETURN_IF_ERROR(Expect(packed == expected, absl::StrCat(where, ": packed is ", packed)));
    }
  }
  return absl::OkStatus();
}

TEST_CASE("an embedding's gradients are the sums of all values, whichever rows ranks use") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const GradientCompression compression : {GradientCompression::kNone, GradientCompression::kBf16}) {
        INFO(ranks << " ranks over " << FieldText(backend) << ", compression " << FieldText(compression));
        CHECK(Failures(RunRanks(ranks, absl::Seconds(60), [&](const World& world) {
                return CatchTorch([&] { return CompareWithAllValues(world, backend, compression); });
              })) == "");
      }
    }
  }
}

TEST_CASE("packed blocks come back to their places, with zeros between") {
  for (const int64_t count : {0, 1, 255, 256, 257, 512, 10 * 256 + 3, 64 * 256}) {
    for (const int64_t every : {1, 3, 4, 7, 100}) {
      for (const int64_t first : {0, 2, 6}) {
        std::vector<float> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
          const int64_t block = i / kGradientBlock;
          if (block % every == first % every && i % 5 == 4) values[static_cast<size_t>(i)] = static_cast<float>(i + 1);
        }
        const std::vector<float> before = values;
        const std::vector<uint8_t> marks = MarkBlocks(values.data(), count);
        if (!WorthPacking(marks)) continue;
        const int64_t packed = PackBlocks(values.data(), count, marks);
        CHECK(2 * packed <= count);
        const auto sum = [](const auto& from, int64_t to) {
          return std::accumulate(from.begin(), from.begin() + to, 0.0);
        };
        CHECK(sum(values, packed) == sum(before, count));
        SpreadBlocks(values.data(), count, marks);
        INFO("count " << count << ", every " << every << " from " << first);
        CHECK(values == before);
      }
    }
  }
}

TEST_CASE("a negative zero and a NaN travel, and few zeros are not packed") {
  constexpr int64_t kCount = 100 * kGradientBlock;
  std::vector<float> values(kCount);
  values[17 * kGradientBlock + 200] = -0.0f;
  values[99 * kGradientBlock] = std::nanf("");
  std::vector<uint8_t> marks = MarkBlocks(values.data(), kCount);
  CHECK(std::count(marks.begin(), marks.end(), 1) == 2);
  CHECK((marks[17] == 1 && marks[99] == 1));
  CHECK(PackBlocks(values.data(), kCount, marks) == 2 * kGradientBlock);
  SpreadBlocks(values.data(), kCount, marks);
  CHECK(std::signbit(values[17 * kGradientBlock + 200]));
  CHECK(std::isnan(values[99 * kGradientBlock]));
  CHECK(std::accumulate(values.begin(), values.end() - kGradientBlock, 0.0) == 0);
  for (int64_t b = 0; b < 50; ++b) values[static_cast<size_t>(b * kGradientBlock)] = 1;
  marks = MarkBlocks(values.data(), kCount);
  CHECK_FALSE(WorthPacking(marks));
  CHECK(marks.back() == 1);
}

}  // namespace
}  // namespace distill
