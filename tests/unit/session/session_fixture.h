// Shared by the session tests: short ways to name mutations and read answers.
#pragma once
#include <chrono>
#include <string>

#include "proto/base/error.h"
#include "server/session/session_table.h"

namespace embps::testing {

using TimePoint = SessionTable::TimePoint;
using Kind = ClaimResult::Kind;

inline TimePoint At(int64_t seconds) { return TimePoint(std::chrono::hours(10) + std::chrono::seconds(seconds)); }

// 16 bytes that differ for every number.
inline std::string SessionId(int number) {
  std::string id(kSessionIdBytes, 's');
  for (int i = 0; i < 4; ++i) id[static_cast<size_t>(i)] = static_cast<char>(number >> (8 * i));
  return id;
}

inline MutationKey Key(int session, uint64_t sequence, uint64_t first_incomplete = 1, uint64_t digest = 77) {
  return {SessionId(session), sequence, first_incomplete, digest};
}

inline Reason RefusalOf(const ClaimResult& result) { return ReasonOf(result.status); }

}  // namespace embps::testing
