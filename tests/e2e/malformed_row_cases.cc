// ReadRows, WriteRows and UpdateTable; and messages whose framing is wrong, whole or in a stream.
#include <algorithm>
#include <limits>
#include <utility>

#include "tests/e2e/malformed_cases.h"

namespace embps {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr char kTables[] = "/embps.v1.TableService/";
constexpr char kData[] = "/embps.v1.EmbeddingService/";

v1::MutationId NextMutation(MalformedTarget& target) {
  v1::MutationId mutation = target.client.PushHeader(1).mutation();
  mutation.set_first_incomplete(target.last_push.header().mutation().sequence());
  return mutation;
}

// A good request about the rows 1 and 2 of the Adam table.
void Fill(v1::ReadRowsRequest& request, MalformedTarget& target) {
  request.set_table_uid(target.adam.table_uid());
  request.set_placement_version(1);
  request.set_ids(BytesOf<int64_t>({1, 2}));
}
void Fill(v1::WriteRowsRequest& request, MalformedTarget& target) {
  *request.mutable_mutation() = NextMutation(target);
  request.set_table_uid(target.adam.table_uid());
  request.set_placement_version(1);
  request.set_with_state(true);
  request.set_ids(BytesOf<int64_t>({1, 2}));
  for (std::string* bytes : {request.mutable_rows(), request.mutable_state0(), request.mutable_state1()}) {
    *bytes = BytesOf<float>({1, 2, 3, 4});
  }
}
void Fill(v1::UpdateTableRequest& request, MalformedTarget& target) {
  *request.mutable_mutation() = NextMutation(target);
  request.set_table_uid(target.adam.table_uid());
  request.set_learning_rate(0.5f);
}

template <class R>
class Rows {
 public:
  Rows(MalformedCases& cases, std::string method) : cases_(cases), method_(std::move(method)) {}
  void Add(const std::string& name, Reason reason, const std::string& text, std::function<void(R&)> edit) {
    cases_.push_back({method_ + ": " + name, kTables + method_, reason, text, [edit](MalformedTarget& target) {
                        R request;
                        Fill(request, target);
                        edit(request);
                        return std::vector<std::string>{request.SerializeAsString()};
                      }});
  }
  void AddUid() {
    for (const uint64_t uid : {uint64_t{0}, ~uint64_t{0}}) {
      Add("table_uid " + std::to_string(uid), Reason::kTableNotFound, "table_uid",
          [uid](R& r) { r.set_table_uid(uid); });
    }
  }
  void AddIds() {
    for (const uint64_t version : {uint64_t{0}, uint64_t{2}}) {
      Add("placement_version " + std::to_string(version), Reason::kPlanStale, "placement_version",
          [version](R& r) { r.set_placement_version(version); });
    }
    for (const size_t bytes : {size_t{7}, size_t{15}, size_t{17}}) {
      Add(std::to_string(bytes) + " bytes of ids", Reason::kBadJaggedLayout, "ids",
          [bytes](R& r) { r.mutable_ids()->resize(bytes); });
    }
    for (const int64_t id :
         {int64_t{10}, int64_t{-1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      Add("id " + std::to_string(id), Reason::kIdOutOfRange, "ids: id " + std::to_string(id) + " at position 1",
          [id](R& r) {
            r.set_ids(BytesOf<int64_t>({1, id}));
          });
    }
  }
  void AddMutation() {
    const auto add = [&](const std::string& name, Reason reason, const std::string& text,
                         std::function<void(v1::MutationId&)> edit) {
      Add(name, reason, text, [edit](R& r) { edit(*r.mutable_mutation()); });
    };
    add("no mutation", Reason::kMalformed, "mutation.session_id", [](v1::MutationId& m) { m.Clear(); });
    add("15 bytes of session_id", Reason::kMalformed, "mutation.session_id",
        [](v1::MutationId& m) { m.mutable_session_id()->pop_back(); });
    add("17 bytes of session_id", Reason::kMalformed, "mutation.session_id",
        [](v1::MutationId& m) { m.mutable_session_id()->push_back('x'); });
    add("a session that was never opened", Reason::kSessionEnded, "session_id",
        [](v1::MutationId& m) { m.set_session_id(std::string(16, 'x')); });
    add("sequence 0", Reason::kMalformed, "mutation.sequence", [](v1::MutationId& m) { m.set_sequence(0); });
    add("first_incomplete 0", Reason::kMalformed, "mutation.first_incomplete",
        [](v1::MutationId& m) { m.set_first_incomplete(0); });
    add("first_incomplete above the sequence", Reason::kMalformed, "mutation.first_incomplete",
        [](v1::MutationId& m) { m.set_first_incomplete(m.sequence() + 1); });
  }

 private:
  MalformedCases& cases_;
  const std::string method_;
};

void AddWrites(MalformedCases& cases) {
  using R = v1::WriteRowsRequest;
  Rows<R> rows(cases, "WriteRows");
  rows.AddUid();
  rows.AddIds();
  rows.AddMutation();
  rows.Add("a row twice", Reason::kBadJaggedLayout, "ids", [](R& r) { r.set_ids(BytesOf<int64_t>({1, 1})); });
  const std::vector<std::pair<std::string, std::string* (R::*)()>> fields = {
      {"rows", &R::mutable_rows}, {"state0", &R::mutable_state0}, {"state1", &R::mutable_state1}};
  for (const auto& [field, mutable_bytes] : fields) {
    for (const size_t bytes : {size_t{0}, size_t{12}, size_t{15}, size_t{17}, size_t{20}}) {
      rows.Add(std::to_string(bytes) + " bytes of " + field, Reason::kBadJaggedLayout, field + ": ",
               [bytes, f = mutable_bytes](R& r) { (r.*f)()->resize(bytes); });
    }
    for (const float value : {kNan, kInf}) {
      rows.Add(field + " of " + std::to_string(value), Reason::kBadJaggedLayout, field + ": row 1, column 0",
               [value, f = mutable_bytes](R& r) {
                 *(r.*f)() = BytesOf<float>({1, 1, value, 1});
               });
    }
  }
  rows.Add("state without with_state", Reason::kBadJaggedLayout, "state0", [](R& r) { r.set_with_state(false); });
}

void AddUpdates(MalformedCases& cases) {
  using R = v1::UpdateTableRequest;
  Rows<R> rows(cases, "UpdateTable");
  rows.AddUid();
  rows.AddMutation();
  for (const float rate : {kNan, kInf, -1.0f}) {
    rows.Add("learning_rate " + std::to_string(rate), Reason::kMalformed, "learning_rate",
             [rate](R& r) { r.set_learning_rate(rate); });
  }
  for (const int64_t step : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    rows.Add("step " + std::to_string(step), Reason::kMalformed, "step", [step](R& r) { r.set_step(step); });
  }
}

void AddBytes(MalformedCases& cases, const std::string& name, const std::string& method, Reason reason,
              const std::string& text, std::function<std::string(MalformedTarget&)> bytes) {
  cases.push_back(
      {name, method, reason, text, [bytes](MalformedTarget& target) { return std::vector{bytes(target)}; }});
}

// Whole messages, cut or continued with bytes that are no field.
void AddBrokenFrames(MalformedCases& cases) {
  const auto lookup = [](MalformedTarget& target) { return target.client.LookupOf({1, 2, 3}).SerializeAsString(); };
  const auto push = [](MalformedTarget& target) {
    v1::PushGradRequest request = target.client.PushOf({1, 2, 3}, 1.0f);
    *request.mutable_header()->mutable_mutation() = NextMutation(target);
    return request.SerializeAsString();
  };
  const auto rows = [](MalformedTarget& target) {
    v1::WriteRowsRequest request;
    Fill(request, target);
    return request.SerializeAsString();
  };
  using Bytes = std::function<std::string(MalformedTarget&)>;
  struct Row {
    std::string method, message;
    Bytes bytes;
  };
  const std::vector<Row> sources = {{std::string(kData) + "Lookup", "LookupRequest", lookup},
                                    {std::string(kData) + "LookupStream", "LookupStreamRequest", lookup},
                                    {std::string(kData) + "PushGrad", "PushGradRequest", push},
                                    {std::string(kData) + "PushGradStream", "PushGradStreamRequest", push},
                                    {std::string(kTables) + "WriteRows", "WriteRowsRequest", rows}};
  const std::vector<std::pair<std::string, std::string>> tails = {
      {"a tensor of 2^32 - 1 bytes", std::string("\xaa\x06\xff\xff\xff\xff\x0f", 7)},
      {"a tensor of 2^63 bytes", std::string("\xaa\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12)},
      {"a tensor without its bytes", std::string("\xaa\x06\x08", 3)},
      {"half a tag", std::string("\x80", 1)},
      {"an end of no group", std::string("\xac\x06", 2)}};
  for (const Row& source : sources) {
    const auto cut = [&](const std::string& name, std::function<size_t(size_t)> keep) {
      AddBytes(cases, source.message + " cut " + name, source.method, Reason::kMalformed, source.message,
               [bytes = source.bytes, keep](MalformedTarget& target) {
                 std::string message = bytes(target);
                 message.resize(keep(message.size()));
                 return message;
               });
    };
    cut("after its first byte", [](size_t) { return 1; });
    cut("inside its first field", [](size_t) { return 9; });
    cut("before its last byte", [](size_t size) { return size - 1; });
    for (const auto& [name, tail] : tails) {
      AddBytes(cases, source.message + " and " + name, source.method, Reason::kMalformed, source.message,
               [bytes = source.bytes, tail = tail](MalformedTarget& target) { return bytes(target) + tail; });
    }
  }
  AddBytes(cases, "a header of another wire type", std::string(kData) + "Lookup", Reason::kMalformed, "header",
           [](MalformedTarget&) { return std::string("\x08\x01", 2); });
  AddBytes(cases, "a name that is no UTF-8", std::string(kTables) + "GetTable", Reason::kMalformed, "name",
           [](MalformedTarget&) { return std::string("\x12\x02\xc3\x28", 4); });
  AddBytes(cases, "a unary lookup above the limit", std::string(kData) + "Lookup", Reason::kMessageTooLarge,
           "LookupRequest", [](MalformedTarget& target) {
             v1::LookupRequest request = target.client.LookupOf({1});
             request.set_ids(std::string((2 << 20) + 8, '\0'));
             return request.SerializeAsString();
           });
  AddBytes(cases, "a frame above the limit", std::string(kData) + "LookupStream", Reason::kMessageTooLarge,
           "LookupStreamRequest", [](MalformedTarget& target) {
             v1::LookupRequest request = target.client.LookupOf({1});
             request.set_ids(std::string((1 << 20) + 8, '\0'));
             return request.SerializeAsString();
           });
}

// Frames of a request that is split field by field; `edit` disturbs them.
template <class Frame>
void AddStream(MalformedCases& cases, const std::string& name, Reason reason, const std::string& text,
               std::function<void(std::vector<Frame>&)> edit) {
  constexpr bool kPush = std::is_same_v<Frame, v1::PushGradStreamRequest>;
  const std::string method = kPush ? "PushGradStream" : "LookupStream";
  cases.push_back({method + ": " + name, kData + method, reason, text, [edit](MalformedTarget& target) {
                     std::vector<Frame> frames(3);
                     if constexpr (kPush) {
                       const v1::PushGradRequest request = target.client.PushOf({1, 2, 3}, 1.0f);
                       *frames[0].mutable_header() = request.header();
                       frames[0].mutable_header()->mutable_mutation()->set_first_incomplete(
                           target.last_push.header().mutation().sequence());
                       frames[2].set_grads(request.grads());
                     } else {
                       *frames[0].mutable_header() = target.client.LookupHeader(3);
                     }
                     frames[0].set_lengths(BytesOf<int64_t>({1, 1, 1}));
                     frames[1].set_ids(BytesOf<int64_t>({1, 2, 3}));
                     edit(frames);
                     std::vector<std::string> bytes;
                     for (const Frame& frame : frames) bytes.push_back(frame.SerializeAsString());
                     return bytes;
                   }});
}

template <class Frame>
void AddStreams(MalformedCases& cases) {
  using Frames = std::vector<Frame>;
  const auto add = [&](const std::string& name, Reason reason, const std::string& text,
                       std::function<void(Frames&)> edit) { AddStream<Frame>(cases, name, reason, text, edit); };
  add("no frames", Reason::kMalformed, "ended before", [](Frames& f) { f.clear(); });
  add("bulk before the header", Reason::kMalformed, "header", [](Frames& f) { std::swap(f[0], f[1]); });
  add("no header at all", Reason::kMalformed, "header", [](Frames& f) { f[0].clear_header(); });
  add("the header twice", Reason::kMalformed, "header", [](Frames& f) { *f[1].mutable_header() = f[0].header(); });
  add("ids before lengths", Reason::kBadJaggedLayout, "ids: sent before the end of lengths", [](Frames& f) {
    f[0].clear_lengths();
    f[2].set_lengths(BytesOf<int64_t>({1, 1, 1}));
  });
  add("ids before the last length", Reason::kBadJaggedLayout, "ids: sent before the end of lengths", [](Frames& f) {
    f[0].set_lengths(BytesOf<int64_t>({1, 1}));
  });
  add("lengths again", Reason::kBadJaggedLayout, "lengths", [](Frames& f) { f[1].set_lengths(BytesOf<int64_t>({1})); });
  add("an end before the last id", Reason::kMalformed, "ids", [](Frames& f) {
    f[1].mutable_ids()->resize(16);
    f.resize(2);
  });
  add("an end after the header", Reason::kMalformed, "lengths", [](Frames& f) {
    f[0].clear_lengths();
    f.resize(1);
  });
  add("a bad id in a later frame", Reason::kIdOutOfRange, "position 2", [](Frames& f) {
    f[1].set_ids(BytesOf<int64_t>({1, 2, 100}));
  });
  add("a wrong checksum of a later frame", Reason::kChecksumMismatch, "payload_checksum",
      [](Frames& f) { f[1].set_payload_checksum(3); });
}

}  // namespace

void AddRowCases(MalformedCases& cases) {
  Rows<v1::ReadRowsRequest> reads(cases, "ReadRows");
  reads.AddUid();
  reads.AddIds();
  AddWrites(cases);
  AddUpdates(cases);
}

void AddFramingCases(MalformedCases& cases) {
  AddBrokenFrames(cases);
  AddStreams<v1::LookupStreamRequest>(cases);
  AddStreams<v1::PushGradStreamRequest>(cases);
  AddStream<v1::PushGradStreamRequest>(cases, "grads before ids", Reason::kBadJaggedLayout, "grads: sent before",
                                       [](auto& f) { std::swap(f[1], f[2]); });
  AddStream<v1::PushGradStreamRequest>(cases, "an end before the last gradient", Reason::kMalformed, "grads",
                                       [](auto& f) { f[2].mutable_grads()->resize(44); });
}

}  // namespace embps
