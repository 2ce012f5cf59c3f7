#include "server/rpc/data_call.h"

namespace embps {

absl::Status CheckPayload(size_t bytes, int64_t limit_bytes, absl::string_view message_name) {
  if (static_cast<int64_t>(bytes) <= limit_bytes) return absl::OkStatus();
  return MakeError(Reason::kMessageTooLarge,
                   absl::StrCat(message_name, " carries ", bytes, " bytes of payload, at most ", limit_bytes,
                                " are allowed: stream it in frames"),
                   {{"bytes", absl::StrCat(bytes)}, {"limit", absl::StrCat(limit_bytes)}});
}

absl::Status NotAdmitted(const ByteBudget& budget, int64_t bytes) {
  const char* advice = bytes > budget.limit_bytes() ? "it can never fit: split the batch" : "back off and retry";
  return MakeError(Reason::kInflightBytes,
                   absl::StrCat("the call needs ", bytes, " bytes, of ", budget.limit_bytes(),
                                " for all calls together ", budget.used_bytes(), " are in use: ", advice),
                   {{"bytes", absl::StrCat(bytes)}, {"limit", absl::StrCat(budget.limit_bytes())}});
}

}  // namespace embps
