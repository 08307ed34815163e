#include "examples/squad/squad_task.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "examples/recipe/shared_tokenizer.h"
#include "examples/squad/predictions.h"
#include "examples/squad/score.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

// Shapes: B windows, T tokens.
namespace distill {
namespace {

using torch::Tensor;
constexpr double kNever = -1e9;  // a logit beyond all others

// ---- The loss.

// float32 [B, T, 2]; padding is no answer.
Tensor LogitsOf(SpanModel& model, const TensorBatch& batch) {
  TokenInput input{.input_ids = batch["ids"].to(torch::kInt64), .document_starts = {}};
  const HostTensor lengths = *batch.Find("ids_lengths");
  for (const int64_t length : lengths.values<int64_t>()) input.document_starts.push_back({0, length});
  if (model.config().type_vocab_size > 0) input.token_types = batch["token_types"].to(torch::kInt64);
  const Tensor places = torch::arange(input.input_ids.size(1), input.input_ids.options());
  const Tensor is_padding = places.unsqueeze(0).ge(batch["ids_lengths"].unsqueeze(1)).unsqueeze(2);
  return model.forward(input).to(torch::kFloat32).masked_fill(is_padding, kNever);
}

// Summed over rows; the mean of start and end.
Tensor CrossEntropy(const Tensor& logits, const TensorBatch& batch) {
  const auto sum = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  const Tensor target = torch::stack({batch["start"], batch["end"]}, 1);  // [B, 2]
  return torch::nn::functional::cross_entropy(logits, target, sum) / 2;
}

Tensor Divergence(const Tensor& student, const Tensor& teacher, double temperature) {
  const Tensor found = torch::log_softmax(student / temperature, 1),
               wanted = torch::log_softmax(teacher / temperature, 1);
  return (wanted.exp() * (wanted - found)).sum() / 2 * (temperature * temperature);
}

struct SquadLoss {
  SquadModels models;
  double alpha, temperature;

  std::vector<TermWeight> terms() const {
    if (models.teacher == nullptr) return {{"loss"}};
    return {{"ce", 1 - alpha}, {"kl", alpha}};
  }
  Losses Of(const Tensor& logits, const TensorBatch& batch) const {
    const Tensor entropy = CrossEntropy(logits, batch);
    if (models.teacher == nullptr) return Losses{{"loss", entropy, batch.rows()}};
    Tensor wanted;
    {
      const torch::NoGradGuard no_grad;
      wanted = LogitsOf(*models.teacher, batch);
    }
    return Losses{{"ce", entropy, batch.rows()}, {"kl", Divergence(logits, wanted, temperature), batch.rows()}};
  }
};

// ---- An evaluation: each window's likeliest places travel to rank 0, which decodes and judges.

void PredictWindows(const Tensor& logits, const TensorBatch& batch, int64_t n_best_size, Metrics& metrics) {
  const Tensor apart = logits.cpu().permute({0, 2, 1}).contiguous();  // [B, 2, T]
  const HostTensor lengths = *batch.Find("ids_lengths");
  const int64_t tokens = apart.size(2);
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const float* const start = apart.data_ptr<float>() + 2 * row * tokens;
    const auto count = static_cast<size_t>(lengths.values<int64_t>()[static_cast<size_t>(row)]);
    metrics.Predict(batch.sample_ids[static_cast<size_t>(row)],
                    ToBytes(BestOf({start, count}, {start + tokens, count}, n_best_size)));
  }
}

// The windows of each question, by its number.
absl::StatusOr<std::vector<std::vector<WindowToDecode>>> WindowsByQuestion(const SpanDataset& data,
                                                                           const Predictions& predictions,
                                                                           std::vector<HostTensor>* offsets) {
  std::vector<std::vector<WindowToDecode>> windows(data.rows.size());
  for (const auto& [id, bytes] : predictions) {
    DISTILL_ASSIGN_OR_RETURN(const Sample sample, data.windows->Read(id));
    DISTILL_ASSIGN_OR_RETURN(const auto row, sample.Get<int64_t>("row"));
    DISTILL_ASSIGN_OR_RETURN(const HostTensor places, sample.Find("offsets"));
    DISTILL_ASSIGN_OR_RETURN(WindowScores scores, WindowScoresOf(bytes));
    offsets->push_back(places);  // keeps the values alive
    windows[static_cast<size_t>(row[0])].push_back({std::move(scores), places.values<int64_t>()});
  }
  return windows;
}

absl::StatusOr<MetricValues> Judge(const SpanDataset& data, const Predictions& predictions,
                                   const DecodeOptions& options, const std::string& folder) {
  std::vector<HostTensor> offsets;
  DISTILL_ASSIGN_OR_RETURN(const auto windows, WindowsByQuestion(data, predictions, &offsets));
  std::vector<AnsweredQuestion> answered;
  std::vector<JudgedAnswer> judged;
  for (size_t i = 0; i < data.rows.size(); ++i) {
    if (windows[i].empty())
      return absl::InternalError(absl::StrCat("question ", data.rows[i].id, " was not evaluated"));
    DecodedAnswer answer = Decode(data.rows[i].context, windows[i], options);
    judged.push_back({answer.text, data.rows[i].answers, answer.null_odds});
    answered.push_back({data.rows[i].id, std::move(answer)});
  }
  if (!folder.empty()) DISTILL_RETURN_IF_ERROR(WritePredictions(folder, answered, options.version_2_with_negative));
  if (!options.version_2_with_negative) return ScoresOfV1(judged);
  MetricValues scores = ScoresOfV2(judged);
  // Who scrapes logs looks for version 1's name, too.
  if (const auto exact = scores.find("exact"); exact != scores.end()) scores["exact_match"] = exact->second;
  return scores;
}

// ---- Data and models.

absl::StatusOr<SpanDataset> LoadQuestions(const SquadOptions& options, const Tokenizer& tokenizer, int64_t max_length,
                                          bool trains) {
  const std::string& file = trains ? options.train_file : options.validation_file;
  const char* const option = !file.empty() ? (trains ? "train_file" : "validation_file") : "dataset_name";
  absl::StatusOr<SpanDataset> data =
      LoadSpanDataset(file.empty() ? options.dataset_name : file, tokenizer,
                      {.split = file.empty() ? (trains ? "train" : "validation") : "",
                       .num_samples = trains ? options.max_train_samples : options.max_eval_samples,
                       .windows = {.max_length = max_length, .stride = options.doc_stride},
                       .rows = options.rows});
  if (!data.ok()) return Annotate(data.status(), option);
  LogInfo(absl::StrCat(trains ? "training data: " : "held-out data: ", data->summary));
  return data;
}

// Version 1.1 has an answer to each question: an empty one could never be right.
absl::Status RequireAnswers(const SpanDataset& data) {
  for (const SpanRow& row : data.rows) {
    if (!row.answers.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("question ", row.id,
                                                   " of the held-out data has no answer: set version_2_with_negative "
                                                   "to true where the empty answer may be right (SQuAD v2)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> WindowLength(const SquadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(options.model_name_or_path));
  const int64_t asked = options.shard.max_length, longest = config.max_position_embeddings;
  if (asked <= longest) return asked;
  LogWarning(absl::StrCat("max_seq_length is ", asked, ", but texts of ", options.model_name_or_path, " have at most ",
                          longest, " tokens: windows have ", longest));
  return longest;
}

absl::StatusOr<Batches<TensorBatch>> Deal(const SpanDataset& data, const World& world, const ShardOptions& shard,
                                          double pad_id) {
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(data.windows, world.rank, world.world_size, shard));
  return MakeBatches(std::move(sharder), [pad_id](const DealtRows& rows) {
    return StackRows(rows, {{{"ids", pad_id}, {"token_types"}, {"offsets", -1}}});
  });
}

}  // namespace

absl::StatusOr<SquadData> LoadSquadData(const SquadOptions& options) {
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(options.model_name_or_path);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "model_name_or_path");
  if (!options.teacher_model.empty()) {
    DISTILL_RETURN_IF_ERROR(RequireTokenizerOf(options.teacher_model, options.model_name_or_path, *tokenizer));
  }
  const absl::StatusOr<int64_t> max_length = WindowLength(options);
  if (!max_length.ok()) return Annotate(max_length.status(), "model_name_or_path");
  SquadData data{*std::move(tokenizer), std::nullopt, std::nullopt};
  if (options.do_train) {
    DISTILL_ASSIGN_OR_RETURN(data.train, LoadQuestions(options, data.tokenizer, *max_length, /*trains=*/true));
  }
  if (options.do_eval) {
    DISTILL_ASSIGN_OR_RETURN(data.evaluation, LoadQuestions(options, data.tokenizer, *max_length, /*trains=*/false));
    if (!options.decode.version_2_with_negative) DISTILL_RETURN_IF_ERROR(RequireAnswers(*data.evaluation));
  }
  return data;
}

absl::StatusOr<SquadModels> LoadSquadModels(const SquadOptions& options, const RunContext& run) {
  SquadModels models;
  const std::string& folder = options.model_name_or_path;
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  if (has_weights) {
    DISTILL_ASSIGN_OR_RETURN(models.student, LoadSpanModel(folder, {.dropout = options.dropout}, options.trainer.seed));
  } else if (options.do_train) {
    DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
    LogInfo(absl::StrCat(folder, " has no weights: ",
                         WillResume(options.trainer)
                             ? "the model's are those of the checkpoint"
                             : absl::StrCat("they are drawn at random, with seed ", options.trainer.seed)));
    models.student = std::make_shared<SpanModel>(config, options.trainer.seed);
    if (options.dropout) models.student->EnableDropout();
  } else {
    return absl::NotFoundError(absl::StrCat("model_name_or_path: ", folder,
                                            " has no weights: train them (do_train), or name a trained model"));
  }
  if (options.gradient_checkpointing) models.student->EnableGradientCheckpointing();
  models.student->to(run.device());
  if (options.teacher_model.empty() || !options.do_train) return models;
  absl::StatusOr<std::shared_ptr<SpanModel>> teacher = LoadSpanModel(
      options.teacher_model, {.dtype = WorkingType(options.trainer, run.device()), .device = run.device()});
  if (!teacher.ok()) return Annotate(teacher.status(), "teacher_model");
  models.teacher = *std::move(teacher);
  models.teacher->eval();
  return models;
}

absl::StatusOr<std::unique_ptr<BatchTask<TensorBatch>>> MakeSquadTask(const SquadOptions& options, const World& world,
                                                                      std::shared_ptr<const SquadData> data,
                                                                      const SquadModels& models) {
  const double pad_id = data->tokenizer.TokenToId(data->tokenizer.pad_token()).value_or(0);
  const auto loss = std::make_shared<const SquadLoss>(SquadLoss{models, options.alpha, options.temperature});
  TaskParts<TensorBatch> parts;
  parts.loss_terms = loss->terms();
  parts.forward = [loss](const TensorBatch& batch) { return loss->Of(LogitsOf(*loss->models.student, batch), batch); };
  parts.evaluate = [loss, n_best_size = options.decode.n_best_size](const TensorBatch& batch, Metrics& metrics) {
    const Tensor logits = LogitsOf(*loss->models.student, batch);
    for (const LossTerm& term : loss->Of(logits, batch).terms) metrics.Mean(term.name, term.sum, term.count);
    PredictWindows(logits, batch, n_best_size, metrics);
  };
  parts.summarize = [data, decode = options.decode,
                     folder = options.trainer.output_dir](const Predictions& predictions) {
    return Judge(*data->evaluation, predictions, decode, folder);
  };
  parts.save = [student = models.student, tokenizer = options.model_name_or_path](const std::string& folder) {
    return student->Save(folder, tokenizer, torch::kFloat32);
  };
  parts.teacher = models.teacher;
  if (models.teacher != nullptr) {
    parts.fingerprint = {{"alpha", NumberText(options.alpha)}, {"temperature", NumberText(options.temperature)}};
    for (const auto& [name, value] : models.teacher->content()) {
      parts.fingerprint.emplace_back(absl::StrCat(name, " of the teacher"), value);
    }
  }
  const SpanDataset& trained = data->train ? *data->train : *data->evaluation;
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(trained, world, options.shard, pad_id));
  auto task = MakeTask(std::move(training), std::move(parts));
  task->SetLoader(options.loader);
  if (data->evaluation) {
    DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(*data->evaluation, world, ForEvaluation(options.shard), pad_id));
    task->SetHeldOut(std::move(held_out));
  }
  return task;
}

}  // namespace distill
