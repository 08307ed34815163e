// How the head's products are put to cuBLAS, with a cuBLAS that multiplies on the CPU; loss_test.cc and
// head_products_test.cc run the real one where there is a GPU.
#include "libdistill/loss/head_products_cublas.h"

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/loss/fake_cublas.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::fake_cublas;
using testing::FakeCublas;

constexpr float kBetween = -77;  // what lies between the rows of the result

// The fake as it is at first, but for what it keeps: handles and descriptions that the process has.
void Reset() {
  const int handles = fake_cublas().handles, alive = fake_cublas().alive;
  fake_cublas() = FakeCublas();
  fake_cublas().handles = handles;
  fake_cublas().alive = alive;
}

uint16_t Narrow(float value, DType dtype) {
  uint16_t bits;
  if (dtype == DType::kFloat16) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, sizeof(bits));
  } else {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof(wide));
    bits = static_cast<uint16_t>(wide >> 16);
  }
  return bits;
}

// Of small whole numbers, whose products are exact in every type.
float Element(int64_t row, int64_t column, int64_t which) {
  return static_cast<float>((3 * row + 5 * column + 7 * which) % 9 - 4);
}

struct Factor {
  std::vector<uint16_t> values;
  NarrowMatrix matrix;

  Factor(int64_t rows, int64_t columns, bool is_transposed, int64_t gap, DType dtype, int64_t which) {
    const int64_t lines = is_transposed ? columns : rows, stride = (is_transposed ? rows : columns) + gap;
    values.assign(static_cast<size_t>(lines * stride), Narrow(64, dtype));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t at = is_transposed ? column * stride + row : row * stride + column;
        values[static_cast<size_t>(at)] = Narrow(Element(row, column, which), dtype);
      }
    }
    matrix = {.values = values.data(), .stride = stride, .is_transposed = is_transposed};
  }
};

struct Case {
  int64_t rows, columns, depth;
  bool turns_a = false, turns_b = true;
  int64_t gap = 0;
  DType dtype = DType::kBFloat16;
  bool adds = false;
};

// `device`: each has its own handle, and what was chosen for its shapes.
void CheckCase(const Case& c, int device) {
  INFO(c.rows << " x " << c.columns << " of " << c.depth << (c.turns_a ? ", a turned" : "")
              << (c.turns_b ? ", b turned" : "") << ", gaps of " << c.gap << ' ' << NameOf(c.dtype)
              << (c.adds ? ", adds" : ""));
  const Factor a(c.rows, c.depth, c.turns_a, 2 * c.gap, c.dtype, 1),
      b(c.depth, c.columns, c.turns_b, c.gap, c.dtype, 2);
  const int64_t stride = c.columns + c.gap;
  std::vector<float> out(static_cast<size_t>(c.rows * stride), kBetween);
  for (int64_t i = 0; i < c.rows * stride; ++i) {
    if (i % stride < c.columns) out[static_cast<size_t>(i)] = c.adds ? 1000.0f : NAN;
  }
  int stream = 0, workspace = 0;
  const absl::Status status = EnqueueWideProduct({.dtype = c.dtype,
                                                  .rows = c.rows,
                                                  .columns = c.columns,
                                                  .depth = c.depth,
                                                  .a = a.matrix,
                                                  .b = b.matrix,
                                                  .out = out.data(),
                                                  .out_stride = stride,
                                                  .adds = c.adds,
                                                  .workspace = &workspace},
                                                 device, &stream);
  REQUIRE(status.ToString() == "OK");
  CHECK(fake_cublas().stream == &stream);
  CHECK(fake_cublas().workspace == &workspace);
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t column = 0; column < stride; ++column) {
      float expected = c.adds ? 1000 : 0;
      for (int64_t i = 0; i < c.depth; ++i) expected += Element(row, i, 1) * Element(i, column, 2);
      if (column >= c.columns) expected = kBetween;
      REQUIRE(out[static_cast<size_t>(row * stride + column)] == expected);
    }
  }
}

absl::Status Enqueue(WideProduct product, int device) {
  static std::vector<float> room(1 << 12);
  product.a.values = product.b.values = room.data();
  product.out = room.data();
  return EnqueueWideProduct(product, device, nullptr);
}

const WideProduct kLogits = {.rows = 2,
                             .columns = 3,
                             .depth = 4,
                             .a = {.stride = 4},
                             .b = {.stride = 4, .is_transposed = true},
                             .out_stride = 32};

TEST_CASE("products of every shape, layout and type come out as they are, or added to what is there") {
  Reset();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t rows : {1, 2, 7}) {
      for (const int64_t columns : {1, 3, 16}) {
        for (const int64_t depth : {1, 5, 8}) {
          for (const int form : {0, 1, 2, 3}) {
            for (const int64_t gap : {0, 3}) {
              for (const bool adds : {false, true}) {
                CheckCase({rows, columns, depth, form % 2 == 1, form / 2 == 1, gap, dtype, adds}, /*device=*/0);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("what cuBLAS chooses is asked once for a shape on a device, with the workspace and the alignments") {
  Reset();
  constexpr int kDevice = 1;
  for (int again = 0; again < 3; ++again) CheckCase({4, 32, 8}, kDevice);
  CHECK(fake_cublas().products == 3);
  const int handles = fake_cublas().handles;
  alignas(256) static char room[4096];
  const auto searches_of = [&](int device, int64_t offset, bool adds) {
    const int before = fake_cublas().searches;
    WideProduct product = kLogits;
    product.a.values = room + offset;
    product.b.values = room + 2 * offset;
    product.out = reinterpret_cast<float*>(room + 1024 + 4 * offset);
    product.adds = adds;
    REQUIRE(EnqueueWideProduct(product, device, nullptr).ok());
    return fake_cublas().searches - before;
  };
  CHECK(searches_of(kDevice, 16, false) == 1);
  CHECK(fake_cublas().alignments == std::vector<uint32_t>{32, 16, 64, 64});
  CHECK(fake_cublas().workspace_bytes == kProductWorkspaceBytes);
  CHECK(searches_of(kDevice, 16, true) == 0);  // whether it adds is not asked for
  CHECK(searches_of(kDevice, 48, false) == 0);
  CHECK(searches_of(kDevice, 2, false) == 1);
  CHECK(fake_cublas().handles == handles);
  CHECK(searches_of(kDevice + 1, 16, false) == 1);
  CHECK(fake_cublas().handles == handles + 1);
}

TEST_CASE("threads multiply at one time") {
  Reset();
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(4);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&results, i] {
      for (int64_t columns = 1; columns < 20; ++columns) {
        std::vector<uint16_t> a(8, 0), b(static_cast<size_t>(8 * columns), 0);
        std::vector<float> out(static_cast<size_t>(columns));
        WideProduct product = {.rows = 1,
                               .columns = columns,
                               .depth = 8,
                               .a = {.values = a.data(), .stride = 8},
                               .b = {.values = b.data(), .stride = 8, .is_transposed = true},
                               .out = out.data(),
                               .out_stride = columns};
        if (results[i].ok()) results[i] = EnqueueWideProduct(product, /*device=*/3, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) CHECK(result.ToString() == "OK");
}

TEST_CASE("a call of cuBLAS that fails is named, with its text and the shapes, and leaves nothing behind") {
  int device = 10;  // of which nothing is known yet
  for (const char* call :
       {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmul"}) {
    Reset();
    const int alive = fake_cublas().alive;
    fake_cublas().failing = call;
    const absl::Status status = Enqueue(kLogits, ++device);
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInternal);
    CHECK(absl::StrContains(status.message(), std::string(call) + ": what the fake cuBLAS met"));
    CHECK(absl::StrContains(status.message(), "2 x 4 times 4 x 3 of bfloat16"));
    const bool is_prepared = std::string(call) == "cublasLtMatmul";  // and stays so
    CHECK(fake_cublas().alive == alive + (is_prepared ? 4 : 0));
    fake_cublas().failing = "";
    CHECK(Enqueue(kLogits, device).ToString() == "OK");
  }
  Reset();
  fake_cublas().has_algorithms = false;
  const absl::Status no_way = Enqueue(kLogits, ++device);
  CHECK(no_way.code() == absl::StatusCode::kUnimplemented);
  CHECK(absl::StrContains(no_way.message(), "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"));
}

TEST_CASE("who has such products: GPUs with tensor cores for the type, where cuBLAS is found") {
  Reset();
  const auto why_not = [](DType dtype, int device = 0) {
    return std::string(CheckWideProducts(dtype, device).message());
  };
  CHECK(why_not(DType::kBFloat16) == "");
  CHECK(why_not(DType::kFloat16) == "");
  CHECK(absl::StrContains(why_not(DType::kFloat32), "float32"));
  CHECK(absl::StrContains(why_not(DType::kBFloat16, -1), "the CPU's"));
  fake_cublas().major = 7;
  CHECK(absl::StrContains(why_not(DType::kBFloat16), "capability 7.x, and products of bfloat16 want 8.0"));
  CHECK(why_not(DType::kFloat16) == "");
  fake_cublas().major = 6;
  CHECK(absl::StrContains(why_not(DType::kFloat16), "want 7.0"));
  CHECK(CheckWideProducts(DType::kFloat16, 0).code() == absl::StatusCode::kUnimplemented);
}

// By itself: what was found of the library stays.
TEST_CASE("without cuBLAS there are no such products, and what is missing is said", "[without]") {
  fake_cublas().is_there = false;
  CHECK(CheckCublasLt().code() == absl::StatusCode::kUnimplemented);
  CHECK(CheckWideProducts(DType::kBFloat16, 0).message() == "no such library");
  CHECK(absl::StrContains(Enqueue(kLogits, 0).message(), "no such library"));
}

}  // namespace
}  // namespace distill
