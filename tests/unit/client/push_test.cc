// What a PushGrad validates, sends and answers.
#include <limits>

#include "embps/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_cluster.h"

namespace embps::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float ReadOne(ClientImpl& client, const std::string& table, int64_t row) {
  return client.ReadRows(table, {row}, false)->values.at(0);
}

class PushTest : public ::testing::Test {
 protected:
  PushTest() : cluster_({1, 1}), client_(cluster_.ConnectOrDie()) {
    EXPECT_TRUE(client_
                    ->CreateTables({MakeTable("r", 10, 1, {"r"}, Pooling::kSum, ShardingType::kRowWise),
                                    MakeTable("t", 10, 1, {"t"}, Pooling::kSum, ShardingType::kTableWise, 1)})
                    .ok());
  }
  int64_t Applied(int node) {
    return cluster_.With(node, [](FakeServer& s) { return s.pushes_applied; });
  }
  size_t Arrived(int node) {
    return cluster_.With(node, [](FakeServer& s) { return s.mutations.size(); });
  }

  FakeCluster cluster_;
  std::unique_ptr<ClientImpl> client_;
};

TEST_F(PushTest, EveryNodeThatOwnsAShardGetsAPartEvenWithoutIds) {
  const PushOutcome outcome =
      PushGrad(*client_, KeyedJaggedTensor{.keys = {"r"}, .lengths = {1, 0}, .values = {0}}, Gradients::Pooled({1, 1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  ASSERT_EQ(outcome.nodes.size(), 2u);
  EXPECT_EQ(outcome.nodes[0].rows_updated, 1u);
  EXPECT_EQ(outcome.nodes[1].rows_updated, 0u);
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(cluster_.With(node, [](FakeServer& s) { return s.Find("r")->stored.step(); }), 1);
  }
  EXPECT_EQ(outcome.replay, nullptr);
  EXPECT_EQ(outcome.sequence, 1u);
}

TEST_F(PushTest, ANodeWithoutAShardIsNotAsked) {
  const PushOutcome outcome =
      PushGrad(*client_, KeyedJaggedTensor{.keys = {"t"}, .lengths = {2}, .values = {3, 3}}, Gradients::Pooled({2}));
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  ASSERT_EQ(outcome.nodes.size(), 1u);
  EXPECT_EQ(outcome.nodes[0].node, 1);
  EXPECT_EQ(Arrived(0), 0u);
  EXPECT_EQ(ReadOne(*client_, "t", 3), InitialValue(3, 0) - 4);
}

TEST_F(PushTest, NonFiniteGradientsAreRefusedBeforeAnythingIsSent) {
  const PushOutcome outcome =
      PushGrad(*client_, KeyedJaggedTensor{.keys = {"r", "t"}, .lengths = {1, 1}, .values = {0, 1}},
               Gradients::Pooled({1, kNan}));
  EXPECT_EQ(ErrorReason(outcome.status), "NONFINITE_GRADIENT");
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("default/t"));
  EXPECT_TRUE(outcome.nodes.empty());
  EXPECT_FALSE(outcome.unknown());
  EXPECT_EQ(Arrived(0) + Arrived(1), 0u);
}

TEST_F(PushTest, WrongSizesAreDimMismatch) {
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  EXPECT_EQ(ErrorReason(PushGrad(*client_, kjt, Gradients::Pooled({1, 2})).status), "DIM_MISMATCH");
  EXPECT_EQ(ErrorReason(PushGrad(*client_, kjt, Gradients::Of({1}, {{}})).status), "DIM_MISMATCH");
}

TEST_F(PushTest, OptionsAreCheckedByName) {
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  PushOptions options;
  options.learning_rates = {{"r", 1.0f}};
  EXPECT_THAT(std::string(PushGrad(*client_, kjt, Gradients::Pooled({1}), options).status.message()),
              HasSubstr("table r"));
  options.learning_rates = {{"t", -1.0f}};
  EXPECT_FALSE(PushGrad(*client_, kjt, Gradients::Pooled({1}), options).ok());
  options.learning_rates = {};
  options.grad_scale = kNan;
  EXPECT_FALSE(PushGrad(*client_, kjt, Gradients::Pooled({1}), options).ok());
  EXPECT_EQ(Arrived(1), 0u);
}

TEST_F(PushTest, LearningRatesAndScaleTravelToTheNodesThatNeedThem) {
  PushOptions options;
  options.learning_rates = {{"r", 2.0f}, {"t", 3.0f}};
  options.grad_scale = 0.5f;
  ASSERT_TRUE(PushGrad(*client_, KeyedJaggedTensor{.keys = {"t", "r"}, .lengths = {1, 1}, .values = {5, 9}},
                       Gradients::Pooled({/*r*/ 4, /*t*/ 8}), options)
                  .ok());
  EXPECT_EQ(ReadOne(*client_, "r", 9), InitialValue(9, 0) - 4);
  EXPECT_EQ(ReadOne(*client_, "t", 5), InitialValue(5, 0) - 12);
  EXPECT_EQ(cluster_.With(0, [](FakeServer& s) { return s.push_headers.at(0).learning_rates_size(); }), 1);
}

TEST_F(PushTest, SequencesCountUpAndFirstIncompleteFollows) {
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(PushGrad(*client_, kjt, Gradients::Pooled({1})).ok());
  cluster_.With(1, [](FakeServer& s) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(s.mutations.at(i).sequence(), i + 1);
      EXPECT_EQ(s.mutations.at(i).first_incomplete(), i + 1);
      EXPECT_EQ(s.mutations.at(i).push_digest(), s.mutations.at(0).push_digest());
    }
    return 0;
  });
  ASSERT_TRUE(PushGrad(*client_, kjt, Gradients::Pooled({2})).ok());
  cluster_.With(1, [](FakeServer& s) {
    EXPECT_NE(s.mutations.at(3).push_digest(), s.mutations.at(0).push_digest());
    return 0;
  });
}

TEST_F(PushTest, BagsWithoutIdsHereCarryNoGradientsOverNodes) {
  ASSERT_TRUE(PushGrad(*client_, KeyedJaggedTensor{.keys = {"r"}, .lengths = {1, 2, 0, 1}, .values = {0, 9, 1, 8}},
                       Gradients::Pooled({1, 2, 3, 4}))
                  .ok());
  EXPECT_EQ(cluster_.With(0, [](FakeServer& s) { return s.push_headers.at(0).features(0).batch_size(); }), 2u);
  EXPECT_EQ(cluster_.With(1, [](FakeServer& s) { return s.push_headers.at(0).features(0).batch_size(); }), 2u);
  EXPECT_EQ(ReadOne(*client_, "r", 0), InitialValue(0, 0) - 1);
  EXPECT_EQ(ReadOne(*client_, "r", 9), InitialValue(9, 0) - 2);
  EXPECT_EQ(ReadOne(*client_, "r", 1), InitialValue(1, 0) - 2);
  EXPECT_EQ(ReadOne(*client_, "r", 8), InitialValue(8, 0) - 4);
}

TEST_F(PushTest, N6_GradientsOfAnExpandedBatchAreSummedPerSlot) {
  KeyedJaggedTensor kjt{.keys = {"r", "t"}, .lengths = {1, 1, 1, 1}, .values = {1, 2, 3, 9}};
  kjt.stride_per_key = {1, 3};
  kjt.inverse_indices = {{0, 0, 0}, {2, 1, 2}};
  ASSERT_TRUE(PushGrad(*client_, kjt, Gradients::Pooled({1, 10, 2, 20, 4, 40})).ok());
  EXPECT_EQ(ReadOne(*client_, "r", 1), InitialValue(1, 0) - 7);
  EXPECT_EQ(ReadOne(*client_, "t", 2), InitialValue(2, 0));
  EXPECT_EQ(ReadOne(*client_, "t", 3), InitialValue(3, 0) - 20);
  EXPECT_EQ(ReadOne(*client_, "t", 9), InitialValue(9, 0) - 50);
}

TEST_F(PushTest, PushesOfOneClientApplyInTheOrderOfTheCalls) {
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  const std::vector<float> grads = {1};
  Mutex mu;
  CondVar changed;
  int done = 0;
  std::vector<uint64_t> versions;
  for (int i = 0; i < 20; ++i) {
    client_->PushGradAsync(kjt, Gradients::Pooled(grads), {}, [&](PushOutcome outcome) {
      MutexLock lock(&mu);
      EXPECT_TRUE(outcome.ok()) << outcome.status;
      versions.push_back(outcome.nodes.at(0).version);
      ++done;
      changed.NotifyAll();
    });
  }
  MutexLock lock(&mu);
  while (done < 20) changed.Wait(&mu);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(versions[i], i + 1);
  cluster_.With(1, [](FakeServer& s) {
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(s.mutations.at(i).sequence(), i + 1);
    return 0;
  });
}

TEST_F(PushTest, TheDestructorWaitsForWhatIsInFlight) {
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  const std::vector<float> grads = {1};
  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i) client_->PushGradAsync(kjt, Gradients::Pooled(grads), {}, [&](PushOutcome) { ++done; });
  client_.reset();
  EXPECT_EQ(done.load(), 10);
  EXPECT_EQ(Applied(1), 10);
}

TEST(PushColumnsTest, DroppedRowsAreDroppedOnEveryNodeOfACutTable) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("c", 10, 8, {"c"}, Pooling::kSum, ShardingType::kColumnWise)}).ok());
  std::vector<float> grads(16, 1.0f);
  grads[1] = kNan;  // of node 0's columns only
  PushOptions options;
  options.nonfinite_policy = NonfinitePolicy::kDropRows;
  PushGrad(*client, KeyedJaggedTensor{.keys = {"c"}, .lengths = {1, 1}, .values = {0, 1}}, Gradients::Pooled(grads),
           options);
  for (int node = 0; node < 2; ++node) {
    cluster.With(node, [&](FakeServer& s) {
      // The fake applies what it gets: NaN arrived in the row of both nodes.
      const float value = s.Find("c")->rows[static_cast<size_t>(node == 0 ? 0 : 4)];
      EXPECT_TRUE(value != value) << node;
      return 0;
    });
  }
}

}  // namespace
}  // namespace embps::client
