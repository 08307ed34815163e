#include "libdistill/nn/adapters.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/layers.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

using torch::Tensor;
using NamedLinears = std::vector<std::pair<std::string, Linear*>>;

constexpr char kAllLinear[] = "all-linear";
constexpr const char* kUsual[] = {"q_proj", "v_proj", "qkv_proj"};

NamedLinears LinearsOf(const torch::nn::Module& model) {
  NamedLinears linears;
  // Without the model itself, which may be on the stack.
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (auto* linear = dynamic_cast<Linear*>(item.value().get())) linears.emplace_back(item.key(), linear);
  }
  return linears;
}

bool AnswersTo(const std::string& name, const std::string& target) {
  return name == target || absl::EndsWith(name, absl::StrCat(".", target));
}

std::string LastPart(const std::string& name) { return name.substr(name.rfind('.') + 1); }

absl::Status NoSuchTarget(const std::string& target, const NamedLinears& linears) {
  std::set<std::string> names;
  for (const auto& [name, linear] : linears) names.insert(LastPart(name));
  return absl::InvalidArgumentError(absl::StrCat("'", target, "' is no matrix of the model's blocks; those are ",
                                                 absl::StrJoin(names, ", "),
                                                 " (the embedding and the head have no adapters), or ", kAllLinear));
}

// `linears`: without the head.
absl::StatusOr<NamedLinears> Chosen(const std::string& names, const NamedLinears& linears) {
  if (names == kAllLinear) return linears;
  std::vector<std::string> targets = absl::StrSplit(names, absl::ByAnyChar(", "), absl::SkipWhitespace());
  const std::vector<std::string> usual(std::begin(kUsual), std::end(kUsual));
  const std::vector<std::string>& asked = targets.empty() ? usual : targets;
  const auto answers = [&](const std::string& target) {
    return std::any_of(linears.begin(), linears.end(), [&](const auto& item) { return AnswersTo(item.first, target); });
  };
  for (const std::string& target : targets) {
    if (!answers(target)) return NoSuchTarget(target, linears);
  }
  NamedLinears chosen;
  for (const auto& item : linears) {
    const auto is_asked = [&](const std::string& target) { return AnswersTo(item.first, target); };
    if (std::any_of(asked.begin(), asked.end(), is_asked)) chosen.push_back(item);
  }
  if (chosen.empty()) return NoSuchTarget(absl::StrJoin(asked, ", "), linears);
  return chosen;
}

absl::Status CheckAdapters(const AdapterOptions& options, const LanguageModel& model) {
  if (options.rank < 1) return absl::InvalidArgumentError(absl::StrCat("rank: ", options.rank, " is not above 0"));
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("dropout: ", options.dropout, " is not within 0 and 1"));
  }
  if (!std::isfinite(options.alpha)) return absl::InvalidArgumentError("alpha is not finite");
  if (!model.adapters().has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError("the model has adapters already");
}

// The matrices of A and B, beside that of `linear`, which may be away.
void AddTo(Linear& linear, const AdapterOptions& options, at::Generator& generator) {
  const torch::Device device = HasMemory(linear.weight) ? linear.weight.device() : torch::Device(torch::kCPU);
  const auto type = torch::TensorOptions(linear.weight.scalar_type()).device(device);
  const int64_t in = linear.weight.size(1), out = linear.weight.size(0);
  const auto rank = static_cast<double>(options.rank);
  const double scale = options.alpha / (options.is_rank_stabilised ? std::sqrt(rank) : rank);
  linear.AddAdapter(torch::empty({options.rank, in}, type), torch::zeros({out, options.rank}, type), scale,
                    options.dropout);
  if (device.is_meta()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(in));  // kaiming_uniform_ with a = sqrt(5)
  linear.lora_a.copy_(torch::empty({options.rank, in}, torch::kFloat32).uniform_(-bound, bound, generator));
}

const Linear* AdaptedBy(const torch::nn::Module& model, const Tensor& weight) {
  for (const auto& [name, linear] : LinearsOf(model)) {
    if (linear->has_adapter() && linear->weight.is_same(weight)) return linear;
  }
  return nullptr;
}

}  // namespace

absl::Status AddAdapters(const AdapterOptions& options, LanguageModel& model) {
  DISTILL_RETURN_IF_ERROR(CheckAdapters(options, model));
  NamedLinears linears = LinearsOf(model);
  std::erase_if(linears, [&](const auto& item) { return item.second->weight.is_same(model.head_weight()); });
  DISTILL_ASSIGN_OR_RETURN(const NamedLinears chosen, Chosen(options.targets, linears));
  return CatchTorch([&] {
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : model.parameters()) parameter.set_requires_grad(false);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
    for (const auto& [name, linear] : chosen) AddTo(*linear, options, generator);
    model.SetAdapters(options);
  });
}

Tensor Merged(const torch::nn::Module& model, const Tensor& weight) {
  const Linear* linear = AdaptedBy(model, weight);
  if (linear == nullptr) return weight;
  const torch::NoGradGuard no_grad;
  const Tensor a = linear->lora_a.to(torch::kFloat32), b = linear->lora_b.to(torch::kFloat32);
  return at::addmm(weight.to(torch::kFloat32), b, a, /*beta=*/1, linear->lora_scale);
}

torch::OrderedDict<std::string, Tensor> AdapterTensors(const torch::nn::Module& model) {
  torch::OrderedDict<std::string, Tensor> tensors;
  for (const auto& [name, linear] : LinearsOf(model)) {
    if (!linear->has_adapter()) continue;
    const std::string path = absl::StrCat("base_model.model.", name);
    tensors.insert(path + ".lora_A.weight", linear->lora_a);
    tensors.insert(path + ".lora_B.weight", linear->lora_b);
  }
  return tensors;
}

torch::OrderedDict<std::string, Tensor> TensorsWithoutAdapters(const torch::nn::Module& model) {
  std::set<const c10::TensorImpl*> of_adapters;
  for (const auto& item : AdapterTensors(model)) of_adapters.insert(item.value().unsafeGetTensorImpl());
  torch::OrderedDict<std::string, Tensor> tensors;
  for (const auto& item : model.named_parameters()) {
    if (of_adapters.count(item.value().unsafeGetTensorImpl()) == 0) tensors.insert(item.key(), item.value());
  }
  return tensors;
}

std::string AdapterConfigJson(const torch::nn::Module& model, const AdapterOptions& options) {
  std::set<std::string> targets;  // by the ends of names, unless that would name more than there are
  size_t adapted = 0, named = 0;
  const NamedLinears linears = LinearsOf(model);
  for (const auto& [name, linear] : linears) {
    if (linear->has_adapter()) targets.insert(LastPart(name)), ++adapted;
  }
  for (const auto& [name, linear] : linears) named += targets.count(LastPart(name));
  if (named != adapted) targets.clear();
  for (const auto& [name, linear] : linears) {
    if (named != adapted && linear->has_adapter()) targets.insert(name);
  }
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", "CAUSAL_LM"},
                                 {"base_model_name_or_path", options.base_model},
                                 {"r", options.rank},
                                 {"lora_alpha", options.alpha},
                                 {"lora_dropout", options.dropout},
                                 {"target_modules", targets},
                                 {"use_rslora", options.is_rank_stabilised},
                                 {"use_dora", false},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", false},
                                 {"inference_mode", true}};
  if (options.alpha == std::floor(options.alpha)) json["lora_alpha"] = static_cast<int64_t>(options.alpha);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace distill
