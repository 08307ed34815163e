#include "libdistill/store/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;

// What gzip and zstd have in common: compressed bytes go in, others come out, and the file may end only after a whole
// member or frame.
class DecompressedStream : public ByteStream {
 public:
  DecompressedStream(std::unique_ptr<ByteStream> bytes, std::string path, const char* format)
      : bytes_(std::move(bytes)), path_(std::move(path)), format_(format) {}

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (out.empty() || is_over_) return size_t{0};
    absl::StatusOr<size_t> size = Produce(out);
    is_over_ = !size.ok() || *size == 0;
    return size;
  }

  int64_t bytes_read() const override { return bytes_->bytes_read() - static_cast<int64_t>(input_.size()); }

 protected:
  // Takes from the front of `input` and fills `out`; how many bytes of that. Sets is_whole_.
  virtual absl::StatusOr<size_t> Step(absl::string_view& input, absl::Span<char> out) = 0;
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": damaged ", format_, " data after about ", bytes_read(),
                                            " bytes: ", what, "; fetch or compress it again"));
  }

  bool is_whole_ = true;  // the last member or frame has ended

 private:
  absl::StatusOr<size_t> Produce(absl::Span<char> out) {
    for (;;) {
      if (input_.empty() && !may_hold_more_) {
        DISTILL_ASSIGN_OR_RETURN(const size_t size, bytes_->Read(absl::MakeSpan(buffer_)));
        input_ = absl::string_view(buffer_.data(), size);
        if (size == 0) return is_whole_ ? absl::StatusOr<size_t>(0) : Damaged("it ends in the middle");
      }
      DISTILL_ASSIGN_OR_RETURN(const size_t size, Step(input_, out));
      may_hold_more_ = size == out.size();
      if (size > 0) return size;
    }
  }

  const std::unique_ptr<ByteStream> bytes_;
  const std::string path_;
  const char* const format_;
  std::vector<char> buffer_ = std::vector<char>(kInputBytes);
  absl::string_view input_;     // of the buffer, what is not yet taken
  bool may_hold_more_ = false;  // the last step had no room for more
  bool is_over_ = false;
};

class GzipStream : public DecompressedStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> bytes, std::string path)
      : DecompressedStream(std::move(bytes), std::move(path), "gzip") {
    inflateInit2(&state_, 15 + 16);  // windows of every size, with gzip's header
  }
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  absl::StatusOr<size_t> Step(absl::string_view& input, absl::Span<char> out) override {
    if (is_whole_) {
      if (input.empty()) return size_t{0};
      if (has_begun_ && input.front() == '\0') {  // members may be padded with zeros (tar, tapes)
        input.remove_prefix(1);
        return size_t{0};
      }
      inflateReset(&state_);
      has_begun_ = true;
      is_whole_ = false;
    }
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    state_.avail_in = static_cast<uInt>(input.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1 << 30));
    const uInt room = state_.avail_out;
    const int code = inflate(&state_, Z_NO_FLUSH);
    input.remove_prefix(input.size() - state_.avail_in);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return Damaged(state_.msg == nullptr ? "not what gzip writes" : state_.msg);
    }
    is_whole_ = code == Z_STREAM_END;
    return size_t{room - state_.avail_out};
  }

  z_stream state_ = {};
  bool has_begun_ = false;
};

class ZstdStream : public DecompressedStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> bytes, std::string path)
      : DecompressedStream(std::move(bytes), std::move(path), "zstd"), state_(ZSTD_createDStream()) {}
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

 private:
  absl::StatusOr<size_t> Step(absl::string_view& input, absl::Span<char> out) override {
    ZSTD_inBuffer from = {input.data(), input.size(), 0};
    ZSTD_outBuffer to = {out.data(), out.size(), 0};
    const size_t left = ZSTD_decompressStream(state_, &to, &from);
    input.remove_prefix(from.pos);
    if (ZSTD_isError(left)) return Damaged(ZSTD_getErrorName(left));
    is_whole_ = left == 0;
    return to.pos;
  }

  ZSTD_DStream* const state_;
};

}  // namespace

Compression CompressionOf(absl::string_view first_bytes) {
  if (absl::StartsWith(first_bytes, "\x1f\x8b")) return Compression::kGzip;
  if (absl::StartsWith(first_bytes, "\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

std::unique_ptr<ByteStream> Decompress(std::unique_ptr<ByteStream> bytes, Compression compression, std::string path) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(std::move(bytes), std::move(path));
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(std::move(bytes), std::move(path));
    case Compression::kNone:
      return bytes;
  }
  return bytes;
}

}  // namespace distill
