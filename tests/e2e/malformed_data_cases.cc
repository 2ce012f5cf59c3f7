// Lookup, PushGrad and their streams: every field of the headers and every bulk tensor.
#include <cmath>
#include <limits>
#include <utility>

#include "tests/e2e/malformed_cases.h"

namespace embps {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
constexpr char kData[] = "/embps.v1.EmbeddingService/";

// What lookups and pushes have in common is written once: R is v1::LookupRequest or v1::PushGradRequest.
template <class R>
class DataRows {
 public:
  using Edit = std::function<void(R&, MalformedTarget&)>;

  explicit DataRows(MalformedCases& cases) : cases_(cases) {}

  // A good request of three bags with the ids 1, 2, 3, then `edit`; once unary and once as the only frame of a stream,
  // which has the same fields.
  void Add(const std::string& name, Reason reason, const std::string& text, Edit edit) {
    AddBoth(name, reason, reason, text, edit);
  }
  // A tensor falls short: the next one comes too early, or a stream ends too early where there is no next one.
  void AddShort(const std::string& name, const std::string& text, bool last, Edit edit) {
    AddBoth(name, Reason::kBadJaggedLayout, last ? Reason::kMalformed : Reason::kBadJaggedLayout, text, edit);
  }
  void AddBoth(const std::string& name, Reason unary, Reason streamed, const std::string& text, Edit edit) {
    for (const char* suffix : {"", "Stream"}) {
      const std::string method = std::string(kMethod) + suffix;
      cases_.push_back({method + ": " + name, kData + method, *suffix == 0 ? unary : streamed, text,
                        [edit](MalformedTarget& target) {
                          R request = Good(target);
                          edit(request, target);
                          return std::vector<std::string>{request.SerializeAsString()};
                        }});
    }
  }
  void AddFeature(const std::string& name, Reason reason, const std::string& text,
                  std::function<void(v1::Feature&)> edit) {
    Add(name, reason, text, [edit](R& r, MalformedTarget&) { edit(*r.mutable_header()->mutable_features(0)); });
  }
  void AddLengths(const std::string& name, std::vector<int64_t> lengths) {
    Add(name, Reason::kBadJaggedLayout, "lengths",
        [lengths](R& r, MalformedTarget&) { r.set_lengths(BytesOf<int64_t>(lengths)); });
  }
  void AddId(const std::string& name, int64_t id) {
    Add(name, Reason::kIdOutOfRange, "ids: id " + std::to_string(id) + " at position 2", [id](R& r, MalformedTarget&) {
      r.set_ids(BytesOf<int64_t>({1, 2, id}));
    });
  }
  void AddWeights(const std::string& name, std::vector<float> weights) {
    AddShort(name, "weights", kLookup && weights.size() < 3, [weights](R& r, MalformedTarget&) {
      r.mutable_header()->set_weighted(true);
      r.set_weights(BytesOf<float>(weights));
    });
  }
  void AddBagSizes(const std::string& name, std::vector<int64_t> sizes) {
    AddShort(name, "bag_sizes", kLookup && sizes.size() < 3, [sizes](R& r, MalformedTarget&) {
      r.mutable_header()->mutable_features(0)->set_split_bags(true);
      r.set_bag_sizes(BytesOf<int64_t>(sizes));
    });
  }
  void AddCommon();

 private:
  static constexpr bool kLookup = std::is_same_v<R, v1::LookupRequest>;
  static constexpr const char* kMethod = kLookup ? "Lookup" : "PushGrad";
  static R Good(MalformedTarget& target) {
    if constexpr (kLookup) {
      return target.client.LookupOf({1, 2, 3});
    } else {
      R push = target.client.PushOf({1, 2, 3}, 1.0f);
      push.mutable_header()->mutable_mutation()->set_first_incomplete(target.last_push.header().mutation().sequence());
      return push;
    }
  }
  void AddFeatures();
  void AddCounts();
  void AddTensors();

  MalformedCases& cases_;
};

template <class R>
void DataRows<R>::AddFeatures() {
  for (const uint64_t uid : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    AddFeature("table_uid " + std::to_string(uid), Reason::kTableNotFound, "features[0].table_uid",
               [uid](v1::Feature& f) { f.set_table_uid(uid); });
  }
  for (const uint64_t version : {uint64_t{0}, uint64_t{2}, ~uint64_t{0}}) {
    AddFeature("placement_version " + std::to_string(version), Reason::kPlanStale, "features[0].placement_version",
               [version](v1::Feature& f) { f.set_placement_version(version); });
  }
  for (const uint32_t size : {0u, 2u, 4u}) {
    AddFeature("batch_size " + std::to_string(size), Reason::kBadJaggedLayout, "lengths",
               [size](v1::Feature& f) { f.set_batch_size(size); });
  }
  AddFeature("batch_size beyond the limit", Reason::kBadJaggedLayout, "features.batch_size",
             [](v1::Feature& f) { f.set_batch_size(~0u); });
  for (const int pooling : {0, 4, -1}) {
    AddFeature("pooling " + std::to_string(pooling), Reason::kBadJaggedLayout, "features[0].pooling",
               [pooling](v1::Feature& f) { f.set_pooling(static_cast<v1::Pooling>(pooling)); });
  }
  for (const int type : {1, 3, -1}) {
    AddFeature("id_type " + std::to_string(type), Reason::kDtypeUnsupported, "features[0].id_type",
               [type](v1::Feature& f) { f.set_id_type(static_cast<v1::IdType>(type)); });
  }
  for (const int dim : {0, -1, 3, 5, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    AddFeature("S25 dim " + std::to_string(dim), Reason::kDimMismatch, "features[0].dim",
               [dim](v1::Feature& f) { f.set_dim(dim); });
  }
  AddFeature("split_bags of a sequence", Reason::kBadJaggedLayout, "features[0].split_bags", [](v1::Feature& f) {
    f.set_pooling(v1::POOLING_NONE);
    f.set_split_bags(true);
  });
  AddBagSizes("split_bags without bag_sizes", {});
}

template <class R>
void DataRows<R>::AddCounts() {
  Add("4097 features", Reason::kBadJaggedLayout, "header.features", [](R& r, MalformedTarget&) {
    const v1::Feature feature = r.header().features(0);
    while (r.header().features_size() < 4097) *r.mutable_header()->add_features() = feature;
  });
  for (const uint64_t count : {uint64_t{2}, uint64_t{4}}) {
    Add("id_count " + std::to_string(count), Reason::kBadJaggedLayout, std::to_string(count) + " ids",
        [count](R& r, MalformedTarget&) { r.mutable_header()->set_id_count(count); });
  }
  for (const uint64_t count : {uint64_t{1} << 62, ~uint64_t{0}}) {
    Add("id_count " + std::to_string(count), Reason::kBadJaggedLayout, "header.id_count",
        [count](R& r, MalformedTarget&) { r.mutable_header()->set_id_count(count); });
  }
  for (const uint64_t bytes : {uint64_t{1}, ~uint64_t{0}}) {
    Add("total_bytes " + std::to_string(bytes), Reason::kBadJaggedLayout, "header.total_bytes",
        [bytes](R& r, MalformedTarget&) { r.mutable_header()->set_total_bytes(bytes); });
  }
  Add("out_of_range_policy 3", Reason::kMalformed, "header.out_of_range_policy", [](R& r, MalformedTarget&) {
    r.mutable_header()->set_out_of_range_policy(static_cast<v1::OutOfRangePolicy>(3));
  });
  Add("server_incarnation of another server", Reason::kStateRolledBack, "server_incarnation",
      [](R& r, MalformedTarget&) { r.mutable_header()->set_server_incarnation(12345); });
  for (const v1::Pooling pooling : {v1::POOLING_MEAN, v1::POOLING_NONE}) {
    Add("weighted " + v1::Pooling_Name(pooling), Reason::kBadJaggedLayout, "features[0].pooling",
        [pooling](R& r, MalformedTarget&) {
          r.mutable_header()->mutable_features(0)->set_pooling(pooling);
          r.mutable_header()->set_weighted(true);
          r.set_weights(BytesOf<float>({1, 1, 1}));
        });
  }
  Add("payload_checksum of other bytes", Reason::kChecksumMismatch, "payload_checksum",
      [](R& r, MalformedTarget&) { r.set_payload_checksum(1); });
}

template <class R>
void DataRows<R>::AddTensors() {
  AddLengths("a negative length", {1, -1, 3});
  AddLengths("F22 lengths of 8.4e18 and -3.5e18", {8'400'000'000'000'000'000, -3'500'000'000'000'000'000, 1});
  AddLengths("lengths whose sum overflows to the right one", {kMax, kMax, 5});
  AddLengths("the most negative length", {kMin, 1, 2});
  AddLengths("a length above id_count", {4, 0, 0});
  AddLengths("lengths that sum to less", {1, 1, 0});
  AddLengths("lengths that sum to more", {1, 1, 2});
  AddLengths("too many lengths", {1, 1, 1, 0});
  AddLengths("too few lengths", {1, 2});
  AddLengths("no lengths", {});
  Add("lengths that end inside an item", Reason::kBadJaggedLayout, "lengths",
      [](R& r, MalformedTarget&) { r.mutable_lengths()->pop_back(); });
  AddId("N9 id = R", 100);
  AddId("id -1", -1);
  AddId("S10 id -2", -2);
  AddId("S10 the smallest id", kMin);
  AddId("S10 the largest id", kMax);
  AddId("an id whose low 32 bits are a row", (int64_t{1} << 32) + 3);
  for (const size_t bytes : {size_t{0}, size_t{16}, size_t{23}, size_t{25}, size_t{32}}) {
    AddShort(std::to_string(bytes) + " bytes of ids", "ids", kLookup && bytes < 24,
             [bytes](R& r, MalformedTarget&) { r.mutable_ids()->resize(bytes); });
  }
  AddWeights("a weight that is NaN", {1, kNan, 1});
  AddWeights("an infinite weight", {kInf, 1, 1});
  AddWeights("a weight of minus infinity", {1, 1, -kInf});
  AddWeights("too few weights", {1, 1});
  AddWeights("too many weights", {1, 1, 1, 1});
  AddWeights("no weights", {});
  Add("weights of an unweighted request", Reason::kBadJaggedLayout, "weights", [](R& r, MalformedTarget&) {
    r.set_weights(BytesOf<float>({1, 1, 1}));
  });
  AddBagSizes("a bag size below its length", {1, 0, 1});
  AddBagSizes("a negative bag size", {1, 1, -1});
  AddBagSizes("too few bag sizes", {1, 1});
  AddBagSizes("too many bag sizes", {1, 1, 1, 1});
  Add("bag sizes without split_bags", Reason::kBadJaggedLayout, "bag_sizes", [](R& r, MalformedTarget&) {
    r.set_bag_sizes(BytesOf<int64_t>({1, 1, 1}));
  });
}

template <class R>
void DataRows<R>::AddCommon() {
  AddFeatures();
  AddCounts();
  AddTensors();
}

void AddMutationIds(DataRows<v1::PushGradRequest>& rows) {
  using R = v1::PushGradRequest;
  const auto add = [&](const std::string& name, Reason reason, const std::string& text,
                       std::function<void(v1::MutationId&)> edit) {
    rows.Add(name, reason, text, [edit](R& r, MalformedTarget&) { edit(*r.mutable_header()->mutable_mutation()); });
  };
  add("no mutation", Reason::kMalformed, "mutation.session_id", [](v1::MutationId& m) { m.Clear(); });
  for (const size_t bytes : {size_t{0}, size_t{15}, size_t{17}}) {
    add(std::to_string(bytes) + " bytes of session_id", Reason::kMalformed, "mutation.session_id",
        [bytes](v1::MutationId& m) { m.mutable_session_id()->resize(bytes); });
  }
  add("S29 a session that was never opened", Reason::kSessionEnded, "session_id",
      [](v1::MutationId& m) { m.set_session_id(std::string(16, 'x')); });
  add("sequence 0", Reason::kMalformed, "mutation.sequence", [](v1::MutationId& m) { m.set_sequence(0); });
  add("first_incomplete 0", Reason::kMalformed, "mutation.first_incomplete",
      [](v1::MutationId& m) { m.set_first_incomplete(0); });
  add("first_incomplete above the sequence", Reason::kMalformed, "mutation.first_incomplete",
      [](v1::MutationId& m) { m.set_first_incomplete(m.sequence() + 1); });
  rows.Add("a sequence used for other contents", Reason::kSeqReused, "sequence", [](R& r, MalformedTarget& target) {
    v1::MutationId& mutation = *r.mutable_header()->mutable_mutation();
    mutation.set_sequence(target.last_push.header().mutation().sequence());
    mutation.set_push_digest(77);
  });
  rows.Add("a sequence below first_incomplete", Reason::kSeqTooOld, "sequence", [](R& r, MalformedTarget& target) {
    v1::MutationId& mutation = *r.mutable_header()->mutable_mutation();
    mutation.set_sequence(target.last_push.header().mutation().sequence() - 1);
    mutation.set_first_incomplete(mutation.sequence());
  });
}

void AddPushOptions(DataRows<v1::PushGradRequest>& rows) {
  using R = v1::PushGradRequest;
  const auto add = [&](const std::string& name, Reason reason, const std::string& text,
                       std::function<void(v1::PushGradHeader&)> edit) {
    rows.Add(name, reason, text, [edit](R& r, MalformedTarget&) { edit(*r.mutable_header()); });
  };
  for (const int type : {4, -1}) {
    add("grad_dtype " + std::to_string(type), Reason::kDtypeUnsupported, "header.grad_dtype",
        [type](v1::PushGradHeader& h) { h.set_grad_dtype(static_cast<v1::DataType>(type)); });
  }
  add("a dtype narrower than the gradients", Reason::kBadJaggedLayout, "grads",
      [](v1::PushGradHeader& h) { h.set_grad_dtype(v1::DATA_TYPE_FP16); });
  add("nonfinite_policy 3", Reason::kMalformed, "header.nonfinite_policy",
      [](v1::PushGradHeader& h) { h.set_nonfinite_policy(static_cast<v1::NonfinitePolicy>(3)); });
  for (const float scale : {kNan, kInf, -kInf}) {
    add("grad_scale " + std::to_string(scale), Reason::kMalformed, "header.grad_scale",
        [scale](v1::PushGradHeader& h) { h.set_grad_scale(scale); });
  }
  for (const float rate : {kNan, kInf, -1.0f}) {
    add("learning_rate " + std::to_string(rate), Reason::kMalformed, "learning_rates[0].learning_rate",
        [rate](v1::PushGradHeader& h) {
          v1::PushLearningRate& added = *h.add_learning_rates();
          added.set_table_uid(h.features(0).table_uid());
          added.set_learning_rate(rate);
        });
  }
  add("a learning rate of a table that is not pushed", Reason::kMalformed, "learning_rates[0].table_uid",
      [](v1::PushGradHeader& h) { h.add_learning_rates()->set_table_uid(7); });
  add("two learning rates of one table", Reason::kMalformed, "learning_rates[1].table_uid", [](v1::PushGradHeader& h) {
    for (int i = 0; i < 2; ++i) h.add_learning_rates()->set_table_uid(h.features(0).table_uid());
  });
  for (const size_t bytes : {size_t{1}, size_t{15}, size_t{17}}) {
    add(std::to_string(bytes) + " bytes of lookup_token", Reason::kMalformed, "header.lookup_token",
        [bytes](v1::PushGradHeader& h) { h.set_lookup_token(std::string(bytes, 't')); });
  }
  add("a lookup_token that nobody gave", Reason::kLookupTokenExpired, "lookup_token",
      [](v1::PushGradHeader& h) { h.set_lookup_token(std::string(16, 't')); });
  add("server_incarnation 0", Reason::kStateRolledBack, "server_incarnation",
      [](v1::PushGradHeader& h) { h.set_server_incarnation(0); });
  add("weight_gradients", Reason::kMalformed, "header.weight_gradients",
      [](v1::PushGradHeader& h) { h.set_weight_gradients(true); });
}

void AddGradients(DataRows<v1::PushGradRequest>& rows) {
  using R = v1::PushGradRequest;
  for (const float value : {kNan, kInf, -kInf}) {
    rows.Add("a gradient of " + std::to_string(value), Reason::kNonfiniteGradient, "grads: row 2",
             [value](R& r, MalformedTarget&) {
               std::vector<float> grads(12, 1.0f);
               grads[11] = value;
               r.set_grads(BytesOf(grads));
             });
  }
  for (const size_t bytes : {size_t{0}, size_t{44}, size_t{47}, size_t{49}, size_t{52}}) {
    rows.AddShort(std::to_string(bytes) + " bytes of gradients", "grads", bytes < 48,
                  [bytes](R& r, MalformedTarget&) { r.mutable_grads()->resize(bytes); });
  }
}

}  // namespace

void AddLookupCases(MalformedCases& cases) {
  using R = v1::LookupRequest;
  DataRows<R> rows(cases);
  rows.AddCommon();
  const auto add = [&](const std::string& name, Reason reason, const std::string& text,
                       std::function<void(v1::LookupHeader&)> edit) {
    rows.Add(name, reason, text, [edit](R& r, MalformedTarget&) { edit(*r.mutable_header()); });
  };
  for (const int type : {4, -1}) {
    add("output_dtype " + std::to_string(type), Reason::kDtypeUnsupported, "header.output_dtype",
        [type](v1::LookupHeader& h) { h.set_output_dtype(static_cast<v1::DataType>(type)); });
  }
  add("split_bags with FP16", Reason::kDtypeUnsupported, "features[0].split_bags", [](v1::LookupHeader& h) {
    h.mutable_features(0)->set_split_bags(true);
    h.set_output_dtype(v1::DATA_TYPE_FP16);
  });
  add("a token without a session", Reason::kMalformed, "header.session_id",
      [](v1::LookupHeader& h) { h.set_want_lookup_token(true); });
  for (const size_t bytes : {size_t{1}, size_t{15}, size_t{17}}) {
    add(std::to_string(bytes) + " bytes of session_id", Reason::kMalformed, "header.session_id",
        [bytes](v1::LookupHeader& h) { h.set_session_id(std::string(bytes, 's')); });
  }
  add("a token for a session that was never opened", Reason::kSessionEnded, "session_id", [](v1::LookupHeader& h) {
    h.set_want_lookup_token(true);
    h.set_session_id(std::string(16, 's'));
  });
}

void AddPushCases(MalformedCases& cases) {
  DataRows<v1::PushGradRequest> rows(cases);
  rows.AddCommon();
  AddMutationIds(rows);
  AddPushOptions(rows);
  AddGradients(rows);
}

}  // namespace embps
