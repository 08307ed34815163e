// The fields of a config.json as they are filled in out of a GGUF file's metadata; inside nn/ only.
//
//   nlohmann::ordered_json config;
//   GgufFields fields(file.metadata(), weights, config);
//   DISTILL_RETURN_IF_ERROR(fields.Require("hidden_size", "embedding_length"));
//   const std::string text = config.dump();
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "libdistill/store/gguf.h"
#include "libdistill/store/weights_folder.h"

namespace distill {

// What to do where the metadata are not enough.
constexpr char kCopyConfig[] = "copy the config.json of the original model into the folder";

// The shortest decimal number that is this float32: 1e-06, where the next double is 9.99999997e-07.
double Decimal(float number);
// An array becomes a text that says so.
nlohmann::ordered_json JsonOf(const GgufValue& value);
// InvalidArgument, of a key whose value is not computed, or not known.
absl::Status RefuseKey(const std::string& key, const nlohmann::ordered_json& value);

// Keys are those of the file's architecture: "block_count" is "llama.block_count". Metadata, weights and fields outlive
// it.
class GgufFields {
 public:
  GgufFields(const GgufMetadata& metadata, const WeightsFolder& weights, nlohmann::ordered_json& fields)
      : config(fields), metadata_(metadata), weights_(weights) {}

  const GgufMetadata& metadata() const { return metadata_; }
  const WeightsFolder& weights() const { return weights_; }
  std::string Architecture() const;
  // As the file has it.
  std::string KeyOf(const std::string& key) const;

  // Null: the file does not have it.
  nlohmann::ordered_json Get(const std::string& key) const;
  // Into the field, where the file has it and it is no array.
  void Copy(const char* field, const std::string& key);
  // The same. InvalidArgument: the field is not there then.
  [[nodiscard]] absl::Status Require(const char* field, const std::string& key);
  // InvalidArgument: the file has it, and it is neither 0 nor the number that changes nothing either.
  [[nodiscard]] absl::Status RequireNo(const std::string& key, double neutral = 0) const;
  // The value of a field; 0: it is no count of usual size, which whoever reads the config.json refuses.
  int64_t Count(const char* field) const;

  nlohmann::ordered_json& config;

 private:
  const GgufMetadata& metadata_;
  const WeightsFolder& weights_;
};

}  // namespace distill
