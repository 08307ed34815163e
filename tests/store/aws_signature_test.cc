#include "libdistill/store/aws_signature.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "libdistill/store/aws_credentials.h"
#include "libdistill/store/aws_profile.h"
#include "libdistill/store/s3_client.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk", Amazon S3 API
// Reference.
const AwsCredentials kOfTheReference{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::string SignatureOf(const AwsRequest& request) {
  const absl::Time time = absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
  std::string signature;
  for (const auto& [name, value] : SignedHeaders(request, kOfTheReference, "us-east-1", "s3", time)) {
    if (name == "authorization") signature = value.substr(value.find("Signature=") + 10);
  }
  return signature;
}

TEST_CASE("requests are signed as in the examples of the S3 reference") {
  const std::string host = "examplebucket.s3.amazonaws.com";
  CHECK(SignatureOf({.method = "GET", .host = host, .path = "/test.txt", .headers = {{"Range", "bytes=0-9"}}}) ==
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK(SignatureOf(
            {.method = "PUT",
             .host = host,
             .path = "/test%24file.text",
             .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
             .body = "Welcome to Amazon S3."}) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  CHECK(SignatureOf({.method = "GET", .host = host, .path = "/", .query = {{"lifecycle", ""}}}) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(SignatureOf({.method = "GET", .host = host, .path = "/", .query = {{"prefix", "J"}, {"max-keys", "2"}}}) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("nothing is signed without credentials") {
  const HttpFields headers =
      SignedHeaders({.method = "GET", .host = "h", .path = "/", .headers = {{"range", "bytes=0-1"}}}, AwsCredentials{},
                    "us-east-1", "s3", absl::UnixEpoch());
  CHECK(headers == HttpFields{{"range", "bytes=0-1"}});
}

TEST_CASE("an s3 URL names a bucket and a key") {
  const absl::StatusOr<S3Address> address = ParseS3Url("s3://my-bucket.x/a/b c.jsonl");
  REQUIRE(address.ok());
  CHECK(address->bucket == "my-bucket.x");
  CHECK(address->key == "a/b c.jsonl");
  CHECK(ParseS3Url("s3://bucket")->key.empty());
  CHECK(ParseS3Url("s3://bucket/")->key.empty());
  for (const char* url : {"s3://", "s3://My_Bucket/key", "s3://a/b", "s3:/bucket/key", "s3://bu cket/k"}) {
    CHECK(absl::IsInvalidArgument(ParseS3Url(url).status()));
  }
}

TEST_CASE("a profile joins the config file and the credentials file, which wins") {
  const TempFolder folder;
  setenv("AWS_CONFIG_FILE",
         folder
             .Write("config",
                    "# mine\n[default]\nregion = eu-west-1\n[profile a]\nregion=us-west-2\n"
                    "s3 =\n  max_concurrent_requests = 20\naws_access_key_id = OLD\n[b]\nregion = x\n")
             .c_str(),
         1);
  setenv("AWS_SHARED_CREDENTIALS_FILE", folder.Write("credentials", "[a]\r\naws_access_key_id = NEW \r\n").c_str(), 1);
  const absl::StatusOr<AwsProfile> a = ReadAwsProfile("a");
  REQUIRE(a.ok());
  CHECK(*a == AwsProfile{{"aws_access_key_id", "NEW"}, {"region", "us-west-2"}, {"s3", ""}});
  CHECK(*ReadAwsProfile("default") == AwsProfile{{"region", "eu-west-1"}});
  CHECK(ReadAwsProfile("b")->empty());  // it is [profile b] in the config file

  folder.Write("config", "[default]\nregion\n");
  const absl::Status broken = ReadAwsProfile("default").status();
  CHECK(absl::IsInvalidArgument(broken));
  CHECK(absl::StrContains(broken.message(), "config:2: neither a section nor a field"));
  unsetenv("AWS_CONFIG_FILE");
  unsetenv("AWS_SHARED_CREDENTIALS_FILE");
}

}  // namespace
}  // namespace distill::testing
