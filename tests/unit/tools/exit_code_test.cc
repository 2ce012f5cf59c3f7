#include "client/cpp/tools/exit_code.h"

#include <gtest/gtest.h>

#include <vector>

#include "proto/base/error.h"

namespace embps::tools {
namespace {

TEST(ExitCodeTest, EachStatusCodeHasItsExitCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::OutOfRangeError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), ExitCode::kDenied);
  EXPECT_EQ(ExitCodeOf(absl::UnauthenticatedError("")), ExitCode::kDenied);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), ExitCode::kDeadline);
  for (const auto& status :
       {absl::InternalError(""), absl::UnknownError(""), absl::DataLossError(""), absl::AbortedError(""),
        absl::ResourceExhaustedError(""), absl::UnimplementedError(""), absl::CancelledError("")}) {
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kServerError) << status;
  }
}

TEST(ExitCodeTest, TheNumbersAreTheDocumentedOnes) {
  EXPECT_EQ(static_cast<int>(ExitCode::kOk), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kUnreachable), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kDenied), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kNotFound), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kUnhealthy), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::kDeadline), 6);
  EXPECT_EQ(static_cast<int>(ExitCode::kServerError), 7);
}

TEST(ExitCodeTest, AServerThatSaysItIsNotReadyWasReached) {
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kDraining, "going down")), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kLoading, "coming up")), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kPeerDown, "rank gone")), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(MakeError(Reason::kTableNotFound, "t")), ExitCode::kNotFound);
}

TEST(ExitCodeTest, SomeNodesFailingIsPartial) {
  const absl::Status ok = absl::OkStatus();
  const absl::Status gone = absl::UnavailableError("");
  const absl::Status late = absl::DeadlineExceededError("");
  using Statuses = std::vector<absl::Status>;
  EXPECT_EQ(ExitCodeOf(Statuses{ok, ok}), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Statuses{}), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Statuses{ok, gone}), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(Statuses{gone, ok}), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(Statuses{late, gone}), ExitCode::kDeadline);
}

NodeHealth Health(HealthState state) {
  NodeHealth health;
  health.state = state;
  return health;
}

TEST(ExitCodeTest, U8_ADeadEndpointIsNeverZero) {
  const NodeHealth up = Health(HealthState::kServing);
  const NodeHealth down = Health(HealthState::kUnreachable);
  const NodeHealth draining = Health(HealthState::kNotServing);
  using Nodes = std::vector<NodeHealth>;
  EXPECT_EQ(ExitCodeOf(Nodes{up, up}), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Nodes{down}), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(Nodes{down, down}), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(Nodes{up, down}), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(Nodes{down, up}), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(Nodes{draining}), ExitCode::kUnhealthy);
  EXPECT_EQ(ExitCodeOf(Nodes{draining, down}), ExitCode::kUnhealthy);
}

}  // namespace
}  // namespace embps::tools
