#include "server/rpc/health_board.h"

#include <utility>

namespace embps {

HealthBoard::HealthBoard()
    : serving_{{"", false}, {std::string(kDataService), false}, {std::string(kLiveness), true}} {}

HealthBoard::State HealthBoard::Read(absl::string_view service) const {
  MutexLock lock(&mu_);
  const auto it = serving_.find(std::string(service));
  if (it == serving_.end()) return {.serving = std::nullopt, .ended = ended_};
  return {.serving = it->second, .ended = ended_};
}

void HealthBoard::Watch(std::weak_ptr<Watcher> watcher) {
  MutexLock lock(&mu_);
  std::erase_if(watchers_, [](const std::weak_ptr<Watcher>& w) { return w.expired(); });
  watchers_.push_back(std::move(watcher));
}

void HealthBoard::SetReady(bool ready) {
  {
    MutexLock lock(&mu_);
    if (draining_) return;
    serving_[std::string(kWholeServer)] = ready;
    serving_[std::string(kDataService)] = ready;
  }
  Notify();
}

void HealthBoard::SetAlive(bool alive) {
  {
    MutexLock lock(&mu_);
    bool& now = serving_[std::string(kLiveness)];
    if (std::exchange(now, alive) == alive) return;
  }
  Notify();
}

void HealthBoard::StartDraining() { Drain(/*end_watches=*/false); }

void HealthBoard::EndWatches() { Drain(/*end_watches=*/true); }

void HealthBoard::Drain(bool end_watches) {
  {
    MutexLock lock(&mu_);
    draining_ = true;
    ended_ = ended_ || end_watches;
    serving_[std::string(kWholeServer)] = false;
    serving_[std::string(kDataService)] = false;
  }
  Notify();
}

void HealthBoard::Notify() {
  std::vector<std::weak_ptr<Watcher>> watchers;
  {
    MutexLock lock(&mu_);
    watchers = watchers_;
  }
  for (const std::weak_ptr<Watcher>& watcher : watchers) {
    if (const std::shared_ptr<Watcher> alive = watcher.lock(); alive != nullptr) alive->Changed();
  }
}

}  // namespace embps
