#include <cstring>
#include <new>
#include <stdexcept>

#include <torch/types.h>

#include "absl/strings/match.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/hash_tensor.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("dtypes go to torch and back") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    CHECK(FromTorch(ToTorch(dtype)).value() == dtype);
    CHECK(static_cast<int64_t>(c10::elementSize(ToTorch(dtype))) == SizeOf(dtype));
  }
  CHECK(FromTorch(torch::kComplexFloat).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a view shows a tensor's bytes, and copies into any dtype") {
  const torch::Tensor tensor = torch::arange(6, torch::kFloat32).view({2, 3});
  const TensorView view = ViewOf(tensor);
  CHECK(view.shape == std::vector<int64_t>{2, 3});
  CHECK(view.size_bytes == 24);
  torch::Tensor wide = torch::zeros({2, 3}, torch::TensorOptions(torch::kFloat64).requires_grad(true));
  CopyFromView(view, wide);
  CHECK(torch::equal(wide.detach(), tensor.to(torch::kFloat64)));
  CHECK_THROWS_AS(CopyFromView(view, torch::zeros({3, 2})), c10::Error);
  CHECK_THROWS_AS(ViewOf(tensor.t()), c10::Error);
}

TEST_CASE("bytes that a file left unaligned are copied right") {
  const std::vector<float> values = {1.5f, -2.25f};
  std::vector<char> bytes(1 + sizeof(float) * values.size());
  std::memcpy(bytes.data() + 1, values.data(), sizeof(float) * values.size());
  torch::Tensor target = torch::zeros({2});
  CopyFromView({.dtype = DType::kFloat32, .shape = {2}, .data = bytes.data() + 1, .size_bytes = 8}, target);
  CHECK(torch::equal(target, torch::tensor({1.5f, -2.25f})));
}

TEST_CASE("a host copy is contiguous, detached and of the asked dtype") {
  const torch::Tensor tensor = torch::rand({3, 4}, torch::requires_grad()).t();
  const torch::Tensor host = ToHost(tensor, torch::kBFloat16);
  CHECK(host.is_contiguous());
  CHECK_FALSE(host.requires_grad());
  CHECK(host.scalar_type() == torch::kBFloat16);
  CHECK(host.sizes() == tensor.sizes());
}

TEST_CASE("a tensor's hash is that of its values in their order, whatever its strides") {
  const auto hash_of = [](const torch::Tensor& tensor) {
    ContentHash hash;
    HashTensor(tensor, hash);
    return hash.Hex();
  };
  const torch::Tensor tensor = torch::rand({3, 4}, torch::requires_grad());
  CHECK(hash_of(tensor.t()) == hash_of(tensor.t().contiguous()));
  CHECK(hash_of(tensor.t()) != hash_of(tensor));
  torch::Tensor other = tensor.detach().clone();
  CHECK(hash_of(other) == hash_of(tensor));
  other[2][3] += 1;
  CHECK(hash_of(other) != hash_of(tensor));
}

TEST_CASE("torch's exceptions become statuses with the message alone") {
  CHECK(CatchTorch([] { return absl::OkStatus(); }).ok());
  CHECK(CatchTorch([] { return absl::DataLossError("mine"); }).message() == "mine");
  const absl::Status shapes = CatchTorch([]() -> absl::Status {
    torch::mm(torch::ones({2, 3}), torch::ones({2, 3}));
    return absl::OkStatus();
  });
  CHECK(shapes.code() == absl::StatusCode::kInternal);
  CHECK(absl::StrContains(shapes.message(), "shapes cannot be multiplied"));
  CHECK_FALSE(absl::StrContains(shapes.message(), "frame #"));
  const absl::Status value = CatchTorch([]() -> absl::Status { TORCH_CHECK_VALUE(false, "no such value"); });
  CHECK(value.code() == absl::StatusCode::kInvalidArgument);
  const absl::Status memory = CatchTorch([]() -> absl::Status {
    torch::empty({int64_t{1} << 58}, torch::kUInt8);
    return absl::OkStatus();
  });
  CHECK(memory.code() == absl::StatusCode::kResourceExhausted);
  CHECK(CatchTorch([]() -> absl::Status { throw std::bad_alloc(); }).code() == absl::StatusCode::kResourceExhausted);
  CHECK(CatchTorch([]() -> absl::Status { throw std::runtime_error("odd"); }).message() == "odd");
}

}  // namespace
}  // namespace distill
