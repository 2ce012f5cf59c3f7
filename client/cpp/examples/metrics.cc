#include "client/cpp/examples/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace embps::examples {
namespace {

// The rank-sum form (Mann and Whitney 1947) with mean ranks for ties.
double Auc(const std::vector<float>& scores, const std::vector<float>& labels) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] < scores[b]; });
  double positive_ranks = 0, positives = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double tied_positives = 0;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) tied_positives += labels[order[end++]];
    positive_ranks += tied_positives * (static_cast<double>(begin + end + 1) / 2);
    positives += tied_positives;
    begin = end;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  return (positive_ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace

ClickMetrics Measure(const std::vector<float>& scores, const std::vector<float>& labels) {
  const auto count = static_cast<double>(scores.size());
  double loss = 0, score_sum = 0, label_sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::clamp(static_cast<double>(scores[i]), 1e-7, 1 - 1e-7);
    loss -= labels[i] > 0.5f ? std::log(p) : std::log1p(-p);
    score_sum += scores[i];
    label_sum += labels[i];
  }
  const double base = label_sum / count;
  const double entropy = -(base * std::log(base) + (1 - base) * std::log1p(-base));
  return {Auc(scores, labels), loss / count, loss / count / entropy, score_sum / label_sum};
}

}  // namespace embps::examples
