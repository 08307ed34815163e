#include <libdistill/distill.h>

int main(int argc, char** argv) {
  distill::RunOptions options;
  if (argc != 5) options.input = absl::InvalidArgumentError("usage: first TEACHER STUDENT CHAT.jsonl OUTPUT");
  return distill::Run(options, [&](distill::RunContext& run) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto tokenizer, distill::Tokenizer::Load(argv[1]));
    DISTILL_ASSIGN_OR_RETURN(auto chat, distill::ChatTemplate::Create("auto", tokenizer));
    DISTILL_ASSIGN_OR_RETURN(auto data, distill::LoadChatDataset(argv[3], tokenizer, chat, {}));
    DISTILL_ASSIGN_OR_RETURN(auto teacher, distill::LoadDecoder(argv[1], {.device = run.device()}));
    DISTILL_ASSIGN_OR_RETURN(auto student, distill::LoadDecoder(argv[2]));
    DISTILL_ASSIGN_OR_RETURN(
        auto batches, distill::TokenBatches::Create(data.tokens, run.rank(), run.world_size(), {.rows_per_rank = 8}));
    DISTILL_ASSIGN_OR_RETURN(auto task, distill::Distiller::Create(teacher, student, batches, {.temperature = 2.0}));
    DISTILL_ASSIGN_OR_RETURN(auto trainer, distill::Trainer::Create(run, student, {.output_dir = argv[4]}));
    return trainer->Fit(*task).status();
  });
}
