// What it costs that ranks compare what they loaded: the time in which a model is loaded, and that of it in which its
// weights are hashed; and the time for the build id of the program. bench/run start prints them.
//
//   build/bin/bench_load
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/world/build_id.h"

namespace distill {
namespace {

// 110 million parameters, which are 0.4 GB.
constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000,
  "hidden_size": 768, "num_hidden_layers": 9, "num_attention_heads": 12, "num_key_value_heads": 12,
  "intermediate_size": 2048, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "max_position_embeddings": 2048, "tie_word_embeddings": false, "initializer_range": 0.02, "torch_dtype": "float32"})";

template <typename Body>
double Seconds(const Body& body) {
  const absl::Time start = absl::Now();
  body();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Measure(const std::string& folder) {
  std::ofstream(folder + "/config.json") << kConfig << std::flush;
  DISTILL_ASSIGN_OR_RETURN(const auto made, CreateDecoder(folder, /*seed=*/1));
  DISTILL_RETURN_IF_ERROR(made->Save(folder, "", torch::kFloat32));
  absl::Status loaded;
  std::string hash;
  const double load = Seconds([&] { loaded = LoadDecoder(folder, {}).status(); });
  DISTILL_RETURN_IF_ERROR(loaded);
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
  int64_t bytes = 0;
  absl::Status hashed;
  const double hashing = Seconds([&] {
    ContentHash all;
    for (const std::string& name : weights.Names()) {
      const absl::StatusOr<TensorView> view = weights.Load(name);
      hashed.Update(view.status());
      if (!view.ok()) continue;
      all.Add(view->data, view->size_bytes);
      bytes += view->size_bytes;
    }
    hash = all.Hex();
  });
  DISTILL_RETURN_IF_ERROR(hashed);
  const double build = Seconds([&] { hash += BuildId(); });
  std::printf("loading %.2f GB takes %.3f s, of which hashing takes %.3f s; the build id takes %.3f s\n",
              static_cast<double>(bytes) / 1e9, load, hashing, build);
  std::printf("JSON {\"load\": %.4f, \"hash\": %.4f, \"build_id\": %.4f}\n", load, hashing, build);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main() {
  std::string folder = std::filesystem::temp_directory_path() / "distill-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = distill::Measure(folder);
  std::filesystem::remove_all(folder);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
