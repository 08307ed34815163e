// Where the gradients of looked-up rows go.
#include "libdistill/nn/encoder.h"
#include "tests/nn/tiny_models.h"

namespace distill {
namespace {

using torch::Tensor;

// Of the table of words, through the whole model but its head.
Tensor GradientOfTable(LanguageModel& model, const TokenInput& input) {
  const Tensor table = model.embedding_weight();
  table.mutable_grad() = Tensor();
  model.Hidden(input).sin().sum().backward();
  Tensor gradient = table.grad();
  table.mutable_grad() = Tensor();
  return gradient;
}

// Takes rows alone.
struct RowSink : GradientSink {
  Tensor Borrow(const Tensor&) override { return {}; }
  Tensor BorrowSum(const Tensor&) override { return {}; }
  bool TakesWide(const Tensor&) override { return false; }
  void AddWide(const Tensor&, const Tensor&) override { FAIL("none is wide"); }
  bool TakesRows(const Tensor& asked_for) override {
    table = asked_for;
    ++asked;
    return takes;
  }
  void AddRows(const Tensor& of, const Tensor& ids, const Tensor& gradients) override {
    CHECK(of.is_same(table));
    taken.index_add_(0, ids, gradients);
  }

  bool takes = true;
  int asked = 0;
  Tensor table, taken;
};

void CompareTaken(LanguageModel& model, int64_t padding) {
  Tensor ids = torch::randint(61, {3, 16}, torch::kInt64);
  ids.narrow(1, 12, 4).fill_(padding);
  const TokenInput input = {ids, {}};
  const Tensor expected = GradientOfTable(model, input);
  REQUIRE(expected.defined());
  const auto sink = std::make_shared<RowSink>();
  sink->taken = torch::zeros_like(expected);
  dynamic_cast<GradientSinkUser&>(model).SetGradientSink(sink);
  CHECK_FALSE(GradientOfTable(model, input).defined());
  CHECK(sink->table.is_same(model.embedding_weight()));
  CHECK(torch::allclose(sink->taken, expected, 1e-5, 1e-6));
  CHECK(sink->taken.select(0, padding).abs().max().item<float>() == 0);
  {
    const torch::NoGradGuard no_grad;
    (void)model.Hidden(input);
  }
  CHECK(sink->asked == 1);  // without gradients nobody is asked
  sink->takes = false;
  CHECK(torch::equal(GradientOfTable(model, input), expected));
}

TEST_CASE("gradients of looked-up rows are those of the table, whoever takes them, and padding has none") {
  torch::manual_seed(8);
  auto config = TinyConfig("llama");
  config.pad_token_id = 4;
  Decoder decoder(config, /*seed=*/3);
  CompareTaken(decoder, 4);
  const auto distilbert = ParseEncoderConfig(R"({"model_type": "distilbert", "vocab_size": 61, "dim": 24,
      "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 32, "initializer_range": 0.2,
      "pad_token_id": 7, "dtype": "float32"})",
                                             "tiny");
  INFO(distilbert.status());
  REQUIRE(distilbert.ok());
  Encoder encoder(*distilbert, /*seed=*/3);
  CompareTaken(encoder, 7);
}

}  // namespace
}  // namespace distill
