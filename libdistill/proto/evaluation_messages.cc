#include "libdistill/proto/evaluation_messages.h"

#include "evaluation.pb.h"

namespace distill {

absl::StatusOr<std::string> Serialize(const std::map<int64_t, std::string>& predictions) {
  proto::Predictions message;
  message.mutable_by_sample()->insert(predictions.begin(), predictions.end());
  std::string bytes;
  if (message.SerializeToString(&bytes)) return bytes;
  return absl::ResourceExhaustedError("the predictions of one rank take more than 2 GiB: predict less of each sample");
}

std::string Serialize(const std::map<std::string, double>& metrics) {
  proto::Metrics message;
  message.mutable_by_name()->insert(metrics.begin(), metrics.end());
  return message.SerializeAsString();
}

absl::StatusOr<std::map<int64_t, std::string>> ParsePredictions(const std::string& bytes) {
  proto::Predictions message;
  if (!message.ParseFromString(bytes)) return absl::DataLossError("a rank's predictions came damaged");
  return std::map<int64_t, std::string>(message.by_sample().begin(), message.by_sample().end());
}

absl::StatusOr<std::map<std::string, double>> ParseMetrics(const std::string& bytes) {
  proto::Metrics message;
  if (!message.ParseFromString(bytes)) return absl::DataLossError("rank 0's metrics came damaged");
  return std::map<std::string, double>(message.by_name().begin(), message.by_name().end());
}

}  // namespace distill
