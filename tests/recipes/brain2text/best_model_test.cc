#include "examples/brain2text/best_model.h"

#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

TEST_CASE("a best model whose save was interrupted is completed before a resumed run compares its own with it") {
  const TempFolder best;
  best.Write("model.safetensors", "older");
  best.Write(".model.new/.files", "metrics.json\nmodel.safetensors");
  best.Write(".model.new/metrics.json", R"({"phoneme_error_rate": 0.2, "loss": 1.0})");
  best.Write(".model.new/model.safetensors", "better");
  int saves = 0;
  const auto write = [&](const std::string& folder) {
    ++saves;
    return WriteWholeFile(JoinPath(folder, "model.safetensors"), "new");
  };
  BestModel model(best.path(), write, /*resumes=*/true);
  TrainingControl control;
  CHECK(model.OnEvaluate({.step = 7, .metrics = {{"phoneme_error_rate", 0.3}, {"loss", 1.5}}}, control) ==
        absl::OkStatus());
  CHECK(saves == 0);
  CHECK(best.Read("model.safetensors") == "better");
  CHECK(model.OnEvaluate({.step = 8, .metrics = {{"phoneme_error_rate", 0.1}, {"loss", 1.5}}}, control) ==
        absl::OkStatus());
  CHECK(saves == 1);
  CHECK(best.Read("model.safetensors") == "new");
  CHECK(*ListEntries(best.path()) == std::vector<std::string>{"metrics.json", "model.safetensors"});
}

}  // namespace
}  // namespace distill
