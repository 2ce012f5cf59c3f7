// The optimizers: what happens to one row of a table when the summed gradient g arrives. This file holds the scalars of
// a step; the formulas stand in optimizer_rules.inc, once for all backends. fp32, every operation rounded, in the order
// written; sums over D by the halving tree: a[j] += a[j + P/2], then P/4, ... 1, over D zero-padded to a power of two
// P.
//
//   SGD                   x -= lr*g
//   ADAGRAD               h += g^2; x -= (lr*g) / (sqrt(h)+eps)                                   Duchi et al., JMLR
//   2011 ROWWISE_ADAGRAD       g' = g + wd*x if L2, else g; H += sum(g'^2)/D; m = lr/(sqrt(H)+eps); x = c*x - m*g
//                         c = 1 - m*wd (L2), 1 - lr*wd (DECOUPLED), 1 (NONE)                      FBGEMM's form
//   ADAM                  m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g^2; r = (m/c1) / (sqrt(v/c2)+eps)
//                         x -= lr*(r + wd*x)             Kingma, Ba, ICLR 2015; decay: Loshchilov, Hutter, ICLR 2019
//   PARTIAL_ROWWISE_ADAM  as ADAM with one v per row: v = b2*v + (1-b2)*(sum(g^2)/D)
//   LAMB                  q = r + wd*x; x -= (lr*ratio(norm(x), norm(q)))*q                        You et al., ICLR
//   2020 PARTIAL_ROWWISE_LAMB  as LAMB with one v per row LARS_SGD              s = (lr*eta)*ratio(norm(x), norm(g) +
//   wd*norm(x)); u = mu*u + s*(g + wd*x); x -= u
//                                                                                         You, Gitman, Ginsburg, 2017
// c1 = 1 - b1^t, c2 = 1 - b2^t; norm(a) = sqrt(sum(a^2)); ratio(a, b) = a/b, but 1 if a or b is 0.
// Then, if max_norm > 0 and n = norm(x) > max_norm: x *= max_norm/n. Then rounding to the row's type (rounding.h).
//
// A row is left untouched, state included, and counted as overflowed unless all of these are finite: the summed
// gradient (as seen through x or state), each sum over D, every new value of state, every new x before it is rounded.
// weight_decay_mode is ROWWISE_ADAGRAD's; ADAM, LAMB and LARS have one way each; SGD and ADAGRAD have no decay.
#pragma once
#include "kernels/api/optimizer_step.h"
#include "kernels/api/reduce_update.h"

namespace embps::kernels {

// Hyperparameters and what is derived from them once per step, on the host.
struct OptimizerScalars {
  float learning_rate = 0;
  float eps = 0;
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 0;  // from the decimal value, see optimizer_step.h
  float one_minus_beta2 = 0;
  float bias_correction1 = 1;
  float bias_correction2 = 1;
  float momentum = 0;
  float weight_decay = 0;
  float rate_times_eta = 0;  // lr*eta
  float shrink = 1;          // c of ROWWISE_ADAGRAD unless L2
  float max_norm = 0;
  float dim = 1;  // D as a divisor
};

inline OptimizerScalars MakeOptimizerScalars(const Optimizer& optimizer, int32_t dim) {
  OptimizerScalars s;
  s.learning_rate = optimizer.learning_rate;
  s.eps = optimizer.eps;
  s.beta1 = optimizer.beta1;
  s.beta2 = optimizer.beta2;
  s.one_minus_beta1 = static_cast<float>(1.0 - DecimalOf(optimizer.beta1));
  s.one_minus_beta2 = static_cast<float>(1.0 - DecimalOf(optimizer.beta2));
  s.bias_correction1 = optimizer.bias_correction1;
  s.bias_correction2 = optimizer.bias_correction2;
  s.momentum = optimizer.momentum;
  s.weight_decay = optimizer.weight_decay;
  s.rate_times_eta = optimizer.learning_rate * optimizer.eta;
  if (optimizer.weight_decay_mode == WeightDecayMode::kDecoupled) {
    const float decay = optimizer.learning_rate * optimizer.weight_decay;
    s.shrink = 1.0f - decay;
  }
  s.max_norm = optimizer.max_norm;
  s.dim = static_cast<float>(dim);
  return s;
}

}  // namespace embps::kernels
