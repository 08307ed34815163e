#include "libdistill/store/aws_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/check.h"
#include "libdistill/store/http.h"

namespace distill {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";

std::string Sha256(absl::string_view bytes) {
  std::array<unsigned char, 32> digest = {};
  DISTILL_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1,
                "libcrypto has no SHA-256");
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::array<unsigned char, 32> digest = {};
  unsigned int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  DISTILL_CHECK(
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), digest.data(), &size) != nullptr,
      "libcrypto has no HMAC");
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

// Names in lower case, sorted; values without space around them.
HttpFields Canonical(const HttpFields& headers) {
  HttpFields canonical;
  for (const auto& [name, value] : headers) {
    canonical.emplace_back(absl::AsciiStrToLower(name), std::string(absl::StripAsciiWhitespace(value)));
  }
  std::sort(canonical.begin(), canonical.end());
  return canonical;
}

std::string NamesOf(const HttpFields& canonical) {
  return absl::StrJoin(canonical, ";", [](std::string* out, const auto& field) { out->append(field.first); });
}

std::string CanonicalRequest(const AwsRequest& request, const HttpFields& headers, absl::string_view body_hash) {
  std::string text = absl::StrCat(request.method, "\n", request.path, "\n", EncodeQuery(request.query), "\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&text, name, ":", value, "\n");
  absl::StrAppend(&text, "\n", NamesOf(headers), "\n", body_hash);
  return text;
}

}  // namespace

std::string Sha256Hex(absl::string_view bytes) { return absl::BytesToHexString(Sha256(bytes)); }

std::string EncodeQuery(HttpFields query) {
  for (auto& [name, value] : query) {
    name = PercentEncode(name, /*keep_slashes=*/false);
    value = PercentEncode(value, /*keep_slashes=*/false);
  }
  std::sort(query.begin(), query.end());
  return absl::StrJoin(query, "&", absl::PairFormatter("="));
}

HttpFields SignedHeaders(const AwsRequest& request, const AwsCredentials& credentials, absl::string_view region,
                         absl::string_view service, absl::Time now) {
  HttpFields sent = request.headers;
  if (credentials.access_key_id.empty()) return sent;
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const std::string day = time.substr(0, 8), body_hash = Sha256Hex(request.body);
  sent.emplace_back("x-amz-content-sha256", body_hash);
  sent.emplace_back("x-amz-date", time);
  if (!credentials.session_token.empty()) sent.emplace_back("x-amz-security-token", credentials.session_token);

  HttpFields signed_fields = sent;
  signed_fields.emplace_back("host", request.host);
  signed_fields = Canonical(signed_fields);
  const std::string scope = absl::StrCat(day, "/", region, "/", service, "/aws4_request");
  const std::string to_sign = absl::StrCat(kAlgorithm, "\n", time, "\n", scope, "\n",
                                           Sha256Hex(CanonicalRequest(request, signed_fields, body_hash)));
  std::string key = absl::StrCat("AWS4", credentials.secret_access_key);
  for (const absl::string_view part : {absl::string_view(day), region, service, absl::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  sent.emplace_back("authorization", absl::StrCat(kAlgorithm, " Credential=", credentials.access_key_id, "/", scope,
                                                  ", SignedHeaders=", NamesOf(signed_fields),
                                                  ", Signature=", absl::BytesToHexString(HmacSha256(key, to_sign))));
  return sent;
}

}  // namespace distill
