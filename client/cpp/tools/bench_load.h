// The random batches of `embpsctl bench` and the times of its calls.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "client/cpp/tools/arguments.h"
#include "embps/kjt.h"

namespace embps::tools {

// One feature per key, `batch_size` bags of `bag_size` ids each: id = floor(rows * u^skew), u uniform in [0, 1). A pure
// function of the arguments and `stream`, which tells apart threads and batches.
KeyedJaggedTensor RandomBatch(const BenchArguments& bench, const std::vector<std::string>& keys, uint64_t stream);

// Times of one kind of call.
class Latencies {
 public:
  void Add(double us) { us_.push_back(us); }
  void Add(const Latencies& other) { us_.insert(us_.end(), other.us_.begin(), other.us_.end()); }
  int64_t count() const { return static_cast<int64_t>(us_.size()); }
  // Smallest time that at least `share` of the calls did not exceed; 0 without calls.
  double Percentile(double share) const;

 private:
  std::vector<double> us_;
};

}  // namespace embps::tools
