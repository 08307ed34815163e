#include "libdistill/store/s3_writer.h"

#include <deque>
#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr size_t kPartBytes = size_t{8} << 20;
constexpr size_t kPartsOfOneSize = 1000;  // then parts double: 10,000 of them hold 5 TiB, which no object exceeds
constexpr size_t kMostOnTheirWay = 4;

class S3Writer : public FileWriter {
 public:
  S3Writer(std::shared_ptr<S3Client> client, S3Address address)
      : client_(std::move(client)), address_(std::move(address)) {}
  ~S3Writer() override {
    sending_.clear();  // waits for them
    if (upload_.empty()) return;
    if (const absl::Status status = client_->AbortUpload(address_, upload_); !status.ok()) {
      LogWarning(absl::StrCat(status.message(), "; its parts stay, and cost, until a lifecycle rule removes them"));
    }
  }
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), PartBytes() - part_.size());
      part_.append(bytes.data(), taken);
      bytes.remove_prefix(taken);
      if (part_.size() == PartBytes()) DISTILL_RETURN_IF_ERROR(SendPart());
    }
    return absl::OkStatus();
  }

  absl::Status Prepare() override {
    if (upload_.empty()) return absl::OkStatus();  // it goes with its name, in one request
    if (!part_.empty()) DISTILL_RETURN_IF_ERROR(SendPart());
    while (!sending_.empty()) DISTILL_RETURN_IF_ERROR(WaitForOldest());
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (upload_.empty()) return client_->Put(address_, part_);
    DISTILL_RETURN_IF_ERROR(Prepare());
    DISTILL_RETURN_IF_ERROR(client_->CompleteUpload(address_, upload_, etags_));
    upload_.clear();
    return absl::OkStatus();
  }

 private:
  size_t PartBytes() const { return kPartBytes << (parts_ / kPartsOfOneSize); }

  absl::Status SendPart() {
    if (upload_.empty()) {
      DISTILL_ASSIGN_OR_RETURN(upload_, client_->CreateUpload(address_));
    }
    if (sending_.size() == kMostOnTheirWay) DISTILL_RETURN_IF_ERROR(WaitForOldest());
    const int number = static_cast<int>(++parts_);
    const auto send = [this, number, part = std::make_shared<const std::string>(std::exchange(part_, {}))] {
      return client_->UploadPart(address_, upload_, number, *part);
    };
    try {
      sending_.push_back(std::async(std::launch::async, send));
    } catch (const std::system_error&) {  // no thread is to be had
      sending_.push_back(std::async(std::launch::deferred, send));
    }
    return absl::OkStatus();
  }

  absl::Status WaitForOldest() {
    absl::StatusOr<std::string> etag = sending_.front().get();
    sending_.pop_front();
    if (etag.ok()) etags_.push_back(*std::move(etag));
    return etag.status();
  }

  const std::shared_ptr<S3Client> client_;
  const S3Address address_;
  std::string upload_;  // empty: nothing was sent yet
  std::string part_;
  size_t parts_ = 0;
  std::vector<std::string> etags_;
  std::deque<std::future<absl::StatusOr<std::string>>> sending_;
};

}  // namespace

std::unique_ptr<FileWriter> MakeS3Writer(std::shared_ptr<S3Client> client, S3Address address) {
  return std::make_unique<S3Writer>(std::move(client), std::move(address));
}

}  // namespace distill
