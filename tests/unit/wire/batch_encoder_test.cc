#include "proto/wire/batch_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/wire/parse_message.h"
#include "proto/wire/payload_checksum.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

// The arrays of a random push as a client would hold them.
struct ClientArrays {
  std::vector<std::vector<int64_t>> lengths, ids, bag_sizes;
  std::vector<std::vector<int32_t>> narrow_ids;
  std::vector<std::vector<float>> weights, tensors;
  std::vector<FeatureArrays> features;
};

// Ids are int64 in even rounds and int32 in odd ones, whatever the table says; gradients lie in wider rows in some.
ClientArrays ArraysOf(const v1::PushGradRequest& request, const DecodedBatch& batch, int round) {
  ClientArrays arrays;
  size_t bag_size = 0;
  for (size_t f = 0; f < batch.features.size(); ++f) {
    const FeatureSlice& slice = batch.features[f];
    const TableSlice& table = batch.tables[static_cast<size_t>(slice.table)];
    arrays.lengths.push_back(ToVector(batch.lengths + slice.bag_begin, slice.bag_count));
    arrays.ids.push_back(ToVector(table.ids + slice.id_begin, slice.id_count));
    arrays.narrow_ids.emplace_back(arrays.ids[f].begin(), arrays.ids[f].end());
    arrays.weights.emplace_back();
    if (batch.weighted) arrays.weights[f] = ToVector(table.weights + slice.id_begin, slice.id_count);
    arrays.bag_sizes.emplace_back(slice.split_bags ? static_cast<size_t>(slice.bag_count) : 0);
    for (int64_t& size : arrays.bag_sizes[f]) std::memcpy(&size, request.bag_sizes().data() + 8 * bag_size++, 8);
    const int64_t stride = table.dim + round % 3;
    arrays.tensors.emplace_back(static_cast<size_t>(slice.slot_count * stride), -5.0f);
    for (int64_t row = 0; row < slice.slot_count; ++row) {
      std::copy_n(table.grads + (slice.slot_begin + row) * table.dim, table.dim,
                  &arrays.tensors[f][static_cast<size_t>(row * stride)]);
    }
    FeatureArrays feature;
    feature.grads = {nullptr, v1::DATA_TYPE_FP32, slice.slot_count, table.dim, stride};
    arrays.features.push_back(feature);
  }
  for (size_t f = 0; f < batch.features.size(); ++f) {
    FeatureArrays& feature = arrays.features[f];
    feature.lengths = arrays.lengths[f];
    const auto count = static_cast<int64_t>(arrays.ids[f].size());
    feature.ids =
        round % 2 == 0 ? IdView{arrays.ids[f].data(), count, 8} : IdView{arrays.narrow_ids[f].data(), count, 4};
    feature.weights = arrays.weights[f].data();
    feature.bag_sizes = arrays.bag_sizes[f];
    feature.grads.data = arrays.tensors[f].data();
  }
  return arrays;
}

TEST(RequestEncoderTest, UnaryBytesEqualTheGeneratedMessage) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    v1::PushGradRequest request = RandomPush(random, {});
    if (request.header().grad_dtype() == v1::DATA_TYPE_FP16 || request.header().grad_dtype() == v1::DATA_TYPE_BF16)
      continue;
    const auto batch = DecodeOnce(request);
    ASSERT_TRUE(batch.ok()) << batch.status();
    const ClientArrays arrays = ArraysOf(request, **batch, round);
    const std::vector<std::string> bulk = BulkOf(request);
    size_t payload = 0;
    for (const std::string& bytes : bulk) payload += bytes.size();
    request.mutable_header()->set_total_bytes(payload);
    v1::PushGradHeader header = request.header();
    header.clear_total_bytes();
    header.clear_id_count();
    RequestEncoder encoder(header, arrays.features);
    EXPECT_EQ(encoder.payload_bytes(), static_cast<int64_t>(payload));
    EXPECT_FALSE(encoder.done());
    EXPECT_EQ(Concatenate(encoder.Next(1 << 20)), request.SerializeAsString()) << "round " << round;
    EXPECT_TRUE(encoder.done());
  }
}

TEST(RequestEncoderTest, FramesHoldTheLimitAndDecodeToTheSameBatch) {
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    v1::PushGradRequest request = RandomPush(random, {.max_batch = 60});
    if (request.header().grad_dtype() == v1::DATA_TYPE_FP16 || request.header().grad_dtype() == v1::DATA_TYPE_BF16)
      continue;
    const auto batch = DecodeOnce(request);
    ASSERT_TRUE(batch.ok()) << batch.status();
    const ClientArrays arrays = ArraysOf(request, **batch, round);
    RequestEncoder encoder(request.header(), arrays.features);
    encoder.set_with_checksum(round % 2 == 0);
    for (int attempt = 0; attempt < 2; ++attempt, encoder.Rewind()) {
      BatchDecoder decoder(CaseLimits());
      GuardedMemory memory;
      bool first = true;
      while (!encoder.done()) {
        const std::string bytes = Concatenate(encoder.Next(150));
        v1::PushGradStreamRequest header;
        BulkMessage bulk;
        ASSERT_TRUE(ParseBulkMessage({bytes}, &header, &bulk).ok());
        EXPECT_LE(bulk.payload_bytes(), 150u);
        EXPECT_EQ(header.has_payload_checksum(), round % 2 == 0);
        EXPECT_TRUE(VerifyChecksum(header, bulk).ok());
        EXPECT_EQ(header.has_header(), first);
        if (first) {
          ASSERT_TRUE(decoder.Begin(header.header(), CaseTable).ok());
          ASSERT_TRUE(decoder.Allocate(memory.allocator()).ok());
        }
        first = false;
        const absl::Status status = decoder.Append(bulk);
        ASSERT_TRUE(status.ok()) << status;
      }
      ASSERT_TRUE(decoder.complete());
      const auto expected = ReferenceDecode(request, CaseTable, CaseLimits());
      ASSERT_TRUE(expected.ok());
      EXPECT_EQ(Difference(**decoder.Finish(), *expected, true), "");
    }
  }
}

TEST(RequestEncoderTest, ArraysOfTheWiresOwnLayoutGoOutAsOneView) {
  std::vector<int64_t> lengths = {1, 1, 2}, ids = {1, 2, 3, 4};
  v1::LookupHeader header;
  *header.add_features() = FeatureOf(1, 1);
  *header.add_features() = FeatureOf(1, 2);
  std::vector<FeatureArrays> features(2);
  features[0].lengths = absl::MakeConstSpan(lengths).subspan(0, 1);
  features[0].ids = {ids.data(), 1, 8};
  features[1].lengths = absl::MakeConstSpan(lengths).subspan(1, 2);
  features[1].ids = {ids.data() + 1, 3, 8};
  RequestEncoder encoder(header, features);
  const OutMessage message = encoder.Next(1 << 20);
  ASSERT_EQ(message.size(), 4u);
  EXPECT_EQ(message[1].bytes.data(), reinterpret_cast<const char*>(lengths.data()));
  EXPECT_EQ(message[1].bytes.size(), 24u);
  EXPECT_EQ(message[3].bytes.data(), reinterpret_cast<const char*>(ids.data()));
  EXPECT_EQ(message[3].bytes.size(), 32u);
  EXPECT_EQ(message[3].owner, nullptr);
}

TEST(RequestEncoderTest, ATokenPushSendsGradientsOnly) {
  std::vector<int64_t> lengths = {2}, ids = {1, 2};
  std::vector<float> grads(16, 1.0f);
  v1::PushGradHeader header;
  *header.add_features() = FeatureOf(1, 1);
  header.set_lookup_token("0123456789abcdef");
  FeatureArrays feature;
  feature.lengths = lengths;
  feature.ids = {ids.data(), 2, 8};
  feature.grads = {grads.data(), v1::DATA_TYPE_FP32, 1, 16, 16};
  RequestEncoder encoder(header, {feature});
  EXPECT_EQ(encoder.payload_bytes(), 64);
  const auto request = ParseMessage<v1::PushGradRequest>({Concatenate(encoder.Next(1 << 20))});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->header().id_count(), 2u);
  EXPECT_TRUE(request->lengths().empty() && request->ids().empty());
  EXPECT_EQ(request->grads(), BytesOf(grads));
}

TEST(RequestEncoderTest, ACallWithoutPayloadIsStillOneMessage) {
  RequestEncoder encoder(v1::LookupHeader(), {});
  EXPECT_FALSE(encoder.done());
  EXPECT_EQ(Concatenate(encoder.Next(100)), std::string("\x0a\x00", 2));
  EXPECT_TRUE(encoder.done());
}

}  // namespace
}  // namespace embps::wire
