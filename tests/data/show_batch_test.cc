#include "libdistill/data/show_batch.h"

#include "libdistill/data/collate.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"

namespace distill {

TEST_CASE("a batch is shown as text, with the loss between brackets") {
  const auto dataset = MakeTokenDataset({
      {{256, 'u', '\n', 'a', 'b', 257, '\n'}, {0, 0, 0, 1, 1, 1, 0}},
      {{'x', 'y'}, {1, 1}},
      {{'z'}, {0}},
  });
  const std::vector<std::vector<int64_t>> rows = {{0, 1}, {2}};
  CHECK(DescribeBatch(Collate(*dataset, rows, 100, 0), MakeByteTokenizer()) ==
        "batch: 2 x 9, 10 tokens, 4 with loss (between [[ and ]])\n"
        "row 0, document 0 (sample 0): 7 tokens, 3 with loss\n"
        "<|im_start|>u\\n[[ab<|im_end|>]]\\n\n"
        "row 0, document 1 (sample 1): 2 tokens, 1 with loss\n"
        "x[[y]]\n"
        "row 1, document 0 (sample 2): 1 tokens, 0 with loss\n"
        "z\n");
}

}  // namespace distill
