#include "examples/llm/model_card.h"

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

ModelCard Whole() {
  return {.name = "org/student",
          .teacher = "Qwen/Qwen2-7B-Instruct",
          .student = "/data/models/small",
          .data_sets = {"mlabonne/FineTome-100k", "s3://bucket/secret/chats.jsonl"},
          .license = "apache-2.0",
          .options = {{"temperature", "1"}, {"dataset_columns", "a|b"}},
          .figures = {{"eval_loss", "1.25"}},
          .version = "0.1.0"};
}

TEST_CASE("a card begins with metadata that the hub reads, and says which names are links") {
  const std::string text = ModelCardText(Whole());
  CHECK(absl::StartsWith(text,
                         "---\n"
                         "library_name: transformers\n"
                         "pipeline_tag: text-generation\n"
                         "license: apache-2.0\n"
                         "base_model:\n"
                         "- Qwen/Qwen2-7B-Instruct\n"
                         "datasets:\n"
                         "- mlabonne/FineTome-100k\n"
                         "tags:\n"
                         "- distillation\n"
                         "- libdistill\n"
                         "---\n\n<!-- made by libdistill;"));
  CHECK(absl::StrContains(text, "\n# student\n"));
  CHECK(absl::StrContains(text, "[Qwen/Qwen2-7B-Instruct](https://huggingface.co/Qwen/Qwen2-7B-Instruct)"));
  CHECK(absl::StrContains(text, "(https://huggingface.co/datasets/mlabonne/FineTome-100k)"));
  CHECK(absl::StrContains(text, "| eval_loss | 1.25 |"));
  CHECK(absl::StrContains(text, "| dataset_columns | a\\|b |"));
  CHECK(absl::StrContains(text, "from_pretrained(\"org/student\")"));
}

TEST_CASE("a card shows no more of a path than its last part") {
  const std::string text = ModelCardText(Whole());
  CHECK(absl::StrContains(text, "`small`"));
  CHECK(absl::StrContains(text, "`chats.jsonl`"));
  CHECK_FALSE(absl::StrContains(text, "bucket"));
}

TEST_CASE("a student without weights is no model that training began with") {
  ModelCard card = Whole();
  card.student = "org/shape";
  CHECK(absl::StrContains(ModelCardText(card), "base_model:\n- org/shape\n- Qwen"));
  CHECK(absl::StrContains(ModelCardText(card), ". Training began with [org/shape]"));
  card.student_has_weights = false;
  CHECK(absl::StrContains(ModelCardText(card), "base_model:\n- Qwen"));
  CHECK(absl::StrContains(ModelCardText(card), ". Training began with random weights, in the shape of [org/shape]"));
}

TEST_CASE("a model of the hub is tried by its name") {
  CHECK(absl::StrContains(ModelCardText(Whole()), "```\ndistill_llm --generate org/student --prompt"));
  CHECK_FALSE(absl::StrContains(ModelCardText(Whole()), "hf download"));
}

TEST_CASE("a card leaves out what is not known") {
  const std::string text = ModelCardText({.name = "/data/runs/mine", .teacher = "", .student = "small"});
  for (const char* key : {"license:", "base_model:", "datasets:", "## Recipe", "## Figures", "distilled from"}) {
    INFO(key);
    CHECK_FALSE(absl::StrContains(text, key));
  }
  CHECK(absl::StrContains(text, "distill_llm --generate mine"));
}

TEST_CASE("a license is read from the page of the model that training began with") {
  CHECK(MetadataOf("---\ntags: [a]\nlicense: apache-2.0\n---\n# x\n", "license") == "apache-2.0");
  CHECK(MetadataOf("---\r\nlicense:  mit \r\n---\r\n", "license") == "mit");
  CHECK(MetadataOf("---\nlicense:\n- mit\n---\n", "license").empty());
  CHECK(MetadataOf("---\nlicense: \"a: b\"\n---\n", "license").empty());
  CHECK(MetadataOf("---\ntags: []\n---\nlicense: mit\n", "license").empty());
  CHECK(MetadataOf("license: mit\n", "license").empty());
  CHECK(MetadataOf("", "license").empty());
}

}  // namespace
}  // namespace distill
