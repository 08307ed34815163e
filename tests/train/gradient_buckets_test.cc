#include "libdistill/train/gradient_buckets.h"

#include <limits>

#include "libdistill/comm/create.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TrainedParameter Parameter(const std::string& name, const torch::Tensor& values) {
  torch::Tensor tensor = values.clone().set_requires_grad(true);
  return {name, tensor, tensor.dim() >= 2, tensor.size(0)};
}

}  // namespace

TEST_CASE("gradients of several backward passes add up in the buckets") {
  const auto dtype = GENERATE(torch::kFloat32, torch::kBFloat16);
  const std::vector<TrainedParameter> parameters = {Parameter("a", torch::ones({3, 2}, dtype)),
                                                    Parameter("unused", torch::ones({4}, dtype)),
                                                    Parameter("b", torch::ones({5}, dtype))};
  GradientBuckets buckets(parameters, /*bucket_bytes=*/16);
  CHECK(buckets.num_buckets() == 3);
  for (int round = 0; round < 2; ++round) {  // the second round starts from zero again
    buckets.Zero();
    for (const double factor : {1.0, 256.0, 1.0}) {
      (parameters[0].tensor.sum() * factor + (parameters[2].tensor * torch::arange(5)).sum() * factor).backward();
      buckets.Collect();
    }
    REQUIRE(buckets.AllReduce(*CreateAloneCommunicator()) == absl::OkStatus());
    // bfloat16 alone would have lost the ones beside 256.
    CHECK(torch::equal(buckets.gradient(0), torch::full({3, 2}, 258.0)));
    CHECK(torch::equal(buckets.gradient(1), torch::zeros({4})));
    CHECK(torch::equal(buckets.gradient(2), torch::arange(5) * 258.0f));
    CHECK(buckets.gradient(0).scalar_type() == torch::kFloat32);
    CHECK(buckets.Norm() == Approx(258.0 * std::sqrt(6.0 + 1 + 4 + 9 + 16)).epsilon(1e-6));
  }
}

TEST_CASE("buckets are contiguous, hold whole parameters and close when they are full") {
  std::vector<TrainedParameter> parameters;
  for (int i = 0; i < 5; ++i) parameters.push_back(Parameter("p", torch::zeros({100})));
  CHECK(GradientBuckets(parameters, 1).num_buckets() == 5);
  CHECK(GradientBuckets(parameters, 800).num_buckets() == 3);
  CHECK(GradientBuckets(parameters, 1 << 20).num_buckets() == 1);
  const GradientBuckets one(parameters, 1 << 20);
  // The last parameter comes first: backward finishes it first.
  CHECK(one.gradient(3).data_ptr<float>() == one.gradient(4).data_ptr<float>() + 100);
}

TEST_CASE("the first parameter whose gradient is not finite is named") {
  const std::vector<TrainedParameter> parameters = {Parameter("good", torch::ones({2})),
                                                    Parameter("bad", torch::ones({2}))};
  GradientBuckets buckets(parameters, 1 << 20);
  (parameters[0].tensor.sum() + parameters[1].tensor.sum()).backward();
  buckets.Collect();
  CHECK(buckets.FirstNonFinite().empty());
  (parameters[1].tensor.sum() * std::numeric_limits<double>::infinity()).backward();
  buckets.Collect();
  CHECK(buckets.FirstNonFinite() == "bad");
  CHECK_FALSE(std::isfinite(buckets.Norm()));
}

}  // namespace distill
