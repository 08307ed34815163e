#include "examples/squad/predictions.h"

#include <nlohmann/json.hpp>

#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;

// As Python's json.dumps(value, indent=4) writes it.
absl::Status Write(const std::string& folder, const char* name, const Json& value) {
  return WriteWholeFile(JoinPath(folder, name),
                        value.dump(4, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n");
}

Json CandidatesOf(const DecodedAnswer& answer) {
  Json list = Json::array();
  for (const Candidate& candidate : answer.n_best) {
    list.push_back({{"start_logit", candidate.start_logit},
                    {"end_logit", candidate.end_logit},
                    {"text", candidate.text},
                    {"probability", candidate.probability}});
  }
  return list;
}

}  // namespace

absl::Status WritePredictions(const std::string& folder, const std::vector<AnsweredQuestion>& answers,
                              bool version_2_with_negative) {
  Json predictions = Json::object(), candidates = Json::object(), odds = Json::object();
  for (const AnsweredQuestion& answered : answers) {
    predictions[answered.id] = answered.answer.text;
    candidates[answered.id] = CandidatesOf(answered.answer);
    odds[answered.id] = answered.answer.null_odds;
  }
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  DISTILL_RETURN_IF_ERROR(Write(folder, "predictions.json", predictions));
  DISTILL_RETURN_IF_ERROR(Write(folder, "nbest_predictions.json", candidates));
  return version_2_with_negative ? Write(folder, "null_odds.json", odds) : absl::OkStatus();
}

}  // namespace distill
