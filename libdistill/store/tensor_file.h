// A file of named tensors of any format (safetensors.h, torch_file.h): what they are is known once the file is open,
// and their bytes are read when they are asked for.
//
//   const TensorView* about = file.Find("model.norm.weight");  // type, shape and size; null where there is none
//   DISTILL_ASSIGN_OR_RETURN(const TensorView tensor, file.Load("model.norm.weight"));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/tensor_view.h"

namespace distill {

// How a format keeps the elements of a type. Where DType has no such type, they are read as a wider one of it, with the
// same values: bool as uint8, int8 and int16 as int32, floating-point numbers of eight bits as bfloat16.
struct StoredType {
  const char* name;        // the format's
  DType dtype;             // as read
  int64_t bytes;           // of an element in the file, or of a block of them
  int64_t block_size = 1;  // elements that are stored together
  // Reads so many blocks into elements of `dtype`; null: the bytes are the element's, or of the narrower integer.
  void (*decode)(const char* from, int64_t blocks, char* to) = nullptr;
};

// The entry of that name; null where there is none.
const StoredType* FindType(absl::Span<const StoredType> types, absl::string_view name);

// The bytes of so many elements, as they are stored or as they are read, whichever are more; nullopt where an int64
// cannot hold them. Sizes are at least 0.
std::optional<int64_t> CheckedBytes(const StoredType& type, const std::vector<int64_t>& shape);

// Copies share what is open; a tensor that was loaded outlives all of them.
class TensorFile {
 public:
  const std::string& path() const { return bytes_->path(); }
  // All tensors, without their data.
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* Find(const std::string& name) const;
  // How the file has it; null where there is no such tensor.
  const StoredType* StoredTypeOf(const std::string& name) const;

  // With its data. Out of a local file it is a view of the mapping where the elements lie there in order, which takes
  // no memory of its own; otherwise its owner holds a copy, as large as the tensor. Blocks while a store is read. Any
  // thread. NotFound: no such tensor. Other errors are those of reading, and name file and tensor.
  [[nodiscard]] absl::StatusOr<TensorView> Load(const std::string& name) const;
  // Lets go of the memory that reading a tensor out of a local file has taken: the pages of the mapping that are its
  // alone. It can be loaded again. Nothing for a name that there is not.
  void Forget(const std::string& name) const;

 protected:
  struct Place {
    const StoredType* type = nullptr;
    int64_t offset = 0;      // of the first element, in bytes of the file
    int64_t span_bytes = 0;  // from there to the end of the last element
    // In elements, one for each dimension; empty: in row-major order, as what a type decodes always is.
    std::vector<int64_t> strides = {};
    // Above 0: rows of a head, of which the file has the first of each half, then the second of each, and so on. They
    // are read half by half. The first dimension is a multiple of it, and it is even.
    int64_t head_rows = 0;
  };

  explicit TensorFile(std::shared_ptr<const FileBytes> bytes) : bytes_(std::move(bytes)) {}
  const FileBytes& bytes() const { return *bytes_; }
  // False where there is a tensor of this name already. The place lies in the file.
  bool Add(const std::string& name, std::vector<int64_t> shape, Place place);

 private:
  std::shared_ptr<const FileBytes> bytes_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, Place> places_;
};

}  // namespace distill
