// What the server says about its health, and who watches.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace embps {

inline constexpr absl::string_view kWholeServer = "";
inline constexpr absl::string_view kDataService = "embps.v1.EmbeddingService";
inline constexpr absl::string_view kLiveness = "embps.liveness";

// Thread-safe. Starts with everything not serving.
class HealthBoard {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // The state may have changed: read the board. Called outside the board's lock, maybe once too often.
    virtual void Changed() = 0;
  };

  struct State {
    std::optional<bool> serving;  // none: no such service
    bool ended = false;           // watchers hear the state once more and end
  };

  HealthBoard();
  State Read(absl::string_view service) const;
  void Watch(std::weak_ptr<Watcher> watcher);

  // Ready for data: "" and the data service. Ignored once draining.
  void SetReady(bool ready);
  void SetAlive(bool alive);
  // Not ready any more, for good.
  void StartDraining();
  // Draining, and all watches end.
  void EndWatches();

 private:
  void Drain(bool end_watches);
  void Notify();

  mutable Mutex mu_;
  std::map<std::string, bool, std::less<>> serving_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
