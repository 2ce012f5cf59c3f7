#include "proto/wire/error_details.h"

#include <google/protobuf/any.pb.h>

#include <algorithm>
#include <utility>

#include "embps/rpc/status.pb.h"
#include "proto/base/error.h"

namespace embps::wire {
namespace {

constexpr absl::string_view kDomain = "embps";
constexpr absl::string_view kTypeUrl = "type.googleapis.com/google.rpc.ErrorInfo";
// The text travels twice, in the status line and in the details.
constexpr size_t kMaxTextBytes = 1200;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Length of the valid UTF-8 sequence at text[0], 0 if there is none.
size_t SequenceBytes(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90)) return 0;    // overlong
  if ((lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90)) return 0;  // surrogate, above U+10FFFF
  return bytes;
}

// Valid UTF-8 of at most max_bytes; what is not UTF-8 becomes '?'.
std::string ToUtf8(absl::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = SequenceBytes(text);
    if (out.size() + std::max<size_t>(bytes, 1) > max_bytes) break;
    bytes == 0 ? out.append("?") : out.append(text.data(), bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

size_t PercentEncodedBytes(absl::string_view text) {
  size_t bytes = 0;
  for (char c : text) bytes += (c >= 0x20 && c <= 0x7e && c != '%') ? 1 : 3;
  return bytes;
}

std::string Details(const WireError& error, absl::string_view reason, const ErrorMetadata& metadata, size_t entries) {
  rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kDomain));
  for (size_t i = 0; i < entries; ++i) {
    (*info.mutable_metadata())[ToUtf8(metadata[i].first, 256)] = ToUtf8(metadata[i].second, 1024);
  }
  rpc::Status status;
  status.set_code(static_cast<int>(error.code));
  status.set_message(error.message);
  google::protobuf::Any* any = status.add_details();
  any->set_type_url(std::string(kTypeUrl));
  any->set_value(info.SerializeAsString());
  return status.SerializeAsString();
}

}  // namespace

WireError EncodeError(const absl::Status& status) {
  WireError error;
  error.code = status.code();
  error.message = ToUtf8(status.message(), kMaxTextBytes);
  while (PercentEncodedBytes(error.message) > kMaxTextBytes) {
    error.message = ToUtf8(error.message, error.message.size() * 3 / 4);
  }
  const absl::string_view reason = ReasonName(ReasonOf(status));
  if (reason.empty()) return error;
  const ErrorMetadata metadata = MetadataOf(status);
  const size_t room = kMaxErrorTrailerBytes - PercentEncodedBytes(error.message);
  size_t entries = metadata.size();
  do {
    error.details = Details(error, reason, metadata, entries);
  } while (error.details.size() > room && entries-- > 0);
  return error;
}

absl::Status DecodeError(absl::StatusCode code, absl::string_view message, absl::string_view details) {
  rpc::Status status;
  if (!details.empty() && status.ParseFromArray(details.data(), static_cast<int>(details.size()))) {
    for (const google::protobuf::Any& any : status.details()) {
      rpc::ErrorInfo info;
      if (any.type_url() != kTypeUrl || !info.ParseFromString(any.value()) || info.domain() != kDomain) continue;
      const Reason reason = ReasonFromName(info.reason());
      if (reason == Reason::kNone) continue;
      ErrorMetadata metadata(info.metadata().begin(), info.metadata().end());
      return MakeErrorWithCode(code, reason, message, std::move(metadata));
    }
  }
  return absl::Status(code, message);
}

}  // namespace embps::wire
