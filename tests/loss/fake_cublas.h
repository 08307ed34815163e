// What cublasLt does in head_products_cublas_test.cc, on machines without a GPU: fake_cublas.cc has the functions that
// loss/ would find in the library, and multiplies on the CPU what it is told of by columns, as cuBLAS does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distill::testing {

struct FakeCublas {
  bool is_there = true;  // the library
  int major = 9;         // compute capability of every GPU
  std::string failing;   // the function that fails
  bool has_algorithms = true;

  // What it was asked.
  int handles = 0, searches = 0, products = 0;
  int alive = 0;                                 // descriptions, layouts and preferences that were not destroyed
  std::vector<uint32_t> alignments;              // of A, B, C and D, in the last search
  uint64_t workspace_bytes = 0;                  // in the last search
  void *workspace = nullptr, *stream = nullptr;  // of the last product
};

FakeCublas& fake_cublas();

}  // namespace distill::testing
