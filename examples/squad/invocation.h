// The bodies of /invocations: as those of SageMaker's Hugging Face endpoints for question-answering.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/squad/answer.h"
#include "examples/squad/json_server.h"

namespace distill {

struct AskedQuestion {
  std::string question, context;
};

// {"inputs": {"question": "...", "context": "..."}}, or the inner object alone. InvalidArgument says what is wrong: no
// JSON, a field that is missing, of another kind, or not known.
[[nodiscard]] absl::StatusOr<AskedQuestion> ParseInvocation(const std::string& body);

// {"score": 0.97, "start": 11, "end": 15, "answer": "..."}
std::string InvocationAnswer(const SpanAnswer& answer);

// 200, or an error: 400 for what the client can correct (InvalidArgument), 503 for what takes too long, 500 for the
// rest.
JsonReply ReplyWith(const absl::StatusOr<SpanAnswer>& answer);

}  // namespace distill
