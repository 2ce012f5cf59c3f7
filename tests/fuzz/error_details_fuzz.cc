// Trailers from anywhere decode to some error; what we encode keeps the limit and comes back as it was.
// Input: one byte of status code, then the trailer; or the error itself, fields separated by NUL.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "embps/rpc/status.pb.h"
#include "google/protobuf/any.pb.h"
#include "proto/base/error.h"
#include "proto/wire/error_details.h"
#include "tests/fuzz/fuzz.h"

namespace embps::fuzz {
namespace {

void CheckEncode(const absl::Status& status, absl::string_view input) {
  const wire::WireError error = wire::EncodeError(status);
  EMBPS_FUZZ_CHECK(error.code == status.code(), static_cast<int>(error.code), input);
  size_t bytes = error.details.size();
  for (char c : error.message) bytes += (c >= 0x20 && c <= 0x7e && c != '%') ? 1 : 3;
  EMBPS_FUZZ_CHECK(bytes <= wire::kMaxErrorTrailerBytes, bytes, input);
  const absl::Status back = wire::DecodeError(error.code, error.message, error.details);
  EMBPS_FUZZ_CHECK(back.code() == status.code() && ReasonOf(back) == ReasonOf(status), back.ToString(), input);
  EMBPS_FUZZ_CHECK(back.message() == error.message, back.ToString(), input);
  // Once through, nothing changes any more.
  const wire::WireError again = wire::EncodeError(back);
  EMBPS_FUZZ_CHECK(again.message == error.message, again.message, input);
}

}  // namespace

void FuzzOne(absl::string_view input) {
  if (input.empty()) return;
  const auto code = static_cast<absl::StatusCode>(1 + static_cast<unsigned char>(input[0]) % 16);
  const absl::Status decoded = wire::DecodeError(code, "text", input.substr(1));
  EMBPS_FUZZ_CHECK(decoded.code() == code && decoded.message() == "text", decoded.ToString(), input);
  CheckEncode(decoded, input);
  const std::vector<std::string> fields = absl::StrSplit(input.substr(1), '\0');
  ErrorMetadata metadata;
  for (size_t i = 1; i + 1 < fields.size(); i += 2) metadata.emplace_back(fields[i], fields[i + 1]);
  const auto reason = static_cast<Reason>(static_cast<unsigned char>(input[0]) % 26);
  CheckEncode(MakeErrorWithCode(code, reason, fields[0], metadata), input);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  const ErrorMetadata metadata = {{"table", "default/users"}, {"first_bad_id", "-1"}, {"position", "17"}};
  for (Reason reason : {Reason::kIdOutOfRange, Reason::kPlanStale, Reason::kMalformed}) {
    const absl::Status status = MakeError(reason, "what went wrong", metadata);
    seeds.push_back(absl::StrCat(std::string(1, 'a'), wire::EncodeError(status).details));
  }
  rpc::Status foreign;
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  seeds.push_back("b" + foreign.SerializeAsString());
  seeds.push_back("c" + std::string(5000, '%') + std::string("\0key\0value\0", 11));
  std::string many = "d\xc3\xa4\xff\xed\xa0\x80";
  for (int i = 0; i < 800; ++i) many += std::string("\0k\0v", 4);
  seeds.push_back(many);
  seeds.push_back("e" + std::string(2000, '\x80'));
  return seeds;
}

}  // namespace embps::fuzz
