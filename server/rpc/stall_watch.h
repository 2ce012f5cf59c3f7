// Cuts calls whose peer makes no progress, so that their buffers and their admission come back.
#pragma once
#include <unordered_set>

#include "proto/base/mutex.h"
#include "server/env/clock.h"

namespace embps {

class Stallable {
 public:
  virtual ~Stallable() = default;
  // Cancels the call if it has waited for its peer since before `oldest`. Must not call back into the watch.
  virtual void CutIfStalled(Clock::TimePoint oldest) = 0;
};

// A call is watched from Add to Remove. Tick never runs at the same time as Remove, so what CutIfStalled touches stays
// alive until Remove returns.
class StallWatch {
 public:
  explicit StallWatch(Clock::Duration timeout) : timeout_(timeout) {}
  void Add(Stallable* call);
  void Remove(Stallable* call);
  // Call several times per timeout.
  void Tick(Clock::TimePoint now);

 private:
  const Clock::Duration timeout_;
  Mutex mu_;
  std::unordered_set<Stallable*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
