// The shared configuration of the AWS tools: ~/.aws/credentials and ~/.aws/config (or AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE), one profile of them.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

using AwsProfile = std::map<std::string, std::string>;  // names in lower case

// AWS_PROFILE, or "default".
std::string AwsProfileName();

// What both files say of the profile; the credentials file wins. Empty where neither has it. InvalidArgument: a file
// that cannot be understood, with its line.
[[nodiscard]] absl::StatusOr<AwsProfile> ReadAwsProfile(const std::string& name);

}  // namespace distill
