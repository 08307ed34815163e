// A model of your own: the next word depends on the last word alone. It learns from a decoder by logit distillation.
#include <libdistill/distill.h>

namespace {

class Bigram : public distill::LanguageModel {
 public:
  Bigram(int64_t vocabulary, int64_t hidden) {
    torch::manual_seed(1);
    words_ = register_parameter("words", torch::randn({vocabulary, hidden}) * 0.1);
    head_ = register_parameter("head", torch::randn({vocabulary, hidden}) * 0.1);
  }
  // [B, T, H]: the states from which the head makes logits.
  torch::Tensor Hidden(const distill::TokenInput& input) override { return torch::embedding(words_, input.input_ids); }
  torch::Tensor head_weight() const override { return head_; }
  // Its rows beyond the tokenizer's ids are left as they are.
  torch::Tensor embedding_weight() const override { return words_; }

 private:
  torch::Tensor words_, head_;
};

}  // namespace

int main(int argc, char** argv) {
  distill::RunOptions options;
  if (argc != 4) options.input = absl::InvalidArgumentError("usage: own_model TEACHER CHAT.jsonl OUTPUT");
  return distill::Run(options, [&](distill::RunContext& run) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto tokenizer, distill::Tokenizer::Load(argv[1]));
    DISTILL_ASSIGN_OR_RETURN(auto chat, distill::ChatTemplate::Create("auto", tokenizer));
    DISTILL_ASSIGN_OR_RETURN(auto data, distill::LoadChatDataset(argv[2], tokenizer, chat, {}));
    DISTILL_ASSIGN_OR_RETURN(auto batches,
                             distill::TokenBatches::Create(data.tokens, run.rank(), run.world_size(), {}));
    DISTILL_ASSIGN_OR_RETURN(auto teacher, distill::LoadDecoder(argv[1], {.device = run.device()}));
    const auto student = std::make_shared<Bigram>(teacher->head_weight().size(0), 16);
    DISTILL_ASSIGN_OR_RETURN(auto task, distill::Distiller::Create(teacher, student, batches, {.temperature = 2.0}));
    DISTILL_ASSIGN_OR_RETURN(auto trainer,
                             distill::Trainer::Create(run, student, {.output_dir = argv[3], .learning_rate = 0.05}));
    return trainer->Fit(*task).status();
  });
}
