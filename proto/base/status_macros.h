// Early return for absl::Status and absl::StatusOr.
#pragma once
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define EMBPS_CONCAT_INNER(a, b) a##b
#define EMBPS_CONCAT(a, b) EMBPS_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define EMBPS_RETURN_IF_ERROR(expr)                                                  \
  do {                                                                               \
    if (absl::Status embps_status = (expr); !embps_status.ok()) return embps_status; \
  } while (false)

// EMBPS_ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or F()'s status is returned.
#define EMBPS_ASSIGN_OR_RETURN(lhs, expr) EMBPS_ASSIGN_OR_RETURN_INNER(EMBPS_CONCAT(embps_or_, __LINE__), lhs, expr)
#define EMBPS_ASSIGN_OR_RETURN_INNER(holder, lhs, expr) \
  auto holder = (expr);                                 \
  if (!holder.ok()) return std::move(holder).status();  \
  lhs = std::move(holder).value()
