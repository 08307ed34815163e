#include "libdistill/store/pickle.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/pickle_opcode.h"

namespace distill {
namespace {

using Kind = PickleValue::Kind;
using Use = PickleGlobal::Use;
using Opcode = PickleOpcode;

constexpr size_t kLongestShown = 100;

std::string Shown(absl::string_view text) {
  return absl::StrCat(absl::Utf8SafeCHexEscape(text.substr(0, kLongestShown)),
                      text.size() > kLongestShown ? "..." : "");
}

}  // namespace

// The stack machine that pickles are programs for. Values are handles of a fixed size and containers refer to one
// another by number, so that nothing here recurses, whatever a pickle nests.
class PickleMachine {
 public:
  PickleMachine(absl::string_view bytes, absl::Span<const PickleGlobal> globals) : bytes_(bytes), globals_(globals) {}

  absl::StatusOr<PickleDocument> Run() {
    while (!stopped_) {
      begin_ = position_;
      absl::Status status = Step();
      if (status.ok() && values_ > PickleDocument::kMaxValues) {
        status = absl::DataLossError(absl::StrCat("more than ", PickleDocument::kMaxValues, " values"));
      }
      if (!status.ok()) return Annotate(status, absl::StrCat("byte ", begin_));
    }
    document_.size_bytes_ = static_cast<int64_t>(position_);
    return std::move(document_);
  }

 private:
  // Reading -------------------------------------------------------------------------------------------------------
  absl::StatusOr<absl::string_view> Take(uint64_t count) {
    if (count > bytes_.size() - position_) {
      return absl::OutOfRangeError(absl::StrCat("the pickle ends after ", bytes_.size(), " bytes, in the middle"));
    }
    const absl::string_view taken = bytes_.substr(position_, static_cast<size_t>(count));
    position_ += taken.size();
    return taken;
  }
  absl::StatusOr<uint64_t> TakeNumber(int size) {
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view taken, Take(static_cast<uint64_t>(size)));
    uint64_t number = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      number |= static_cast<uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    }
    return number;
  }
  absl::StatusOr<absl::string_view> TakeLine() {
    const size_t end = bytes_.find('\n', position_);
    if (end == absl::string_view::npos) return Take(bytes_.size());  // beyond the end
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view line, Take(end - position_));
    ++position_;
    return line;
  }

  // The stack -----------------------------------------------------------------------------------------------------
  absl::Status Push(PickleValue value) {
    ++values_;
    stack_.push_back(value);
    return absl::OkStatus();
  }
  absl::Status PushNode(Kind kind, std::vector<PickleValue> items, int64_t id = 0) {
    document_.nodes_.push_back(std::move(items));
    return Push({.kind = kind, .index = static_cast<uint32_t>(document_.nodes_.size() - 1), .integer = id});
  }
  absl::Status PushText(Kind kind, absl::string_view text) {
    document_.texts_.push_back(text);
    return Push({.kind = kind, .index = static_cast<uint32_t>(document_.texts_.size() - 1), .integer = 0});
  }
  absl::Status PushSizedText(Kind kind, int size_of_length) {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t length, TakeNumber(size_of_length));
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view text, Take(length));
    return PushText(kind, text);
  }
  absl::Status PushInteger(int size, bool is_signed) {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(size));
    const auto value = is_signed ? static_cast<int64_t>(static_cast<int32_t>(number)) : static_cast<int64_t>(number);
    return Push({.kind = Kind::kInteger, .index = 0, .integer = value});
  }
  // Two's complement of any length.
  absl::Status PushLong(int size_of_length) {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t length, TakeNumber(size_of_length));
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view digits, Take(length));
    if (digits.size() > sizeof(int64_t)) return PushText(Kind::kLong, digits);
    uint64_t number = !digits.empty() && static_cast<signed char>(digits.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(digits[i]);
    return Push({.kind = Kind::kInteger, .index = 0, .integer = static_cast<int64_t>(number)});
  }

  // How many values lie above the last mark, or on the whole stack.
  size_t Above() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  absl::StatusOr<std::vector<PickleValue>> Pop(size_t count) {
    if (Above() < count) return absl::DataLossError("an instruction lacks its values");
    std::vector<PickleValue> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    values_ += static_cast<int64_t>(count);  // they are kept by who takes them
    return items;
  }
  absl::StatusOr<std::vector<PickleValue>> PopToMark() {
    if (marks_.empty()) return absl::DataLossError("an instruction lacks its mark");
    DISTILL_ASSIGN_OR_RETURN(std::vector<PickleValue> items, Pop(Above()));
    marks_.pop_back();
    return items;
  }
  absl::Status PushTuple(size_t size) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<PickleValue> items, Pop(size));
    return PushNode(Kind::kTuple, std::move(items));
  }
  // Adds to the list or dictionary on top of the stack.
  absl::Status AddTo(Kind kind, const absl::StatusOr<std::vector<PickleValue>>& items) {
    if (!items.ok()) return items.status();
    if (Above() == 0 || stack_.back().kind != kind || (kind == Kind::kDict && items->size() % 2 != 0)) {
      return absl::DataLossError("an instruction adds to what is no list or dictionary");
    }
    std::vector<PickleValue>& node = document_.nodes_[stack_.back().index];
    node.insert(node.end(), items->begin(), items->end());
    return absl::OkStatus();
  }

  // The memo ------------------------------------------------------------------------------------------------------
  absl::Status Remember(uint64_t key) {
    if (Above() == 0) return absl::DataLossError("an instruction lacks its values");
    ++values_;
    memo_[key] = stack_.back();
    return absl::OkStatus();
  }
  absl::Status Recall(const absl::StatusOr<uint64_t>& key) {
    if (!key.ok()) return key.status();
    const auto found = memo_.find(*key);
    if (found == memo_.end()) return absl::DataLossError(absl::StrCat("there is no value ", *key, " to repeat"));
    return Push(found->second);
  }

  // Names and calls -----------------------------------------------------------------------------------------------
  absl::Status PushGlobal(absl::string_view module, absl::string_view name) {
    for (size_t i = 0; i < globals_.size(); ++i) {
      if (globals_[i].module != module || globals_[i].name != name) continue;
      return Push({.kind = Kind::kGlobal, .index = static_cast<uint32_t>(i), .integer = globals_[i].id});
    }
    return absl::InvalidArgumentError(absl::StrCat("the pickle names ", Shown(module), ".", Shown(name),
                                                   ", which is none of the few names that weights of ",
                                                   "supported types need. In Python a pickle can run any program, so "
                                                   "it is refused, and nothing of it was run. If you ",
                                                   "trust the file, load it in Python and save it as safetensors "
                                                   "(save_pretrained in transformers, or torch.load and ",
                                                   "safetensors.torch.save_file)"));
  }
  absl::Status PushGlobalOfLines() {
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view module, TakeLine());
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view name, TakeLine());
    return PushGlobal(module, name);
  }
  absl::Status PushGlobalOfStack() {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<PickleValue> names, Pop(2));
    if (names[0].kind != Kind::kText || names[1].kind != Kind::kText) {
      return absl::DataLossError("the name of a global is no text");
    }
    return PushGlobal(document_.Text(names[0]), document_.Text(names[1]));
  }
  absl::Status Call() {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<PickleValue> call, Pop(2));
    if (call[0].kind != Kind::kGlobal || call[1].kind != Kind::kTuple) {
      return absl::DataLossError("the pickle calls what is no function, or without arguments");
    }
    const PickleGlobal& global = globals_[call[0].index];
    const std::vector<PickleValue>& arguments = document_.nodes_[call[1].index];
    if (global.use == Use::kDict && arguments.empty()) return PushNode(Kind::kDict, {});
    if (global.use == Use::kCall) return Push({.kind = Kind::kCall, .index = call[1].index, .integer = global.id});
    return absl::DataLossError(absl::StrCat("the pickle calls ", global.module, ".", global.name, " with ",
                                            arguments.size(), " arguments, as no writer does"));
  }
  // Attributes of a dictionary (a state_dict's _metadata) say nothing of its values.
  absl::Status Build() {
    DISTILL_RETURN_IF_ERROR(Pop(1).status());
    if (Above() > 0 && stack_.back().kind == Kind::kDict) return absl::OkStatus();
    return absl::DataLossError("the pickle sets attributes of what is no dictionary");
  }

  absl::Status Stop() {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<PickleValue> last, Pop(1));
    if (!stack_.empty() || !marks_.empty()) return absl::DataLossError("the pickle ends with values left over");
    document_.root_ = last[0];
    stopped_ = true;
    return absl::OkStatus();
  }
  absl::Status CheckProtocol() {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t protocol, TakeNumber(1));
    if (protocol >= 2 && protocol <= 5) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("a pickle of protocol ", protocol, ", which is not supported"));
  }

  absl::Status Step() {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t code, TakeNumber(1));
    switch (static_cast<Opcode>(code)) {
      case Opcode::kProto:
        return CheckProtocol();
      case Opcode::kFrame:
        return Take(8).status();
      case Opcode::kMark:
        ++values_;
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case Opcode::kStop:
        return Stop();
      case Opcode::kNone:
        return Push({});
      case Opcode::kNewTrue:
        return Push({.kind = Kind::kBool, .index = 0, .integer = 1});
      case Opcode::kNewFalse:
        return Push({.kind = Kind::kBool, .index = 0, .integer = 0});
      case Opcode::kBinInt:
        return PushInteger(4, /*is_signed=*/true);
      case Opcode::kBinInt1:
        return PushInteger(1, /*is_signed=*/false);
      case Opcode::kBinInt2:
        return PushInteger(2, /*is_signed=*/false);
      case Opcode::kLong1:
        return PushLong(1);
      case Opcode::kLong4:
        return PushLong(4);
      case Opcode::kBinFloat:
        DISTILL_RETURN_IF_ERROR(Take(8).status());
        return Push({.kind = Kind::kFloat, .index = 0, .integer = 0});
      default:
        return StepOnContainers(static_cast<Opcode>(code));
    }
  }

  absl::Status StepOnContainers(Opcode code) {
    switch (code) {
      case Opcode::kShortBinString:
      case Opcode::kShortBinUnicode:
        return PushSizedText(Kind::kText, 1);
      case Opcode::kBinString:
      case Opcode::kBinUnicode:
        return PushSizedText(Kind::kText, 4);
      case Opcode::kBinUnicode8:
        return PushSizedText(Kind::kText, 8);
      case Opcode::kShortBinBytes:
        return PushSizedText(Kind::kBytes, 1);
      case Opcode::kBinBytes:
        return PushSizedText(Kind::kBytes, 4);
      case Opcode::kBinBytes8:
        return PushSizedText(Kind::kBytes, 8);
      case Opcode::kEmptyTuple:
        return PushTuple(0);
      case Opcode::kTuple1:
        return PushTuple(1);
      case Opcode::kTuple2:
        return PushTuple(2);
      case Opcode::kTuple3:
        return PushTuple(3);
      case Opcode::kTuple: {
        DISTILL_ASSIGN_OR_RETURN(std::vector<PickleValue> items, PopToMark());
        return PushNode(Kind::kTuple, std::move(items));
      }
      case Opcode::kEmptyList:
        return PushNode(Kind::kList, {});
      case Opcode::kAppend:
        return AddTo(Kind::kList, Pop(1));
      case Opcode::kAppends:
        return AddTo(Kind::kList, PopToMark());
      case Opcode::kEmptyDict:
        return PushNode(Kind::kDict, {});
      case Opcode::kSetItem:
        return AddTo(Kind::kDict, Pop(2));
      case Opcode::kSetItems:
        return AddTo(Kind::kDict, PopToMark());
      default:
        return StepOnNames(code);
    }
  }

  absl::Status StepOnNames(Opcode code) {
    switch (code) {
      case Opcode::kGlobal:
        return PushGlobalOfLines();
      case Opcode::kStackGlobal:
        return PushGlobalOfStack();
      case Opcode::kReduce:
      case Opcode::kNewObj:
        return Call();
      case Opcode::kBuild:
        return Build();
      case Opcode::kBinPersId: {
        DISTILL_ASSIGN_OR_RETURN(std::vector<PickleValue> items, Pop(1));
        return PushNode(Kind::kPersistent, std::move(items));
      }
      case Opcode::kMemoize:
        return Remember(memo_.size());
      case Opcode::kBinPut:
      case Opcode::kLongBinPut: {
        DISTILL_ASSIGN_OR_RETURN(const uint64_t key, TakeNumber(code == Opcode::kBinPut ? 1 : 4));
        return Remember(key);
      }
      case Opcode::kBinGet:
        return Recall(TakeNumber(1));
      case Opcode::kLongBinGet:
        return Recall(TakeNumber(4));
      default:
        return absl::DataLossError(
            absl::StrCat("instruction 0x", absl::Hex(static_cast<uint8_t>(code)), ", which torch.save does not write"));
    }
  }

  const absl::string_view bytes_;
  const absl::Span<const PickleGlobal> globals_;
  size_t position_ = 0, begin_ = 0;
  bool stopped_ = false;
  int64_t values_ = 0;  // that were ever made: what takes memory
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // the stack's size at each
  std::unordered_map<uint64_t, PickleValue> memo_;
  PickleDocument document_;
};

absl::StatusOr<PickleDocument> PickleDocument::Parse(absl::string_view bytes, absl::Span<const PickleGlobal> globals) {
  return PickleMachine(bytes.substr(0, static_cast<size_t>(kMaxBytes)), globals).Run();
}

absl::string_view PickleDocument::Text(const PickleValue& value) const {
  const bool is_text = value.kind == Kind::kText || value.kind == Kind::kBytes || value.kind == Kind::kLong;
  return is_text ? texts_[value.index] : absl::string_view();
}

absl::Span<const PickleValue> PickleDocument::Items(const PickleValue& value) const {
  switch (value.kind) {
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kCall:
    case Kind::kPersistent:
      return nodes_[value.index];
    default:
      return {};
  }
}

}  // namespace distill
