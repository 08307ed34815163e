#include "libdistill/comm/call.h"

#include "absl/strings/str_cat.h"

namespace distill {

const char* NameOf(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum", "average", "min", "max", "product"};
  return kNames[static_cast<size_t>(op)];
}

const char* NameOf(CommOperation operation) {
  static constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",    "reduce",
                                           "all-to-all", "barrier",        "send to",    "receive from", "allocate"};
  return kNames[static_cast<size_t>(operation)];
}

CallSignature CommCall::signature() const {
  if (operation == CommOperation::kBarrier) return {};
  return {operation, dtype, Reduces(operation) ? op : ReduceOp::kSum, HasRoot(operation) ? root : 0, count};
}

std::string Describe(const CallSignature& signature) {
  const CommOperation operation = signature.operation;
  std::string text = NameOf(operation);
  if (operation == CommOperation::kBarrier) return text;
  absl::StrAppend(&text, " of ", signature.count, " ", NameOf(signature.dtype));
  if (Reduces(operation)) absl::StrAppend(&text, " (", NameOf(signature.op), ")");
  if (HasRoot(operation)) absl::StrAppend(&text, Reduces(operation) ? " to" : " from", " rank ", signature.root);
  return text;
}

// FNV-1a.
uint32_t FingerprintOf(const CallSignature& signature) {
  uint32_t hash = 2166136261;
  for (const char byte : Describe(signature)) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619;
  return hash;
}

}  // namespace distill
