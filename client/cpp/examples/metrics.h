// What is said about a click model: ranking (AUC), likelihood (normalised entropy) and level (calibration).
#pragma once
#include <vector>

namespace embps::examples {

struct ClickMetrics {
  double auc = 0;                 // area under the ROC curve; ties count half
  double log_loss = 0;            // mean cross entropy, nats
  double normalised_entropy = 0;  // log_loss / entropy of the mean label (He et al., ADKDD 2014)
  double calibration = 0;         // sum of predictions / sum of labels
};

// scores in (0, 1), labels 0 or 1, equally many, at least one of each label.
ClickMetrics Measure(const std::vector<float>& scores, const std::vector<float>& labels);

}  // namespace embps::examples
