// Credentials as the AWS tools find them, in their order: AWS_ACCESS_KEY_ID and its like in the environment; the
// profile of the shared configuration (keys, a role to assume, a web identity, a process that prints them); a web
// identity (AWS_WEB_IDENTITY_TOKEN_FILE, as Kubernetes sets it); a container's (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
// or _FULL_URI, as ECS and EKS set them); the role of the EC2 instance. AWS_NO_SIGN_REQUEST=1: none, for public
// buckets.
//
//   AwsCredentialsCache credentials;
//   DISTILL_ASSIGN_OR_RETURN(const AwsCredentials now, credentials.Get());
#pragma once

#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "libdistill/store/aws_signature.h"

namespace distill {

// From wherever they are, now. PermissionDenied: there are none; the message says where they were looked for. Other
// errors: a source is set up, but gives none. Blocks while a role is asked for.
[[nodiscard]] absl::StatusOr<AwsCredentials> FindAwsCredentials();

// AWS_REGION, AWS_DEFAULT_REGION, or the profile's; "us-east-1" where none says it.
[[nodiscard]] absl::StatusOr<std::string> FindAwsRegion();

// Found once, and again before they expire. Any thread.
class AwsCredentialsCache {
 public:
  [[nodiscard]] absl::StatusOr<AwsCredentials> Get();
  // The next Get looks for them again: a server said that they are no longer valid.
  void Forget();

 private:
  std::mutex mutex_;
  std::optional<AwsCredentials> found_;
};

}  // namespace distill
