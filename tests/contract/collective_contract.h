// What every Collective must do: one suite, instantiated for each implementation and decorator.
//
// To run it on another one, link the objects of `embps_collective_contract` and add one file with
//   INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveContract, CollectiveCases({{"nccl", make}}), CollectiveCaseName);
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/rank_threads.h"

namespace embps::testing {

struct CollectiveFactory {
  std::string name;  // letters, digits, underscores
  std::function<Collectives(int world_size)> make;
  StreamFactory new_stream = NewImmediateStream;
};
inline void PrintTo(const CollectiveFactory& factory, std::ostream* out) { *out << factory.name; }

using CollectiveCase = std::tuple<CollectiveFactory, int>;  // and W

inline auto CollectiveCases(const std::vector<CollectiveFactory>& factories) {
  return ::testing::Combine(::testing::ValuesIn(factories), ::testing::Values(1, 2, 3, 4, 8));
}
inline std::string CollectiveCaseName(const ::testing::TestParamInfo<CollectiveCase>& info) {
  return std::get<0>(info.param).name + "_W" + std::to_string(std::get<1>(info.param));
}

class CollectiveContract : public ::testing::TestWithParam<CollectiveCase> {
 protected:
  int world_size() const { return std::get<1>(GetParam()); }
  Collectives Make() const { return std::get<0>(GetParam()).make(world_size()); }
  std::vector<absl::Status> Run(const Collectives& ranks, const RankBody& body) const {
    return OnEveryRank(ranks, body, std::get<0>(GetParam()).new_stream);
  }
};

// Every rank completed without error.
::testing::AssertionResult AllOk(const std::vector<absl::Status>& statuses);

}  // namespace embps::testing
