#include "tests/contract/collective_contract.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/support/guarded_buffer.h"

namespace embps::testing {

::testing::AssertionResult AllOk(const std::vector<absl::Status>& statuses) {
  for (size_t r = 0; r < statuses.size(); ++r) {
    if (!statuses[r].ok()) return ::testing::AssertionFailure() << "rank " << r << ": " << statuses[r].ToString();
  }
  return ::testing::AssertionSuccess();
}

namespace {

using Bytes = GuardedBuffer<uint8_t>;
using Floats = GuardedBuffer<float>;

// Byte i of the k-th transfer from one rank to another in a round: any mix-up shows.
uint8_t ByteOf(int from, int to, int k, int round, int64_t i) {
  return static_cast<uint8_t>(from * 131 + to * 31 + k * 17 + round * 7 + i * 3 + (i >> 8));
}

// Uneven, with empty ones among them.
int64_t SizeOf(int from, int to, int k, int round) {
  const int mix = from * 5 + to * 3 + k * 11 + round;
  return mix % 4 == 0 ? 0 : (mix * 37) % 301;
}

// One rank's buffers and transfers of one AllToAll; transfers_to(from, to) says how many.
struct Exchange {
  template <class CountOf, class Size>
  Exchange(int rank, int world_size, int round, CountOf transfers_to, Size size_of) : rank(rank), round(round) {
    for (int peer = 0; peer < world_size; ++peer) {
      for (int k = 0; k < transfers_to(rank, peer); ++k) {
        Bytes& buffer = sent.emplace_back(size_of(rank, peer, k, round));
        for (int64_t i = 0; i < buffer.size(); ++i) buffer[i] = ByteOf(rank, peer, k, round, i);
        sends.push_back({peer, buffer.data(), buffer.size()});
      }
    }
    for (int peer = world_size - 1; peer >= 0; --peer) {  // another order of peers than the sends
      for (int k = 0; k < transfers_to(peer, rank); ++k) {
        Bytes& buffer = received.emplace_back(size_of(peer, rank, k, round));
        recvs.push_back({peer, buffer.data(), buffer.size()});
        numbers.push_back(k);
      }
    }
  }
  void ExpectArrived() const {
    for (size_t t = 0; t < recvs.size(); ++t) {
      ASSERT_TRUE(received[t].GuardsIntact());
      for (int64_t i = 0; i < received[t].size(); ++i) {
        ASSERT_EQ(received[t][i], ByteOf(recvs[t].peer, rank, numbers[t], round, i))
            << "rank " << rank << " from " << recvs[t].peer << " transfer " << numbers[t] << " byte " << i;
      }
    }
  }

  const int rank;
  const int round;
  std::vector<Bytes> sent, received;
  std::vector<SendTransfer> sends;
  std::vector<RecvTransfer> recvs;
  std::vector<int> numbers;
};

int Three(int, int) { return 3; }

TEST_P(CollectiveContract, RanksAreNumberedAndKnowTheirWorld) {
  const Collectives ranks = Make();
  ASSERT_EQ(static_cast<int>(ranks.size()), world_size());
  for (int r = 0; r < world_size(); ++r) {
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->rank(), r);
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->world_size(), world_size());
  }
}

TEST_P(CollectiveContract, AllToAllBringsUnevenAndEmptyPartsToTheirPlace) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    for (int round = 0; round < 40; ++round) {
      const Exchange exchange(collective.rank(), world_size(), round, Three, SizeOf);
      collective.AllToAll(exchange.sends, exchange.recvs, stream);
      ASSERT_TRUE(Complete(stream).ok());
      exchange.ExpectArrived();
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, TheKthSendMeetsTheKthReceiveHoweverManyThereAre) {
  const Collectives ranks = Make();
  const auto count = [](int from, int to) { return (from * 3 + to) % 5; };  // none between some pairs
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const Exchange exchange(collective.rank(), world_size(), 1, count, SizeOf);
    collective.AllToAll(exchange.sends, exchange.recvs, stream);
    ASSERT_TRUE(Complete(stream).ok());
    exchange.ExpectArrived();
  });
  EXPECT_TRUE(AllOk(statuses));
}

// Transfers to different peers mixed with each other: only the order per peer counts.
TEST_P(CollectiveContract, InterleavedPeersKeepTheirOwnOrder) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    Exchange exchange(collective.rank(), world_size(), 2, Three, SizeOf);
    std::vector<SendTransfer> interleaved;
    for (int k = 0; k < 3; ++k) {
      for (int peer = world_size() - 1; peer >= 0; --peer) {
        interleaved.push_back(exchange.sends[static_cast<size_t>(peer * 3 + k)]);
      }
    }
    collective.AllToAll(interleaved, exchange.recvs, stream);
    ASSERT_TRUE(Complete(stream).ok());
    exchange.ExpectArrived();
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, ARankWithNothingToSendTakesPart) {
  const Collectives ranks = Make();
  const auto from_zero = [](int from, int) { return from == 0 ? 2 : 0; };
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    for (int round = 0; round < 10; ++round) {
      collective.AllToAll({}, {}, stream);  // nobody sends anything
      const Exchange exchange(collective.rank(), world_size(), round, from_zero, SizeOf);
      collective.AllToAll(exchange.sends, exchange.recvs, stream);
      ASSERT_TRUE(Complete(stream).ok());
      exchange.ExpectArrived();
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, TransferArraysAreReadDuringTheCall) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    Exchange exchange(collective.rank(), world_size(), 3, Three, SizeOf);
    {
      auto sends = exchange.sends;
      auto recvs = exchange.recvs;
      collective.AllToAll(sends, recvs, stream);
      std::fill(sends.begin(), sends.end(), SendTransfer{0, nullptr, 1 << 20});
      std::fill(recvs.begin(), recvs.end(), RecvTransfer{0, nullptr, 1 << 20});
    }
    ASSERT_TRUE(Complete(stream).ok());
    exchange.ExpectArrived();
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, LargeTransfersArriveWhole) {
  const Collectives ranks = Make();
  const auto one = [](int, int) { return 1; };
  const auto size = [](int from, int to, int, int) { return int64_t{60'000} + from * 1000 + to; };
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const Exchange exchange(collective.rank(), world_size(), 0, one, size);
    collective.AllToAll(exchange.sends, exchange.recvs, stream);
    ASSERT_TRUE(Complete(stream).ok());
    exchange.ExpectArrived();
  });
  EXPECT_TRUE(AllOk(statuses));
}

// Values whose sum depends on the order in which they are added.
float PartOf(int from, int to, int64_t i) {
  constexpr float kMagnitudes[] = {1e8f, 1.0f, -1e8f, 3e-5f, -1.0f, 7e6f};
  return kMagnitudes[(from + i) % 6] * (1.0f + static_cast<float>((from * 7 + to * 5 + i) % 13) * 0.1f);
}

TEST_P(CollectiveContract, ReduceScatterAddsInRankOrderToTheBit) {
  const Collectives ranks = Make();
  const int w = world_size();
  const auto count_of = [](int rank, int round) {
    return int64_t{(rank + round) % 3 == 1 ? 0 : 11 * rank + 13 + round};
  };
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int me = collective.rank();
    for (int round = 0; round < 3; ++round) {
      std::vector<Floats> buffers;
      std::vector<const float*> parts;
      std::vector<int64_t> counts;
      for (int p = 0; p < w; ++p) {
        Floats& part = buffers.emplace_back(count_of(p, round));
        for (int64_t i = 0; i < part.size(); ++i) part[i] = PartOf(me, p, i);
        parts.push_back(part.data());
        counts.push_back(part.size());
      }
      const Floats out(counts[static_cast<size_t>(me)]);
      collective.ReduceScatter(parts, counts, out.data(), stream);
      ASSERT_TRUE(Complete(stream).ok());
      ASSERT_TRUE(out.GuardsIntact());
      for (int64_t i = 0; i < out.size(); ++i) {
        float expected = PartOf(0, me, i);
        for (int r = 1; r < w; ++r) expected += PartOf(r, me, i);
        ASSERT_EQ(std::memcmp(&out[i], &expected, sizeof(float)), 0) << "rank " << me << " element " << i;
      }
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, ReduceScatterOfNegativeZerosStaysNegativeZero) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const float minus_zero = -0.0f;
    const std::vector<const float*> parts(static_cast<size_t>(world_size()), &minus_zero);
    const std::vector<int64_t> counts(static_cast<size_t>(world_size()), 1);
    float out = 1.0f;
    collective.ReduceScatter(parts, counts, &out, stream);
    ASSERT_TRUE(Complete(stream).ok());
    EXPECT_TRUE(out == 0.0f && std::signbit(out));
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, ReduceScatterMayWriteOverItsOwnPart) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    std::vector<std::vector<float>> buffers(static_cast<size_t>(world_size()),
                                            std::vector<float>(70, static_cast<float>(collective.rank() + 1)));
    std::vector<const float*> parts;
    for (const auto& buffer : buffers) parts.push_back(buffer.data());
    const std::vector<int64_t> counts(static_cast<size_t>(world_size()), 70);
    std::vector<float>& mine = buffers[static_cast<size_t>(collective.rank())];
    collective.ReduceScatter(parts, counts, mine.data(), stream);
    ASSERT_TRUE(Complete(stream).ok());
    const auto total = static_cast<float>(world_size() * (world_size() + 1) / 2);
    EXPECT_EQ(mine, std::vector<float>(70, total));
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, AllGatherBringsUnevenPartsToEveryRank) {
  const Collectives ranks = Make();
  const auto size_of = [](int rank, int round) { return SizeOf(rank, 0, 0, round); };
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int me = collective.rank();
    for (int round = 0; round < 20; ++round) {
      const Bytes sent(size_of(me, round));
      for (int64_t i = 0; i < sent.size(); ++i) sent[i] = ByteOf(me, 0, 0, round, i);
      std::vector<Bytes> received;
      std::vector<RecvTransfer> recvs;
      for (int r = 0; r < world_size(); ++r) {
        const Bytes& buffer = received.emplace_back(size_of(r, round));
        recvs.push_back({r, buffer.data(), buffer.size()});
      }
      collective.AllGather(sent.data(), sent.size(), recvs, stream);
      ASSERT_TRUE(Complete(stream).ok());
      for (int r = 0; r < world_size(); ++r) {
        const Bytes& buffer = received[static_cast<size_t>(r)];
        ASSERT_TRUE(buffer.GuardsIntact());
        for (int64_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], ByteOf(r, 0, 0, round, i));
      }
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

// Operations follow each other without completion in between; each reads what the one before wrote.
TEST_P(CollectiveContract, OperationsOfOneStreamRunInOrder) {
  const Collectives ranks = Make();
  const int w = world_size();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int me = collective.rank();
    int64_t token = me;
    int64_t next = -1;
    for (int hop = 0; hop < 4 * w; ++hop) {  // everybody's token walks around the ring four times
      collective.AllToAll({{(me + 1) % w, &token, 8}}, {{(me + w - 1) % w, &next, 8}}, stream);
      stream.Enqueue([&] {
        token = next;
        return absl::OkStatus();
      });
    }
    ASSERT_TRUE(Complete(stream).ok());
    EXPECT_EQ(token, me);
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, SizesThatDoNotMatchAreInternalAtEveryRankAndTheNextOperationWorks) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int me = collective.rank();
    const Bytes sent(std::vector<uint8_t>(64, 1));
    const Bytes received(64);
    std::vector<SendTransfer> sends;
    std::vector<RecvTransfer> recvs;
    for (int peer = 0; peer < world_size(); ++peer) {
      sends.push_back({peer, sent.data(), 12});
      recvs.push_back({peer, received.data(), me == 0 && peer == world_size() - 1 ? 16 : 12});
    }
    collective.AllToAll(sends, recvs, stream);
    const absl::Status status = Complete(stream);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status.ToString();
    EXPECT_NE(status.message().find("rank 0"), absl::string_view::npos) << status.ToString();
    EXPECT_TRUE(received.GuardsIntact());
    const Exchange exchange(me, world_size(), 4, Three, SizeOf);
    collective.AllToAll(exchange.sends, exchange.recvs, stream);
    ASSERT_TRUE(Complete(stream).ok());
    exchange.ExpectArrived();
  });
  EXPECT_TRUE(AllOk(statuses));
}

TEST_P(CollectiveContract, TransfersNobodySentAreInternal) {
  const Collectives ranks = Make();
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const Bytes received(8);
    const RecvTransfer expected{world_size() - 1, received.data(), 8};
    collective.AllToAll({}, absl::MakeConstSpan(&expected, collective.rank() == 0 ? 1 : 0), stream);
    EXPECT_EQ(Complete(stream).code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(received.GuardsIntact());
    if (collective.rank() == 0) {
      for (int i = 0; i < 8; ++i) EXPECT_EQ(received.data()[i], 0) << "byte " << i;
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

// A random but common sequence of all operations, as flows make them.
TEST_P(CollectiveContract, ManyMixedRoundsStayInStep) {
  const Collectives ranks = Make();
  constexpr uint32_t kSeed = 20250131;
  const auto statuses = Run(ranks, [&](Collective& collective, kernels::Stream& stream) {
    std::mt19937 random(kSeed);  // equal on every rank
    const int me = collective.rank();
    for (int round = 0; round < 150; ++round) {
      const auto what = random() % 3;
      if (what == 0) {
        const Exchange exchange(me, world_size(), round, Three, SizeOf);
        collective.AllToAll(exchange.sends, exchange.recvs, stream);
        ASSERT_TRUE(Complete(stream).ok());
        exchange.ExpectArrived();
      } else if (what == 1) {
        const float value = static_cast<float>(me + round);
        const std::vector<const float*> parts(static_cast<size_t>(world_size()), &value);
        const std::vector<int64_t> counts(static_cast<size_t>(world_size()), 1);
        float out = 0;
        collective.ReduceScatter(parts, counts, &out, stream);
        ASSERT_TRUE(Complete(stream).ok());
        ASSERT_EQ(out, static_cast<float>(world_size() * round + world_size() * (world_size() - 1) / 2));
      } else {
        std::vector<int> all(static_cast<size_t>(world_size()), -1);
        std::vector<RecvTransfer> recvs;
        for (int r = 0; r < world_size(); ++r) recvs.push_back({r, &all[static_cast<size_t>(r)], sizeof(int)});
        const int mine = me * 1000 + round;
        collective.AllGather(&mine, sizeof(mine), recvs, stream);
        ASSERT_TRUE(Complete(stream).ok());
        for (int r = 0; r < world_size(); ++r) ASSERT_EQ(all[static_cast<size_t>(r)], r * 1000 + round);
      }
    }
  });
  EXPECT_TRUE(AllOk(statuses));
}

}  // namespace
}  // namespace embps::testing
