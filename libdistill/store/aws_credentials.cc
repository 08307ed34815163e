#include "libdistill/store/aws_credentials.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/aws_profile.h"
#include "libdistill/store/aws_roles.h"
#include "libdistill/store/environment_text.h"

namespace distill {
namespace {

constexpr int kMostProfiles = 5;                             // that name one another as their source
constexpr absl::Duration kRefreshBefore = absl::Minutes(5);  // their end

using Found = absl::StatusOr<std::optional<AwsCredentials>>;  // nothing: this source is not set up

std::optional<AwsCredentials> FromEnvironment() {
  AwsCredentials credentials{EnvironmentText("AWS_ACCESS_KEY_ID"), EnvironmentText("AWS_SECRET_ACCESS_KEY"),
                             EnvironmentText("AWS_SESSION_TOKEN")};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) return std::nullopt;
  return credentials;
}

std::string FieldOfProfile(const AwsProfile& profile, const char* name) {
  const auto found = profile.find(name);
  return found == profile.end() ? "" : found->second;
}

Found FromWebIdentity(const std::string& token_file, const std::string& role_arn, const std::string& session) {
  if (token_file.empty() || role_arn.empty()) return std::nullopt;
  DISTILL_ASSIGN_OR_RETURN(AwsCredentials credentials, AssumeRoleWithWebIdentity(token_file, role_arn, session));
  return credentials;
}

Found FromProfile(const std::string& name, int depth);

// `credential_source` names another source of this chain.
Found FromNamedSource(const std::string& source) {
  if (source == "Environment") return FromEnvironment();
  if (source == "EcsContainer") return CredentialsOfContainer();
  if (source == "Ec2InstanceMetadata") return CredentialsOfInstance();
  return absl::InvalidArgumentError(
      absl::StrCat("credential_source is '", source, "'; it is Environment, EcsContainer or Ec2InstanceMetadata"));
}

Found AssumeRoleOf(const AwsProfile& profile, int depth) {
  const std::string source_profile = FieldOfProfile(profile, "source_profile");
  DISTILL_ASSIGN_OR_RETURN(const std::optional<AwsCredentials> source,
                           source_profile.empty() ? FromNamedSource(FieldOfProfile(profile, "credential_source"))
                                                  : FromProfile(source_profile, depth + 1));
  if (!source) {
    return absl::PermissionDeniedError(absl::StrCat("role_arn needs credentials to assume it with, and ",
                                                    source_profile.empty() ? "credential_source" : "source_profile",
                                                    " gives none"));
  }
  DISTILL_ASSIGN_OR_RETURN(AwsCredentials credentials, AssumeRole(*source, FieldOfProfile(profile, "role_arn"),
                                                                  FieldOfProfile(profile, "external_id"),
                                                                  FieldOfProfile(profile, "role_session_name")));
  return credentials;
}

Found FromFieldsOfProfile(const AwsProfile& profile, int depth) {
  const auto field = [&](const char* name) { return FieldOfProfile(profile, name); };
  if (!field("role_arn").empty() && !field("web_identity_token_file").empty()) {
    return FromWebIdentity(field("web_identity_token_file"), field("role_arn"), field("role_session_name"));
  }
  if (!field("role_arn").empty() && depth < kMostProfiles) return AssumeRoleOf(profile, depth);
  if (!field("role_arn").empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMostProfiles, " profiles name one another as source_profile"));
  }
  if (!field("aws_access_key_id").empty()) {
    return AwsCredentials{field("aws_access_key_id"), field("aws_secret_access_key"), field("aws_session_token")};
  }
  if (!field("credential_process").empty()) return CredentialsOfProcess(field("credential_process"));
  if (!field("sso_session").empty() || !field("sso_start_url").empty()) {
    return absl::UnimplementedError(
        "credentials of AWS IAM Identity Center (SSO) are not read: put them into the environment with eval \"$(aws "
        "configure export-credentials --format env)\"");
  }
  return std::nullopt;
}

Found FromProfile(const std::string& name, int depth) {
  DISTILL_ASSIGN_OR_RETURN(const AwsProfile profile, ReadAwsProfile(name));
  if (profile.empty() && (depth > 0 || !EnvironmentText("AWS_PROFILE").empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no AWS profile '", name, "' in ~/.aws/config or ~/.aws/credentials: check AWS_PROFILE"));
  }
  Found found = FromFieldsOfProfile(profile, depth);
  if (!found.ok()) return Annotate(found.status(), absl::StrCat("AWS profile '", name, "'"));
  return found;
}

bool IsAnonymous() {
  const std::string value = EnvironmentText("AWS_NO_SIGN_REQUEST");
  return value == "1" || absl::EqualsIgnoreCase(value, "true") || absl::EqualsIgnoreCase(value, "yes");
}

}  // namespace

absl::StatusOr<AwsCredentials> FindAwsCredentials() {
  if (IsAnonymous()) return AwsCredentials{};
  if (const auto found = FromEnvironment()) return *found;
  DISTILL_ASSIGN_OR_RETURN(std::optional<AwsCredentials> found, FromProfile(AwsProfileName(), 0));
  if (!found) {
    DISTILL_ASSIGN_OR_RETURN(
        found, FromWebIdentity(EnvironmentText("AWS_WEB_IDENTITY_TOKEN_FILE"), EnvironmentText("AWS_ROLE_ARN"),
                               EnvironmentText("AWS_ROLE_SESSION_NAME")));
  }
  if (!found) {
    DISTILL_ASSIGN_OR_RETURN(found, CredentialsOfContainer());
  }
  if (!found) {
    DISTILL_ASSIGN_OR_RETURN(found, CredentialsOfInstance());
  }
  if (found) return *std::move(found);
  return absl::PermissionDeniedError(
      absl::StrCat("there are no AWS credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor a profile '",
                   AwsProfileName(),
                   "' in ~/.aws, nor a role of this container or machine; set one of them up (aws configure), or "
                   "AWS_NO_SIGN_REQUEST=1 "
                   "for a public bucket"));
}

absl::StatusOr<std::string> FindAwsRegion() {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = EnvironmentText(name); !region.empty()) return region;
  }
  DISTILL_ASSIGN_OR_RETURN(const AwsProfile profile, ReadAwsProfile(AwsProfileName()));
  const std::string region = FieldOfProfile(profile, "region");
  return region.empty() ? "us-east-1" : region;
}

absl::StatusOr<AwsCredentials> AwsCredentialsCache::Get() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Time now = absl::Now();
  if (found_ && now + kRefreshBefore < found_->expiration) return *found_;
  absl::StatusOr<AwsCredentials> found = FindAwsCredentials();
  if (found.ok()) found_ = *found;
  // Those that still hold for minutes are better than none while a role cannot be asked for.
  if (!found.ok() && found_ && now < found_->expiration) return *found_;
  return found;
}

void AwsCredentialsCache::Forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  found_.reset();
}

}  // namespace distill
