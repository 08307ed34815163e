// Students made out of their teachers.
#include "libdistill/nn/encoder_student.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/nn/tiny_encoders.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// With four blocks, and norms and biases of a trained model.
std::shared_ptr<Encoder> Teacher(const std::string& json, const std::string& layers) {
  const std::string deeper = absl::StrReplaceAll(json, {{layers + "\": 2", layers + "\": 4"}});
  const auto teacher = std::make_shared<Encoder>(TinyEncoder(deeper), /*seed=*/7);
  torch::manual_seed(8);
  const torch::NoGradGuard no_grad;
  for (Tensor& parameter : teacher->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  return teacher;
}

std::vector<Tensor> Flat(const Encoder& model, const std::vector<int64_t>& layers) {
  std::vector<Tensor> all;
  for (const int64_t layer : layers) {
    const std::vector<Tensor> block = model.BlockWeights()[static_cast<size_t>(layer)];
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

void CheckBlocks(const Encoder& teacher, const Encoder& student, const std::vector<int64_t>& layers) {
  std::vector<int64_t> own;
  for (size_t i = 0; i < layers.size(); ++i) own.push_back(static_cast<int64_t>(i));
  const std::vector<Tensor> expected = Flat(teacher, layers), found = Flat(student, own);
  REQUIRE(student.BlockWeights().size() == layers.size());
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(torch::equal(found[i], expected[i]));
}

Tensor LogitsOf(Encoder& model, const Tensor& ids) {
  const torch::NoGradGuard no_grad;
  return model.HeadInput(model.Hidden({ids, {}}).flatten(0, 1)).matmul(model.head_weight().t()).add(model.head_bias());
}

struct Family {
  const char *json, *layers, *type;
};
const Family kFamilies[] = {{kTinyBert, "num_hidden_layers", "distilbert"},
                            {kTinyDistilBert, "n_layers", "distilbert"},
                            {kTinyRoberta, "num_hidden_layers", "roberta"}};

TEST_CASE("a student is every other block of its teacher, or those that are named, with embeddings and head") {
  for (const Family& family : kFamilies) {
    INFO(family.json);
    const auto teacher = Teacher(family.json, family.layers);
    for (const std::vector<int64_t>& layers : std::vector<std::vector<int64_t>>{{}, {3}, {0, 1, 3}, {2, 0}}) {
      const auto student = MakeStudent(*teacher, layers);
      INFO(student.status());
      REQUIRE(student.ok());
      CHECK((*student)->config().model_type == family.type);
      CheckBlocks(*teacher, **student, layers.empty() ? std::vector<int64_t>{0, 2} : layers);
      CHECK(torch::equal((*student)->head_weight(), teacher->head_weight()));
      CHECK(torch::equal((*student)->head_bias(), teacher->head_bias()));
      CHECK_FALSE((*student)->head_weight().data_ptr() == teacher->head_weight().data_ptr());
    }
  }
}

TEST_CASE("with all blocks of its teacher a student computes the same logits, BERT's token type in the positions") {
  for (const Family& family : kFamilies) {
    INFO(family.json);
    const auto teacher = Teacher(family.json, family.layers);
    const auto student = MakeStudent(*teacher, {0, 1, 2, 3}).value();
    torch::manual_seed(9);
    const Tensor ids = torch::randint(2, 61, {2, 20}, torch::kInt64);
    CHECK(RelativeError(LogitsOf(*student, ids), LogitsOf(*teacher, ids)) < 1e-5);
  }
}

TEST_CASE("a student that is saved is loaded again, with a config.json of its own") {
  for (const Family& family : kFamilies) {
    INFO(family.json);
    const testing::TempFolder folder;
    const auto student = MakeStudent(*Teacher(family.json, family.layers), {1, 2, 3}).value();
    REQUIRE(student->Save(folder.path(), "", torch::kFloat32).ok());
    const auto loaded = LoadEncoder(folder.path());
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    CHECK((*loaded)->config().num_hidden_layers == 3);
    const auto parameters = (*loaded)->named_parameters();
    for (const auto& parameter : student->named_parameters()) {
      CHECK(torch::equal(parameters[parameter.key()], parameter.value()));
    }
    CHECK(absl::StrContains(folder.Read("config.json"), "ForMaskedLM"));
  }
}

TEST_CASE("a layer that the teacher does not have is refused with those that it has") {
  const auto teacher = Teacher(kTinyBert, "num_hidden_layers");
  for (const int64_t layer : {4, -1, 11}) {
    const absl::Status status = MakeStudent(*teacher, {0, layer}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(),
                            absl::StrCat("teacher_layers: there is no layer ", layer, ": the teacher has 4, 0 to 3")));
  }
}

}  // namespace
}  // namespace distill
