#include "libdistill/nn/packed_matrix.h"

#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

TEST_CASE("products with a packed matrix are those of the matrix") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const auto& [out, in] : {std::pair<int64_t, int64_t>{1, 1}, {47, 33}, {130, 64}, {301, 257}}) {
      const torch::Tensor weight = torch::randn({out, in}).to(dtype);
      const auto packed = PackedMatrix::Of(weight);
      if (packed == nullptr) {
        CHECK(dtype == torch::kBFloat16);  // of which not all CPUs have products
        continue;
      }
      for (const int64_t rows : {1, 2, 7, 16, 64, 100}) {
        INFO(rows << " rows, " << out << " x " << in << " in " << dtype);
        // Rows that lie apart, as those of a view may.
        const torch::Tensor x = torch::randn({rows, 2 * in}).to(dtype).narrow(1, in / 2, in);
        const torch::Tensor found = packed->Multiply(x);
        CHECK(found.scalar_type() == torch::kFloat32);
        CHECK(RelativeError(found, at::linear(x.to(torch::kFloat64), weight.to(torch::kFloat64))) < 1e-5);
        CHECK(torch::equal(found, packed->Multiply(x)));
      }
    }
  }
}

TEST_CASE("what cannot be packed is not, and rows that do not fit are refused") {
  CHECK(PackedMatrix::Of(torch::randn({4, 4}, torch::kFloat64)) == nullptr);
  CHECK(PackedMatrix::Of(torch::randn({4, 8}).t()) == nullptr);
  const auto packed = PackedMatrix::Of(torch::randn({4, 8}));
  CHECK_THROWS_AS(packed->Multiply(torch::randn({2, 7})), c10::Error);
  CHECK_THROWS_AS(packed->Multiply(torch::randn({2, 8}, torch::kFloat64)), c10::Error);
}

}  // namespace
}  // namespace distill
