#include "libdistill/store/hdf5_convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// IEEE's half precision, as numpy's float16 has it.
struct Half {
  uint16_t bits;
  explicit operator float() const {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const float size = exponent == 0   ? std::ldexp(static_cast<float>(mantissa), -24)
                       : exponent < 31 ? std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25)
                       : mantissa == 0 ? std::numeric_limits<float>::infinity()
                                       : std::numeric_limits<float>::quiet_NaN();
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

// Nothing where T does not hold it.
template <typename T, typename From>
std::optional<T> As(From value) {
  if constexpr (std::is_same_v<T, From>) {
    return value;
  } else if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<T>) {
    const T near = static_cast<T>(value);
    if (std::isfinite(value) && !std::isfinite(near)) return std::nullopt;
    return near;
  } else if constexpr (std::is_floating_point_v<From>) {
    // The least is a power of two, and so is one more than the largest: both are exact.
    constexpr From kLeast = static_cast<From>(std::numeric_limits<T>::min());
    const From end = std::ldexp(From{1}, std::numeric_limits<T>::digits);
    if (!(value >= kLeast && value < end) || value != std::trunc(value)) return std::nullopt;
    return static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    const T near = static_cast<T>(value);
    const std::optional<From> back = As<From>(near);
    if (!back || *back != value) return std::nullopt;
    return near;
  } else {
    if (std::is_signed_v<From> != std::is_signed_v<T> && (value < From{0} || static_cast<T>(value) < T{0})) {
      return std::nullopt;
    }
    const T cut = static_cast<T>(value);
    if (static_cast<From>(cut) != value) return std::nullopt;
    return cut;
  }
}

template <typename T, typename From>
absl::Status ConvertFrom(const Hdf5Type& type, absl::string_view bytes, absl::Span<T> out) {
  if (bytes.size() / sizeof(From) != out.size()) return absl::InternalError("bytes of another number of elements");
  if (std::is_same_v<T, From> && type.is_little_endian) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  for (size_t i = 0; i < out.size(); ++i) {
    char element[sizeof(From)];
    std::copy_n(bytes.data() + i * sizeof(From), sizeof(From), element);
    if (!type.is_little_endian) std::reverse(std::begin(element), std::end(element));
    From value;
    std::memcpy(&value, element, sizeof(From));
    using Number = std::conditional_t<std::is_same_v<From, Half>, float, From>;
    const auto number = static_cast<Number>(value);
    const std::optional<T> held = As<T>(number);
    if (!held) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", +number, " of element ", i, " of those read is not held by the type that is wanted (",
                       std::is_floating_point_v<T> ? "float" : "integer", " of ", 8 * sizeof(T), " bits)"));
    }
    out[i] = *held;
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status ConvertNumbers(const Hdf5Type& type, absl::string_view bytes, absl::Span<T> out) {
  switch (type.kind) {
    case Hdf5Kind::kSigned:
      if (type.bytes == 1) return ConvertFrom<T, int8_t>(type, bytes, out);
      if (type.bytes == 2) return ConvertFrom<T, int16_t>(type, bytes, out);
      if (type.bytes == 4) return ConvertFrom<T, int32_t>(type, bytes, out);
      if (type.bytes == 8) return ConvertFrom<T, int64_t>(type, bytes, out);
      break;
    case Hdf5Kind::kUnsigned:
      if (type.bytes == 1) return ConvertFrom<T, uint8_t>(type, bytes, out);
      if (type.bytes == 2) return ConvertFrom<T, uint16_t>(type, bytes, out);
      if (type.bytes == 4) return ConvertFrom<T, uint32_t>(type, bytes, out);
      if (type.bytes == 8) return ConvertFrom<T, uint64_t>(type, bytes, out);
      break;
    case Hdf5Kind::kFloat:
      if (type.bytes == 2) return ConvertFrom<T, Half>(type, bytes, out);
      if (type.bytes == 4) return ConvertFrom<T, float>(type, bytes, out);
      if (type.bytes == 8) return ConvertFrom<T, double>(type, bytes, out);
      break;
    case Hdf5Kind::kString:
    case Hdf5Kind::kOther:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("its elements are of type ", type.name, ", where numbers are wanted"));
}

template absl::Status ConvertNumbers(const Hdf5Type&, absl::string_view, absl::Span<float>);
template absl::Status ConvertNumbers(const Hdf5Type&, absl::string_view, absl::Span<double>);
template absl::Status ConvertNumbers(const Hdf5Type&, absl::string_view, absl::Span<int32_t>);
template absl::Status ConvertNumbers(const Hdf5Type&, absl::string_view, absl::Span<int64_t>);
template absl::Status ConvertNumbers(const Hdf5Type&, absl::string_view, absl::Span<uint8_t>);

}  // namespace distill
