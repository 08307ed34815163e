#include "libdistill/store/aws_roles.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/aws_credentials.h"
#include "libdistill/store/aws_profile.h"
#include "libdistill/store/environment_text.h"
#include "libdistill/store/files.h"
#include "libdistill/store/http.h"

namespace distill {
namespace {

constexpr size_t kMostOutputBytes = 1 << 20;  // of a credential process

absl::StatusOr<absl::Time> ParseTime(const std::string& text) {
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  return absl::InvalidArgumentError(absl::StrCat("credentials expire at '", text, "', which is no time: ", error));
}

// Of containers, instances and processes, which differ in one name.
absl::StatusOr<AwsCredentials> FromJson(const std::string& text, const char* token_name, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&](const char* name) -> std::string {
    return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
  };
  AwsCredentials credentials{field("AccessKeyId"), field("SecretAccessKey"), field(token_name)};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        where, " gives no credentials: no AccessKeyId and SecretAccessKey in its ", text.size(), " bytes of JSON"));
  }
  if (const std::string end = field("Expiration"); !end.empty()) {
    DISTILL_ASSIGN_OR_RETURN(credentials.expiration, ParseTime(end));
  }
  return credentials;
}

absl::StatusOr<std::string> SendForBody(HttpClient& client, const HttpRequest& request, const std::string& where) {
  const absl::StatusOr<HttpResponse> response = client.Send(request);
  if (!response.ok()) return Annotate(response.status(), where);
  if (response->status == 200) return response->body;
  return absl::PermissionDeniedError(
      absl::StrCat(where, " answers ", response->status, ": ", absl::string_view(response->body).substr(0, 500)));
}

absl::StatusOr<AwsCredentials> AskTokenService(HttpFields query, const AwsCredentials& source) {
  DISTILL_ASSIGN_OR_RETURN(const std::string region, FindAwsRegion());
  std::string endpoint = EnvironmentText("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) endpoint = absl::StrCat("https://sts.", region, ".amazonaws.com");
  query.emplace_back("Version", "2011-06-15");
  AwsRequest request{.method = "GET", .host = endpoint.substr(endpoint.find("://") + 3), .path = "/", .query = query};
  HttpClient client(
      {.connect_timeout = absl::Seconds(5), .stall_timeout = absl::Seconds(10), .ca_file = CaFile("AWS_CA_BUNDLE")});
  const std::string where = absl::StrCat("the AWS Security Token Service at ", endpoint);
  DISTILL_ASSIGN_OR_RETURN(const std::string body,
                           SendForBody(client,
                                       {.url = absl::StrCat(endpoint, "/?", EncodeQuery(query)),
                                        .headers = SignedHeaders(request, source, region, "sts", absl::Now())},
                                       where));
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size());
  const pugi::xml_node node = document.select_node("//Credentials").node();
  AwsCredentials credentials{node.child_value("AccessKeyId"), node.child_value("SecretAccessKey"),
                             node.child_value("SessionToken")};
  if (credentials.access_key_id.empty())
    return absl::PermissionDeniedError(absl::StrCat(where, " gives no credentials"));
  DISTILL_ASSIGN_OR_RETURN(credentials.expiration, ParseTime(node.child_value("Expiration")));
  return credentials;
}

std::string SessionOr(const std::string& session) { return session.empty() ? "libdistill" : session; }

}  // namespace

absl::StatusOr<AwsCredentials> AssumeRole(const AwsCredentials& source, const std::string& role_arn,
                                          const std::string& external_id, const std::string& session) {
  HttpFields query = {{"Action", "AssumeRole"}, {"RoleArn", role_arn}, {"RoleSessionName", SessionOr(session)}};
  if (!external_id.empty()) query.emplace_back("ExternalId", external_id);
  return AskTokenService(std::move(query), source);
}

absl::StatusOr<AwsCredentials> AssumeRoleWithWebIdentity(const std::string& token_file, const std::string& role_arn,
                                                         const std::string& session) {
  DISTILL_ASSIGN_OR_RETURN(const std::string token, ReadFile(token_file));
  return AskTokenService({{"Action", "AssumeRoleWithWebIdentity"},
                          {"RoleArn", role_arn},
                          {"RoleSessionName", SessionOr(session)},
                          {"WebIdentityToken", std::string(absl::StripAsciiWhitespace(token))}},
                         AwsCredentials{});
}

absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfContainer() {
  const std::string relative = EnvironmentText("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url = EnvironmentText("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative.empty()) url = absl::StrCat("http://169.254.170.2", relative);
  if (url.empty()) return std::nullopt;
  std::string token = EnvironmentText("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = EnvironmentText("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    DISTILL_ASSIGN_OR_RETURN(token, ReadFile(file));
    token = std::string(absl::StripAsciiWhitespace(token));
  }
  HttpRequest request{.url = url};
  if (!token.empty()) request.headers.emplace_back("authorization", token);
  HttpClient client(
      {.connect_timeout = absl::Seconds(5), .stall_timeout = absl::Seconds(10), .ca_file = CaFile("AWS_CA_BUNDLE")});
  const std::string where = absl::StrCat("the container's credentials at ", url);
  DISTILL_ASSIGN_OR_RETURN(const std::string body, SendForBody(client, request, where));
  DISTILL_ASSIGN_OR_RETURN(AwsCredentials credentials, FromJson(body, "Token", where));
  return credentials;
}

absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfInstance() {
  if (absl::EqualsIgnoreCase(EnvironmentText("AWS_EC2_METADATA_DISABLED"), "true")) return std::nullopt;
  std::string service = EnvironmentText("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (service.empty()) service = "http://169.254.169.254";
  while (absl::EndsWith(service, "/")) service.pop_back();
  HttpClient client({.connect_timeout = absl::Seconds(1), .stall_timeout = absl::Seconds(2)});
  const absl::StatusOr<HttpResponse> token =
      client.Send({.method = "PUT",
                   .url = absl::StrCat(service, "/latest/api/token"),
                   .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}}});
  if (!token.ok() || token->status != 200) return std::nullopt;  // not an instance
  const std::string roles = absl::StrCat(service, "/latest/meta-data/iam/security-credentials/");
  HttpRequest request{.url = roles, .headers = {{"x-aws-ec2-metadata-token", token->body}}};
  const absl::StatusOr<HttpResponse> role = client.Send(request);
  if (!role.ok() || role->status != 200) return std::nullopt;
  request.url = absl::StrCat(roles, PercentEncode(absl::StripAsciiWhitespace(role->body), /*keep_slashes=*/false));
  const std::string where = absl::StrCat("the instance's metadata service at ", request.url);
  DISTILL_ASSIGN_OR_RETURN(const std::string body, SendForBody(client, request, where));
  DISTILL_ASSIGN_OR_RETURN(AwsCredentials credentials, FromJson(body, "Token", where));
  return credentials;
}

absl::StatusOr<std::optional<AwsCredentials>> CredentialsOfProcess(const std::string& command) {
  const std::string where = "credential_process";
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return absl::ResourceExhaustedError(absl::StrCat(where, ": no process could be started"));
  std::string output;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0 && output.size() < kMostOutputBytes;) {
    output.append(buffer, count);
  }
  if (const int status = pclose(pipe); status != 0) {
    return absl::PermissionDeniedError(absl::StrCat(where, " '", command, "' failed (status ", status, ")"));
  }
  DISTILL_ASSIGN_OR_RETURN(AwsCredentials credentials, FromJson(output, "SessionToken", where));
  return credentials;
}

}  // namespace distill
