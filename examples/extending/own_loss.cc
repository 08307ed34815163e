// A loss of your own: the squared difference of both models' log-probabilities, at the positions that have a label.
#include <libdistill/distill.h>

namespace {

torch::Tensor LogProbabilities(distill::LanguageModel& model, const distill::TokenTensors& batch) {
  const torch::Tensor states = model.HeadInput(model.HiddenAt(batch.input, batch.positions));
  return torch::log_softmax(states.matmul(model.head_weight().t()), -1);
}

}  // namespace

int main(int argc, char** argv) {
  distill::RunOptions options;
  if (argc != 5) options.input = absl::InvalidArgumentError("usage: own_loss TEACHER STUDENT CHAT.jsonl OUTPUT");
  return distill::Run(options, [&](distill::RunContext& run) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto tokenizer, distill::Tokenizer::Load(argv[1]));
    DISTILL_ASSIGN_OR_RETURN(auto chat, distill::ChatTemplate::Create("auto", tokenizer));
    DISTILL_ASSIGN_OR_RETURN(auto data, distill::LoadChatDataset(argv[3], tokenizer, chat, {}));
    DISTILL_ASSIGN_OR_RETURN(auto batches,
                             distill::TokenBatches::Create(data.tokens, run.rank(), run.world_size(), {}));
    DISTILL_ASSIGN_OR_RETURN(auto teacher, distill::LoadDecoder(argv[1], {.device = run.device()}));
    DISTILL_ASSIGN_OR_RETURN(auto student, distill::LoadDecoder(argv[2]));

    distill::TaskParts<distill::TokenBatch> parts;
    parts.forward = [&](const distill::TokenBatch& batch) {
      const distill::TokenTensors tensors = distill::ToTensors(batch, run.device());
      torch::Tensor wanted;
      {
        const torch::NoGradGuard no_grad;
        wanted = LogProbabilities(*teacher, tensors);
      }
      const torch::Tensor found = LogProbabilities(*student, tensors);
      // A sum, and what it is a sum over: the trainer divides, over all ranks and micro-batches.
      return distill::Losses{{"loss", (found - wanted).square().mean(1).sum(), batch.num_loss_tokens()}};
    };
    parts.save = [&](const std::string& folder) { return student->Save(folder, argv[1], torch::kFloat32); };
    const auto task = distill::MakeTask(std::move(batches), std::move(parts));

    DISTILL_ASSIGN_OR_RETURN(auto trainer, distill::Trainer::Create(run, student, {.output_dir = argv[4]}));
    return trainer->Fit(*task).status();
  });
}
