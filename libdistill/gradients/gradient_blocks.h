// Loops over gradients' values, on the host and without torch.
//
// Gradients that are mostly zeros, as an embedding's are but for the rows of a step's tokens: only the blocks in which
// some rank has a value travel, moved together at the front of their memory.
//
//   std::vector<uint8_t> marks = MarkBlocks(values, count);
//   // ... all-reduce the marks: the largest of each ...
//   if (WorthPacking(marks)) {
//     const int64_t packed = PackBlocks(values, count, marks);
//     // ... all-reduce the first `packed` values ...
//     SpreadBlocks(values, count, marks);
//   }
//
// The sums are those of all values: what does not travel is a zero of positive sign on every rank, bit by bit.
#pragma once

#include <cstdint>
#include <vector>

namespace distill {

constexpr int64_t kGradientBlock = 256;  // elements; the last block may be shorter

// A byte for each block, 1 where a bit of it is set; then one more, 1 if that were more than half of the blocks: the
// rest was not looked at. So a gradient without zeros costs a look at one cache line in 32.
std::vector<uint8_t> MarkBlocks(const float* values, int64_t count);

// Whether fewer than half of the blocks travel, by the marks of all ranks together.
bool WorthPacking(const std::vector<uint8_t>& marks);

// Moves the marked blocks to the front, in their order; returns their elements. The rest holds nothing of use.
int64_t PackBlocks(float* values, int64_t count, const std::vector<uint8_t>& marks);

// Moves the blocks at the front back to where the marks say, and zeros what is between.
void SpreadBlocks(float* values, int64_t count, const std::vector<uint8_t>& marks);

// The sum of the squares, in float64. The same bits on every machine and for any number of threads: a float's square is
// exact in float64, and the order of the additions depends on `count` alone.
double SumOfSquares(const float* values, int64_t count);

}  // namespace distill
