#include "libdistill/store/torch_pickle.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

using Kind = PickleValue::Kind;
using Use = PickleGlobal::Use;

constexpr StoredType kTypes[] = {{"float32", DType::kFloat32, 4}, {"float64", DType::kFloat64, 8},
                                 {"float16", DType::kFloat16, 2}, {"bfloat16", DType::kBFloat16, 2},
                                 {"int64", DType::kInt64, 8},     {"int32", DType::kInt32, 4},
                                 {"int16", DType::kInt32, 2},     {"int8", DType::kInt32, 1},
                                 {"uint8", DType::kUInt8, 1},     {"bool", DType::kUInt8, 1}};

// Ids of globals: what they are, and of types beside it their place in kTypes.
constexpr int64_t kOrderedDict = 0, kTensor = 1, kTensorOfType = 2, kParameter = 3, kSize = 4, kUntyped = 5;
constexpr int64_t kStorages = 100, kTypeNames = 200;

constexpr PickleGlobal kGlobals[] = {
    {"collections", "OrderedDict", Use::kDict, kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", Use::kCall, kTensor},
    {"torch._utils", "_rebuild_tensor_v3", Use::kCall, kTensorOfType},
    {"torch._utils", "_rebuild_parameter", Use::kCall, kParameter},
    {"torch", "Size", Use::kCall, kSize},
    {"torch.storage", "UntypedStorage", Use::kName, kUntyped},
    {"torch", "FloatStorage", Use::kName, kStorages + 0},
    {"torch", "DoubleStorage", Use::kName, kStorages + 1},
    {"torch", "HalfStorage", Use::kName, kStorages + 2},
    {"torch", "BFloat16Storage", Use::kName, kStorages + 3},
    {"torch", "LongStorage", Use::kName, kStorages + 4},
    {"torch", "IntStorage", Use::kName, kStorages + 5},
    {"torch", "ShortStorage", Use::kName, kStorages + 6},
    {"torch", "CharStorage", Use::kName, kStorages + 7},
    {"torch", "ByteStorage", Use::kName, kStorages + 8},
    {"torch", "BoolStorage", Use::kName, kStorages + 9},
    {"torch", "float32", Use::kName, kTypeNames + 0},
    {"torch", "float64", Use::kName, kTypeNames + 1},
    {"torch", "float16", Use::kName, kTypeNames + 2},
    {"torch", "bfloat16", Use::kName, kTypeNames + 3},
    {"torch", "int64", Use::kName, kTypeNames + 4},
    {"torch", "int32", Use::kName, kTypeNames + 5},
    {"torch", "int16", Use::kName, kTypeNames + 6},
    {"torch", "int8", Use::kName, kTypeNames + 7},
    {"torch", "uint8", Use::kName, kTypeNames + 8},
    {"torch", "bool", Use::kName, kTypeNames + 9},
};

constexpr size_t kLongestName = 4096;   // a pickle may repeat a text for two bytes
constexpr size_t kMostDimensions = 64;  // torch's own limit

// Of a global whose id counts from `first`; null for others.
const StoredType* TypeOf(const PickleValue& value, int64_t first) {
  const int64_t place = value.integer - first;
  const bool is_type = value.kind == Kind::kGlobal && place >= 0 && place < static_cast<int64_t>(std::size(kTypes));
  return is_type ? &kTypes[place] : nullptr;
}

bool IsCall(const PickleValue& value, int64_t id) { return value.kind == Kind::kCall && value.integer == id; }

class TensorReader {
 public:
  explicit TensorReader(const PickleDocument& document) : document_(document) {}

  absl::StatusOr<PickledTensor> Read(const PickleValue& value) const {
    PickleValue tensor = value;
    if (IsCall(tensor, kParameter)) {  // (tensor, requires_grad, hooks)
      const auto arguments = document_.Items(tensor);
      if (arguments.empty()) return absl::DataLossError("a parameter without its tensor");
      tensor = arguments[0];
    }
    // (storage, offset, shape, strides, requires_grad, hooks), and of the second kind its type
    const auto arguments = document_.Items(tensor);
    const bool names_type = IsCall(tensor, kTensorOfType);
    if (!names_type && !IsCall(tensor, kTensor)) {
      return absl::InvalidArgumentError(
          "it is no tensor; a file of weights maps names to tensors, as a model's state_dict does");
    }
    if (arguments.size() < (names_type ? 7 : 4)) return absl::DataLossError("a tensor without its parts");
    PickledTensor result;
    DISTILL_RETURN_IF_ERROR(ReadStorage(arguments[0], names_type ? &arguments[6] : nullptr, result));
    DISTILL_ASSIGN_OR_RETURN(result.offset, SizeOfValue(arguments[1]));
    DISTILL_ASSIGN_OR_RETURN(result.shape, Sizes(arguments[2]));
    DISTILL_ASSIGN_OR_RETURN(result.strides, Sizes(arguments[3]));
    if (result.shape.size() != result.strides.size())
      return absl::DataLossError("it has another number of strides than of sizes");
    return result;
  }

 private:
  static absl::StatusOr<int64_t> SizeOfValue(const PickleValue& value) {
    if (value.kind == Kind::kInteger && value.integer >= 0) return value.integer;
    return absl::DataLossError("something is no size where one must be");
  }

  absl::StatusOr<std::vector<int64_t>> Sizes(PickleValue value) const {
    if (IsCall(value, kSize) && document_.Items(value).size() == 1) value = document_.Items(value)[0];
    const auto items = document_.Items(value);
    if (value.kind != Kind::kTuple || items.size() > kMostDimensions) {
      return absl::DataLossError(absl::StrCat("its shape is no tuple of at most ", kMostDimensions, " sizes"));
    }
    std::vector<int64_t> sizes;
    for (const PickleValue& item : items) {
      DISTILL_ASSIGN_OR_RETURN(const int64_t size, SizeOfValue(item));
      sizes.push_back(size);
    }
    return sizes;
  }

  // ("storage", type, key, device, elements), and before torch 1.6 None or a part of the storage
  absl::Status ReadStorage(const PickleValue& value, const PickleValue* named_type, PickledTensor& result) const {
    const auto outer = document_.Items(value);
    const auto parts = value.kind == Kind::kPersistent ? document_.Items(outer[0]) : outer;
    if (value.kind != Kind::kPersistent || parts.size() < 5 || document_.Text(parts[0]) != "storage" ||
        parts[2].kind != Kind::kText) {
      return absl::DataLossError("its storage is not described as torch.save does");
    }
    if (parts.size() > 5 && parts[5].kind != Kind::kNone) {
      return absl::InvalidArgumentError(
          "it lies in a part of a storage, as torch before 0.4 wrote: load and save it with a newer torch");
    }
    const StoredType* in_storage = TypeOf(parts[1], kStorages);
    if (parts[1].kind == Kind::kGlobal && parts[1].integer == kUntyped) in_storage = FindType(kTypes, "uint8");
    result.type = named_type == nullptr ? in_storage : TypeOf(*named_type, kTypeNames);
    if (in_storage == nullptr || result.type == nullptr) return absl::DataLossError("it has no type");
    DISTILL_ASSIGN_OR_RETURN(result.storage_elements, SizeOfValue(parts[4]));
    if (__builtin_mul_overflow(result.storage_elements, in_storage->bytes, &result.storage_bytes)) {
      return absl::DataLossError(absl::StrCat("its storage of ", result.storage_elements, " elements overflows"));
    }
    result.storage = document_.Text(parts[2]);
    if (result.storage.size() > kLongestName) return absl::DataLossError("the name of its storage is longer than any");
    return absl::OkStatus();
  }

  const PickleDocument& document_;
};

}  // namespace

absl::Span<const PickleGlobal> TorchGlobals() { return kGlobals; }

absl::StatusOr<std::vector<PickledTensor>> TensorsOf(const PickleDocument& document) {
  if (document.root().kind != Kind::kDict) {
    return absl::InvalidArgumentError(
        "it holds no dictionary of tensors: save a model's state_dict(), or its folder as safetensors");
  }
  const TensorReader reader(document);
  const auto items = document.Items(document.root());
  std::vector<PickledTensor> tensors;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != Kind::kText) return absl::InvalidArgumentError("a key that is no text; names are expected");
    const absl::string_view name = document.Text(items[i]);
    if (name.size() > kLongestName) return absl::DataLossError(absl::StrCat("a name of ", name.size(), " bytes"));
    absl::StatusOr<PickledTensor> tensor = reader.Read(items[i + 1]);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("tensor \"", name, "\""));
    tensor->name = name;
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

}  // namespace distill
