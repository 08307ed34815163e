// Temporary credentials of roles, from the services that give them. Each blocks; what a service answers in place of
// credentials is in the error.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/aws_signature.h"

namespace distill {

// Of the Security Token Service (AWS_ENDPOINT_URL_STS overrides where it is). `session`: names the session in logs
// there; empty: "libdistill".
[[nodiscard]] absl::StatusOr<AwsCredentials> AssumeRole(const AwsCredentials& source, const std::string& role_arn,
                                                        const std::string& external_id, const std::string& session);
[[nodiscard]] absl::StatusOr<AwsCredentials> AssumeRoleWithWebIdentity(const std::string& token_file,
                                                                       const std::string& role_arn,
                                                                       const std::string& session);

// Of the container's agent. Nothing: the environment names none.
[[nodiscard]] absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfContainer();

// Of the EC2 instance's metadata service, version 2 (AWS_EC2_METADATA_SERVICE_ENDPOINT overrides where it is). Nothing:
// it does not answer within a second, the instance has no role, or AWS_EC2_METADATA_DISABLED is set.
[[nodiscard]] absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfInstance();

// Of a command that prints them as JSON ("Sourcing credentials with an external process", AWS CLI user guide).
[[nodiscard]] absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfProcess(const std::string& command);

}  // namespace distill
