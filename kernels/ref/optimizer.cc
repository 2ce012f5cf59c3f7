#include "kernels/ref/optimizer.h"

#include <cmath>
#include <limits>

#include "kernels/api/optimizer_step.h"

namespace embps::kernels::ref {
namespace {

using Values = std::vector<double>;

bool FitsFp32(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

bool AllFit(const Values& values) {
  for (const double value : values) {
    if (!FitsFp32(value)) return false;
  }
  return true;
}

double SumOfSquares(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

double RatioOrOne(double a, double b) { return a == 0 || b == 0 ? 1 : a / b; }

// The state and hyperparameters of one step, as the table of numerics.md names them.
struct Step {
  const Optimizer& o;
  const Values& g;
  OptimizedRow& row;
  Values& x;
  double lr, eps, wd;
  double D;

  Step(const Optimizer& optimizer, const Values& gradient, OptimizedRow& target)
      : o(optimizer),
        g(gradient),
        row(target),
        x(target.x),
        lr(optimizer.learning_rate),
        eps(optimizer.eps),
        wd(optimizer.weight_decay),
        D(static_cast<double>(gradient.size())) {}

  void Sgd() {
    for (size_t j = 0; j < x.size(); ++j) x[j] -= lr * g[j];
  }

  void Adagrad() {
    for (size_t j = 0; j < x.size(); ++j) {
      row.state0[j] += g[j] * g[j];
      x[j] -= lr * g[j] / (std::sqrt(row.state0[j]) + eps);
    }
  }

  void RowwiseAdagrad() {
    const bool l2 = o.weight_decay_mode == WeightDecayMode::kL2;
    Values decayed = g;
    if (l2) {
      for (size_t j = 0; j < x.size(); ++j) decayed[j] += wd * x[j];
    }
    double& h = row.state0[0];
    h += SumOfSquares(decayed) / D;
    const double m = lr / (std::sqrt(h) + eps);
    double c = 1;
    if (l2) c = 1 - m * wd;
    if (o.weight_decay_mode == WeightDecayMode::kDecoupled) c = 1 - lr * wd;
    for (size_t j = 0; j < x.size(); ++j) x[j] = c * x[j] - m * g[j];
  }

  // Advances the moments; returns mh / (sqrt(vh) + eps). One second moment per row, or per element.
  Values AdamDirection(bool rowwise_v) {
    const double b1 = DecimalOf(o.beta1), b2 = DecimalOf(o.beta2);
    Values direction(x.size());
    if (rowwise_v) row.state1[0] = b2 * row.state1[0] + (1 - b2) * SumOfSquares(g) / D;
    for (size_t j = 0; j < x.size(); ++j) {
      double& m = row.state0[j];
      double& v = row.state1[rowwise_v ? 0 : j];
      m = b1 * m + (1 - b1) * g[j];
      if (!rowwise_v) v = b2 * v + (1 - b2) * g[j] * g[j];
      direction[j] = m / o.bias_correction1 / (std::sqrt(v / o.bias_correction2) + eps);
    }
    return direction;
  }

  void Adam(bool rowwise_v) {
    const Values r = AdamDirection(rowwise_v);
    for (size_t j = 0; j < x.size(); ++j) x[j] -= lr * (r[j] + wd * x[j]);
  }

  bool Lamb(bool rowwise_v) {
    Values r = AdamDirection(rowwise_v);
    for (size_t j = 0; j < x.size(); ++j) r[j] += wd * x[j];
    const double x_squares = SumOfSquares(x), r_squares = SumOfSquares(r);
    const double ratio = RatioOrOne(std::sqrt(x_squares), std::sqrt(r_squares));
    for (size_t j = 0; j < x.size(); ++j) x[j] -= lr * ratio * r[j];
    return FitsFp32(x_squares) && FitsFp32(r_squares);
  }

  bool LarsSgd() {
    const double x_squares = SumOfSquares(x), g_squares = SumOfSquares(g);
    const double x_norm = std::sqrt(x_squares), g_norm = std::sqrt(g_squares);
    const double s = lr * o.eta * RatioOrOne(x_norm, g_norm + wd * x_norm);
    for (size_t j = 0; j < x.size(); ++j) {
      double& u = row.state0[j];
      u = o.momentum * u + s * (g[j] + wd * x[j]);
      x[j] -= u;
    }
    return FitsFp32(x_squares) && FitsFp32(g_squares);
  }

  // False when a sum over D does not fit.
  bool Apply() {
    switch (o.type) {
      case OptimizerType::kSgd:
        Sgd();
        return true;
      case OptimizerType::kAdagrad:
        Adagrad();
        return true;
      case OptimizerType::kRowwiseAdagrad:
        RowwiseAdagrad();
        return true;
      case OptimizerType::kAdam:
        Adam(false);
        return true;
      case OptimizerType::kPartialRowwiseAdam:
        Adam(true);
        return FitsFp32(SumOfSquares(g));
      case OptimizerType::kLamb:
        return Lamb(false);
      case OptimizerType::kPartialRowwiseLamb:
        return Lamb(true) && FitsFp32(SumOfSquares(g));
      case OptimizerType::kLarsSgd:
        return LarsSgd();
    }
    return false;
  }

  bool LimitNorm() {
    const double squares = SumOfSquares(x), norm = std::sqrt(squares);
    if (norm > o.max_norm) {
      for (double& value : x) value *= o.max_norm / norm;
    }
    return FitsFp32(squares);
  }
};

}  // namespace

bool OptimizeRow(const Optimizer& optimizer, const std::vector<double>& g, OptimizedRow& row) {
  Step step(optimizer, g, row);
  if (!AllFit(g) || !step.Apply() || !AllFit(row.x)) return false;
  if (optimizer.max_norm > 0 && !step.LimitNorm()) return false;
  return AllFit(row.x) && AllFit(row.state0) && AllFit(row.state1);
}

}  // namespace embps::kernels::ref
