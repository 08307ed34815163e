#include "libdistill/plan/instances.h"

#include <yaml-cpp/yaml.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {

extern const char kBuiltInInstances[];

template <class V>
void Describe(V& v, Instance& o) {
  v.Field("name", o.name, "of the instance");
  v.Field("gpus", o.gpus, Within(1, 1024), "how many it has");
  v.Field("gpu", o.gpu, "their kind");
  v.Field("gpu_memory_gb", o.gpu_memory_gb, Within(1, 1e5), "of each");
  v.Field("bf16_tflops", o.bf16_tflops, AtLeast(0), "dense peak of one GPU in bfloat16");
  v.Field("fp16_tflops", o.fp16_tflops, AtLeast(0), "the same in float16");
  v.Field("fp32_tflops", o.fp32_tflops, AtLeast(0.001), "the same in float32");
  v.Field("network_gbps", o.network_gbps, AtLeast(0.001), "of the instance");
  v.Field("dollars_per_hour", o.dollars_per_hour, AtLeast(0), "on demand");
  v.Field("region", o.region, "of the price");
  v.Field("date", o.date, "of the price");
}

namespace {

constexpr char kBuiltInName[] = "bench/instances.yaml";

absl::Status SetField(const Description& description, const YAML::Node& key, const YAML::Node& value,
                      std::set<std::string>& missing) {
  if (!key.IsScalar() || !value.IsScalar()) return absl::InvalidArgumentError("expected 'key: value' pairs");
  const FieldDescription* field = description.Find(key.Scalar());
  if (field == nullptr) return absl::InvalidArgumentError(absl::StrCat("unknown key ", key.Scalar()));
  if (missing.erase(field->name) == 0) return absl::InvalidArgumentError(absl::StrCat(field->name, " is given twice"));
  if (field->places[0].parse(value.Scalar())) return Annotate(CheckField(*field), field->name);
  return absl::InvalidArgumentError(
      absl::StrCat(field->name, ": expected ", field->kind.words, ", got '", value.Scalar(), "'"));
}

absl::StatusOr<Instance> ReadInstance(const YAML::Node& map) {
  if (!map.IsMap()) return absl::InvalidArgumentError("expected a map, {name: ..., gpus: ...}");
  Instance instance;
  const Description description = DescriptionOf(instance);
  std::set<std::string> missing;
  for (const FieldDescription& field : description.fields()) missing.insert(field.name);
  for (const auto& entry : map) {
    DISTILL_RETURN_IF_ERROR(SetField(description, entry.first, entry.second, missing));
  }
  if (missing.empty()) return instance;
  return absl::InvalidArgumentError(absl::StrCat("missing: ", absl::StrJoin(missing, ", ")));
}

absl::StatusOr<std::vector<Instance>> ReadList(const YAML::Node& root, const std::string& name) {
  const YAML::Node list = root.IsMap() ? root["instances"] : YAML::Node();
  if (!list.IsDefined() || !list.IsSequence() || list.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected 'instances:' with a list of maps"));
  }
  std::vector<Instance> instances;
  std::set<std::string> names;
  for (const YAML::Node& node : list) {
    auto instance = ReadInstance(node);
    if (instance.ok() && !names.insert(instance->name).second) {
      instance = absl::InvalidArgumentError(absl::StrCat(instance->name, " comes twice"));
    }
    if (!instance.ok()) return Annotate(instance.status(), absl::StrCat(name, ":", node.Mark().line + 1));
    instances.push_back(*std::move(instance));
  }
  return instances;
}

}  // namespace

absl::StatusOr<std::vector<Instance>> ParseInstances(const std::string& text, const std::string& name) {
  try {
    return ReadList(YAML::Load(text), name);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<std::vector<Instance>> ReadInstances(const std::string& path) {
  if (path.empty()) return ParseInstances(kBuiltInInstances, kBuiltInName);
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseInstances(text, path);
}

absl::StatusOr<Instance> FindInstance(const std::vector<Instance>& instances, const std::string& name) {
  std::vector<std::string> names;
  for (const Instance& instance : instances) {
    if (instance.name == name) return instance;
    names.push_back(instance.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("instance: there is no '", name, "'; there are ",
                                                 absl::StrJoin(names, ", "),
                                                 ", and those of a file of your own (--instances)"));
}

int64_t UsableBytes(double gpu_memory_gb) {
  constexpr double kContextBytes = 512 << 20;
  return static_cast<int64_t>(0.95 * gpu_memory_gb * 1e9 - kContextBytes);
}

}  // namespace distill
