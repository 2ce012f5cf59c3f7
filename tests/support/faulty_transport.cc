#include "tests/support/faulty_transport.h"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "client/cpp/call_count.h"
#include "client/cpp/methods.h"

namespace embps::testing {
namespace {

using client::CallHandler;
using client::CallTarget;
using client::Message;
using Messages = std::vector<Message>;
using Delay = std::chrono::milliseconds;

constexpr Delay kNow{0};

// What the dice say of one attempt.
struct Fate {
  bool drop_request = false, drop_reply = false, abandon = false, duplicate_request = false, duplicate_reply = false;
  Delay request_delay{0}, reply_delay{0}, copy_delay{0};
};

// Sends a recorded request and keeps the replies until the call is over.
class Replayed final : public CallHandler {
 public:
  using Done = std::function<void(const absl::Status&, Messages)>;
  Replayed(std::shared_ptr<const Messages> request, Done done) : request_(std::move(request)), done_(std::move(done)) {}

  void NextRequest(Message* message, bool* last) override {
    *message = (*request_)[next_++];
    *last = next_ == request_->size();
  }
  absl::Status OnReply(Message message) override {
    MutexLock lock(&mu_);
    replies_.push_back(std::move(message));
    return absl::OkStatus();
  }
  void OnDone(const absl::Status& status) override {
    Messages replies;
    {
      MutexLock lock(&mu_);
      replies.swap(replies_);
    }
    std::exchange(done_, nullptr)(status, std::move(replies));
  }

 private:
  const std::shared_ptr<const Messages> request_;
  Done done_;
  size_t next_ = 0;
  Mutex mu_;
  Messages replies_ ABSL_GUARDED_BY(mu_);
};

std::shared_ptr<const Messages> Record(CallHandler& handler) {
  auto messages = std::make_shared<Messages>();
  for (bool last = false; !last;) handler.NextRequest(&messages->emplace_back(), &last);
  return messages;
}

void Deliver(CallHandler& handler, const absl::Status& status, const Messages& replies, bool twice) {
  absl::Status fault;
  for (int round = 0; round < (twice ? 2 : 1); ++round) {
    for (const Message& reply : replies) {
      if (fault.ok()) fault = handler.OnReply(reply);
    }
  }
  handler.OnDone(fault.ok() ? status : fault);
}

class FaultyTransport final : public client::Transport {
 public:
  FaultyTransport(std::unique_ptr<client::Transport> inner, client::Scheduler* scheduler, const FaultRates& rates,
                  uint64_t seed, FaultCounts* counts)
      : inner_(std::move(inner)), scheduler_(scheduler), rates_(rates), counts_(counts), random_(seed) {}
  ~FaultyTransport() override { open_->WaitForNone(); }

  void Start(const CallTarget& target, std::shared_ptr<CallHandler> handler) override {
    const bool push = absl::StartsWith(target.method, client::kPushGrad);
    if (!push && !absl::StartsWith(target.method, client::kLookup)) return inner_->Start(target, std::move(handler));
    const Fate fate = Throw(push);
    const std::shared_ptr<const Messages> request = Record(*handler);
    if (fate.duplicate_request) {
      counts_->requests_duplicated.fetch_add(1);
      SendCopy(fate.copy_delay, target, request);
    }
    if (fate.request_delay > kNow) counts_->requests_delayed.fetch_add(1);
    if (fate.drop_request || fate.abandon) {
      (fate.drop_request ? counts_->requests_dropped : counts_->requests_abandoned).fetch_add(1);
      if (fate.abandon) SendCopy(fate.request_delay, target, request);
      return Later(fate.drop_request ? fate.request_delay : kNow,
                   [handler] { handler->OnDone(absl::UnavailableError("the request was lost on purpose")); });
    }
    After(fate.request_delay,
          [this, target, request, handler, fate, push] { Send(target, request, handler, fate, push); });
  }

 private:
  Fate Throw(bool push) {
    MutexLock lock(&mu_);
    const auto happens = [this](double rate) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::uniform_real_distribution<double>(0, 1)(random_) < rate;
    };
    const auto delay = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return Delay(std::uniform_int_distribution<int>(1, rates_.max_delay_ms)(random_));
    };
    Fate fate;
    fate.drop_request = happens(rates_.drop_request);
    if (happens(rates_.delay_request)) fate.request_delay = delay();
    fate.drop_reply = happens(rates_.drop_reply);
    if (happens(rates_.delay_reply)) fate.reply_delay = delay();
    if (!push) return fate;
    fate.abandon = happens(rates_.abandon);
    fate.duplicate_request = happens(rates_.duplicate_request);
    fate.duplicate_reply = happens(rates_.duplicate_reply);
    if (happens(0.5)) fate.copy_delay = delay();
    return fate;
  }

  void Send(const CallTarget& target, const std::shared_ptr<const Messages>& request,
            const std::shared_ptr<CallHandler>& handler, const Fate& fate, bool push) {
    Replay(target, request, [this, handler, fate, push](const absl::Status& status, Messages replies) {
      if (fate.drop_reply) {
        if (push && status.ok()) counts_->push_replies_lost.fetch_add(1);
        return handler->OnDone(absl::UnavailableError("the reply was lost on purpose"));
      }
      if (fate.reply_delay > kNow) counts_->replies_delayed.fetch_add(1);
      if (fate.duplicate_reply) counts_->replies_duplicated.fetch_add(1);
      After(fate.reply_delay, [handler, status, replies = std::move(replies), twice = fate.duplicate_reply] {
        Deliver(*handler, status, replies, twice);
      });
    });
  }

  // Nobody waits for the answer.
  void SendCopy(Delay delay, const CallTarget& target, const std::shared_ptr<const Messages>& request) {
    After(delay, [this, target, request] {
      Replay(target, request, [counts = counts_](const absl::Status& status, const Messages&) {
        if (status.ok()) counts->copies_answered.fetch_add(1);
      });
    });
  }

  void Replay(const CallTarget& target, const std::shared_ptr<const Messages>& request, Replayed::Done done) {
    open_->Enter();
    inner_->Start(target, std::make_shared<Replayed>(request, [open = open_, done = std::move(done)](
                                                                  const absl::Status& status, Messages replies) {
                    done(status, std::move(replies));
                    open->Leave();
                  }));
  }

  void After(Delay delay, std::function<void()> step) { delay > kNow ? Later(delay, std::move(step)) : step(); }
  // On the scheduler's thread.
  void Later(Delay delay, std::function<void()> step) {
    open_->Enter();
    scheduler_->RunAt(scheduler_->Now() + delay, [open = open_, step = std::move(step)] {
      step();
      open->Leave();
    });
  }

  const std::shared_ptr<CallCount> open_ = std::make_shared<CallCount>();
  const std::unique_ptr<client::Transport> inner_;
  client::Scheduler* const scheduler_;
  const FaultRates rates_;
  FaultCounts* const counts_;
  Mutex mu_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

FaultyTransportFactory::FaultyTransportFactory(std::shared_ptr<client::TransportFactory> inner,
                                               client::Scheduler* scheduler, const FaultRates& rates, uint64_t seed,
                                               FaultCounts* counts)
    : inner_(std::move(inner)), scheduler_(scheduler), rates_(rates), counts_(counts), random_(seed) {}
FaultyTransportFactory::~FaultyTransportFactory() = default;

std::unique_ptr<client::Transport> FaultyTransportFactory::Connect(const std::string& endpoint) {
  MutexLock lock(&mu_);
  return std::make_unique<FaultyTransport>(inner_->Connect(endpoint), scheduler_, rates_, random_(), counts_);
}

}  // namespace embps::testing
