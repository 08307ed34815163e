// Against transformers and scikit-learn: tests/golden/polarity_golden.py made rows and models, and says what the values
// are.
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "examples/polarity/objective.h"
#include "examples/polarity/reviews.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/task/batch_task.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/support/ranks.h"

namespace distill::polarity_golden {
namespace {

using nlohmann::json;

const std::string kFolder = GoldenFolder() + "/polarity/";

json Golden() {
  std::ifstream file(kFolder + "golden.json");
  return json::parse(file);
}

struct Case {
  std::string model, form, rows;
  bool has_types() const { return model == "bert"; }
  std::string name() const { return absl::StrCat(model, "/", form); }
};

// Each format with each way of naming its columns and classes; each model and form.
const std::vector<Case> kCases = {{"bert", "pair", "rows.csv"},
                                  {"bert", "joined", "bare.csv"},
                                  {"distilbert", "pair", "rows.parquet"},
                                  {"distilbert", "joined", "rows.csv"}};

PolarityOptions OptionsOf(const Case& one) {
  PolarityOptions options;
  options.student_model = kFolder + one.model;
  options.dataset_name = options.eval_dataset_name = kFolder + one.rows;
  options.dataset_split = options.eval_split = "";
  options.labels = "bad, fair, good";
  options.first_label = one.rows == "rows.parquet" ? 0 : 1;
  if (one.rows == "bare.csv") options.rows.csv_columns = "label,title,content";
  options.text_form = one.form == "pair" ? TextsForm::kPair : TextsForm::kJoined;
  options.shard.max_length = Golden()["max_length"];
  options.shard.rows_per_rank = 4;
  return options;
}

absl::StatusOr<Reviews> Load(const Case& one) {
  const PolarityOptions options = OptionsOf(one);
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(options.student_model));
  return LoadReviews(options, tokenizer, one.has_types());
}

TEST_CASE("the ids and token types of CSV and Parquet rows are those of transformers' tokenizer") {
  const json golden = Golden();
  for (const Case& one : kCases) {
    INFO(one.name() << " of " << one.rows);
    const absl::StatusOr<Reviews> reviews = Load(one);
    INFO(reviews.status());
    REQUIRE(reviews.ok());
    const json& expected = golden[one.name()];
    REQUIRE(reviews->train.samples->size() == static_cast<int64_t>(expected["ids"].size()));
    for (int64_t row = 0; row < reviews->train.samples->size(); ++row) {
      INFO("row " << row);
      const Sample sample = reviews->train.samples->Read(row).value();
      const auto ids = sample.Get<int32_t>("ids").value();
      CHECK(std::vector<int32_t>(ids.begin(), ids.end()) == expected["ids"][row].get<std::vector<int32_t>>());
      if (!one.has_types() || one.form != "pair") continue;
      const auto types = sample.Get<uint8_t>("token_types").value();
      CHECK(std::vector<int32_t>(types.begin(), types.end()) == expected["types"][row].get<std::vector<int32_t>>());
    }
  }
}

// The evaluation over all ranks; empty where it has the golden values.
absl::StatusOr<std::string> DifferenceOf(const World& world, const Case& one, const json& expected) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  const PolarityOptions options = OptionsOf(one);
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(options.student_model));
  DISTILL_ASSIGN_OR_RETURN(const auto model, LoadClassifier(options.student_model, {.labels = 3}));
  DISTILL_ASSIGN_OR_RETURN(const Reviews reviews, LoadReviews(options, tokenizer, one.has_types()));
  DISTILL_ASSIGN_OR_RETURN(auto batches,
                           ShardReviews(*reviews.held_out, world, ForEvaluation(options.shard), tokenizer));
  BatchEvaluator<TensorBatch> evaluator(
      std::move(batches), std::make_shared<PolarityObjective>(model, nullptr, PolarityLoss{}, LabelNames(options),
                                                              reviews.held_out->samples->size(), ""));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, TrainerOptions{}));
  DISTILL_ASSIGN_OR_RETURN(const MetricValues found, trainer->Evaluate(evaluator));
  std::string difference;
  const auto expect = [&](const std::string& name, double wanted, double tolerance) {
    if (std::abs(found.at(name) - wanted) <= tolerance) return;
    absl::StrAppend(&difference, name, " is ", found.at(name), ", not ", wanted, "; ");
  };
  expect("loss", expected["loss"], 1e-4);
  expect("accuracy", expected["accuracy"], 1e-12);
  const std::vector<std::string> labels = LabelNames(options);
  for (size_t c = 0; c < labels.size(); ++c) {
    for (const char* what : {"samples", "predicted", "correct"}) {
      expect(absl::StrCat(what, "_", labels[c]), expected[what][c], 0);
    }
  }
  return difference;
}

TEST_CASE("accuracy and the counts of classes are scikit-learn's, whatever the number of ranks") {
  const json golden = Golden();
  for (const Case& one : kCases) {
    for (const int ranks : {1, 3}) {  // of 61 rows
      INFO(one.name() << " on " << ranks << " ranks");
      const auto outcomes = testing::RunRanks(ranks, absl::Seconds(100), [&](const World& world) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(const std::string difference, DifferenceOf(world, one, golden[one.name()]));
        return testing::Expect(difference.empty(), difference);
      });
      CHECK(testing::Failures(outcomes) == "");
    }
  }
}

}  // namespace
}  // namespace distill::polarity_golden
