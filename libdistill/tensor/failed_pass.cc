#include "libdistill/tensor/failed_pass.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

struct Search {
  std::map<const void*, std::string> modules;  // by their parameters, and by where these lie
  std::string last = "the first module";
  std::string operation;  // that was begun last
  bool looks_at_outputs = true;
  std::string found;
  int depth = 0;  // of operations in operations: the outermost is what the module asked for
};

thread_local Search* search = nullptr;  // of the pass that this thread runs; a callback is a plain function

bool IsBad(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.is_meta() || tensor.numel() == 0) return false;
  return !at::logical_or(at::isfinite(tensor), at::isneginf(tensor)).all().item<bool>();
}

// What an operation was given: at its end that is not told any more.
struct Inputs : at::ObserverContext {
  std::vector<at::Tensor> tensors;
};

bool SharesMemory(const at::Tensor& output, const std::vector<at::Tensor>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
    return input.has_storage() && output.has_storage() && input.storage().is_alias_of(output.storage());
  });
}

// Whose parameter it is, or a view of one; null for any other tensor.
const std::string* ModuleOf(const at::Tensor& tensor) {
  auto found = search->modules.find(tensor.unsafeGetTensorImpl());
  if (found == search->modules.end() && HasMemory(tensor)) found = search->modules.find(tensor.const_data_ptr());
  return found == search->modules.end() ? nullptr : &found->second;
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& operation) {
  auto inputs = std::make_unique<Inputs>();
  if (search == nullptr) return inputs;
  if (search->depth++ == 0) search->operation = operation.name();
  for (const c10::IValue& input : operation.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    inputs->tensors.push_back(input.toTensor());
    if (const std::string* module = ModuleOf(input.toTensor())) search->last = *module;
  }
  return inputs;
}

// Views and operations in place are left out, and what only reserves memory: that may hold anything.
void Look(const at::RecordFunction& operation, at::ObserverContext* context) {
  if (search == nullptr || --search->depth > 0 || !search->looks_at_outputs || !search->found.empty()) return;
  const std::string name = operation.name();
  if (absl::StrContains(name, "empty")) return;
  const at::RecordFunctionGuard off(/*is_enabled=*/false);
  const std::vector<at::Tensor>& inputs = static_cast<Inputs*>(context)->tensors;
  for (const c10::IValue& output : operation.outputs()) {
    if (!output.isTensor() || !IsBad(output.toTensor()) || SharesMemory(output.toTensor(), inputs)) continue;
    const char* where = "the output of ";
    for (const at::Tensor& input : inputs) {
      if (!IsBad(input)) continue;
      const bool is_weight = ModuleOf(input) != nullptr;
      where = is_weight ? "the weights of " : "what is given to ";
      if (is_weight) break;
    }
    search->found = absl::StrCat("first in ", where, search->last, " (", name, ")");
    return;
  }
}

void Run(const torch::nn::Module& module, absl::FunctionRef<void()> pass, Search& mine) {
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    const size_t dot = name.rfind('.');
    const std::string module_name = dot == std::string::npos ? name : name.substr(0, dot);
    mine.modules[item.value().unsafeGetTensorImpl()] = module_name;
    // A block's weights that are sharded (zero_stage 3) lie somewhere only while it runs.
    if (HasMemory(item.value())) mine.modules[item.value().const_data_ptr()] = module_name;
  }
  search = &mine;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&Begin, &Look)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  const absl::Cleanup ends = [&] {
    at::removeCallback(handle);
    search = nullptr;
  };
  pass();
}

}  // namespace

std::string FirstNonFinite(const torch::nn::Module& module, absl::FunctionRef<void()> pass) {
  Search mine;
  Run(module, pass, mine);
  return mine.found;
}

std::string WhereItThrows(const torch::nn::Module& module, absl::FunctionRef<void()> pass) {
  Search mine;
  mine.looks_at_outputs = false;
  try {
    Run(module, pass, mine);
  } catch (const std::exception&) {
    return mine.operation.empty() ? "in the pass" : absl::StrCat("in ", mine.last, " (", mine.operation, ")");
  }
  return "";
}

}  // namespace distill
