// What the recipe DistilBERT has of its own: its options, and the texts that it makes up.
#include "examples/distilbert/options.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "examples/distilbert/demo_text.h"
#include "libdistill/text/tokenizer.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

absl::StatusOr<RecipeCommand<DistilBertOptions>> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--output_dir", "o"});
  std::vector<const char*> argv = {"distilbert"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseCommand<DistilBertOptions, RecipeFlags>(static_cast<int>(argv.size()), argv.data(),
                                                      {"distilbert", "about"}, CheckDistilBert);
}

DistilBertOptions OptionsOf(const std::vector<std::string>& arguments) {
  const auto command = Parse(arguments);
  INFO(command.status());
  REQUIRE(command.ok());
  return command->options;
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto command = Parse(arguments);
  REQUIRE_FALSE(command.ok());
  CHECK(absl::IsInvalidArgument(command.status()));
  return std::string(command.status().message());
}

TEST_CASE("the defaults of distilbert are those of its guide") {
  const DistilBertOptions options = OptionsOf({"--teacher_model", "t", "--dataset_name", "d"});
  CHECK(options.loss.temperature == 3);
  CHECK(options.loss.kl_weight == 0.5);
  CHECK(options.loss.mlm_weight == 2);
  CHECK(options.loss.cosine_weight == 1);
  CHECK(options.masking.mlm_probability == 0.15);
  CHECK(options.shard.rows_per_rank == 32);
  CHECK(options.shard.global_rows == 4096);
  CHECK(options.shard.max_length == 512);
  CHECK(options.sources.validation_split == 0.05);
  CHECK(options.trainer.learning_rate == 5e-4);
  CHECK(options.trainer.num_train_epochs == 3);
  CHECK(options.trainer.save_steps == 1000);
}

TEST_CASE("distilbert is told by the names of its guide") {
  const DistilBertOptions options = OptionsOf(
      {"--teacher_model", "t", "--dataset_name", "wiki,books", "--batch_size", "16", "--alpha", "0.25", "--beta", "3",
       "--gamma", "0.5", "--max_samples", "100", "--teacher_layers", "0, 2,11", "--global_batch_size", "512"});
  CHECK(options.shard.rows_per_rank == 16);
  CHECK(options.shard.global_rows == 512);
  CHECK(options.loss.kl_weight == 0.25);
  CHECK(options.loss.mlm_weight == 3);
  CHECK(options.loss.cosine_weight == 0.5);
  CHECK(options.sources.max_samples == 100);
  CHECK(SourceNames(options.sources) == std::vector<std::string>{"wiki", "books"});
  CHECK(TeacherLayers(options).value() == std::vector<int64_t>{0, 2, 11});
  CHECK(TeacherLayers(OptionsOf({"--teacher_model", "t", "--use_demo_data"})).value().empty());
}

TEST_CASE("distilbert is told by the names of the script that DistilBERT was trained with") {
  const DistilBertOptions options = OptionsOf({"--teacher_name", "t", "--use_demo_data", "--n_epoch", "2", "--alpha_ce",
                                               "5", "--alpha_mlm", "2", "--alpha_cos", "1", "--mlm_mask_prop", "0.2",
                                               "--word_mask", "0.7", "--word_rand", "0.2", "--warmup_prop", "0.05"});
  CHECK(options.teacher_model == "t");
  CHECK(options.trainer.num_train_epochs == 2);
  CHECK(options.trainer.warmup_ratio == 0.05);
  CHECK(options.loss.kl_weight == 5);
  CHECK(options.masking.mlm_probability == 0.2);
  CHECK(options.masking.mask_replace_prob == 0.7);
  CHECK(options.masking.random_replace_prob == 0.2);
}

TEST_CASE("what does not go together is refused by the options' names") {
  const std::vector<std::string> good = {"--teacher_model", "t", "--dataset_name", "d"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), good.begin(), good.end());
    return ErrorOf(more);
  };
  CHECK(absl::StrContains(ErrorOf({"--dataset_name", "d"}), "alpha is 0.5 and gamma 1, but there is no teacher_model"));
  CHECK(absl::StrContains(ErrorOf({"--dataset_name", "d", "--alpha", "0", "--gamma", "0"}),
                          "student_checkpoint is missing"));
  CHECK(absl::StrContains(ErrorOf({"--teacher_model", "t"}), "dataset_name is missing"));
  CHECK(OptionsOf({"--teacher_model", "t", "--dataset_name", "d", "--use_demo_data"}).use_demo_data);
  CHECK(absl::StrContains(with({"--teacher_layers", "0, two"}), "teacher_layers: 'two' is no whole number"));
  CHECK(absl::StrContains(with({"--teacher_layers", "0", "--student_checkpoint", "s"}), "give one of them"));
  CHECK(absl::StrContains(with({"--packing"}), "packing: texts are cut into pieces"));
  CHECK(absl::StrContains(with({"--max_tokens_per_batch", "4096", "--batch_size", "1"}),
                          "global_batch_size and max_tokens_per_batch exclude one another"));
  CHECK(absl::StrContains(with({"--validation_split", "0", "--eval_steps", "5"}), "validation_split"));
}

TEST_CASE("demo texts are the same for a seed, others for another, and the demo's tokenizer has all of their words") {
  const std::vector<std::string> texts = DemoTexts(42, 50);
  CHECK(texts == DemoTexts(42, 50));
  CHECK(DemoTexts(42, 10)[9] == texts[9]);
  CHECK(DemoTexts(43, 50) != texts);
  std::set<std::string> used;
  for (const std::string& text : DemoTexts(1, 2000)) {
    for (const absl::string_view word : absl::StrSplit(text, ' ')) used.insert(std::string(word));
  }
  const std::vector<std::string> words = DemoWords();
  CHECK(used == std::set<std::string>(words.begin(), words.end()));
  const auto tokenizer = Tokenizer::Load(absl::StrCat(DISTILL_SOURCE_DIR, "/examples/distilbert/teacher"));
  REQUIRE(tokenizer.ok());
  for (const std::string& word : words) {
    INFO(word);
    const std::vector<int32_t> ids = tokenizer->Encode(word).value();
    REQUIRE(ids.size() == 1);
    CHECK(tokenizer->IdToToken(ids[0]) == word);
  }
  CHECK(tokenizer->vocab_size() == static_cast<int64_t>(words.size()) + 5);
}

}  // namespace
}  // namespace distill
