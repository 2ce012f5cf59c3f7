#include "proto/plan/table_spec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/error.h"

namespace embps::plan {
namespace {

class Faults {
 public:
  void Add(absl::string_view field, absl::string_view what) { faults_.push_back(absl::StrCat(field, ": ", what)); }

  template <typename T>
  void Require(bool holds, absl::string_view field, T value, absl::string_view rule) {
    if (!holds) Add(field, absl::StrCat(value, ", must be ", rule));
  }

  absl::Status ToStatus(absl::string_view subject) const {
    if (faults_.empty()) return absl::OkStatus();
    return MakeError(Reason::kMalformed, absl::StrCat(subject, absl::StrJoin(faults_, "; ")));
  }

 private:
  std::vector<std::string> faults_;
};

bool HasControlByte(absl::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void CheckName(absl::string_view field, absl::string_view value, Faults& faults) {
  if (value.size() > kMaxNameBytes) {
    faults.Add(field, absl::StrCat(value.size(), " bytes, must be at most ", kMaxNameBytes));
  }
  if (HasControlByte(value)) faults.Add(field, "control bytes are not allowed");
}

void CheckNamespace(absl::string_view field, absl::string_view value, Faults& faults) {
  CheckName(field, value, faults);
  if (absl::StrContains(value, '/')) faults.Add(field, "'/' is not allowed");
}

void CheckTableName(absl::string_view field, absl::string_view value, Faults& faults) {
  CheckName(field, value, faults);
  if (value.empty()) faults.Add(field, "must not be empty");
}

// Every hyperparameter, also those the optimizer does not read: a stored spec holds no nonsense.
void CheckOptimizer(const v1::OptimizerSpec& optimizer, Faults& faults) {
  const auto finite_at_least_0 = [&](absl::string_view field, float value) {
    faults.Require(std::isfinite(value) && value >= 0, field, value, "finite and >= 0");
  };
  const auto positive = [&](absl::string_view field, bool set, float value) {
    if (set) faults.Require(std::isfinite(value) && value > 0, field, value, "finite and > 0");
  };
  const auto below_1 = [&](absl::string_view field, bool set, float value) {
    if (set) faults.Require(value >= 0 && value < 1, field, value, "in [0, 1)");
  };
  faults.Require(v1::OptimizerType_IsValid(optimizer.type()), "optimizer.type", static_cast<int>(optimizer.type()),
                 "an optimizer type");
  faults.Require(v1::WeightDecayMode_IsValid(optimizer.weight_decay_mode()), "optimizer.weight_decay_mode",
                 static_cast<int>(optimizer.weight_decay_mode()), "a weight decay mode");
  finite_at_least_0("optimizer.learning_rate", optimizer.learning_rate());
  positive("optimizer.eps", optimizer.has_eps(), optimizer.eps());
  below_1("optimizer.beta1", optimizer.has_beta1(), optimizer.beta1());
  below_1("optimizer.beta2", optimizer.has_beta2(), optimizer.beta2());
  positive("optimizer.eta", optimizer.has_eta(), optimizer.eta());
  below_1("optimizer.momentum", optimizer.has_momentum(), optimizer.momentum());
  finite_at_least_0("optimizer.weight_decay", optimizer.weight_decay());
  finite_at_least_0("optimizer.max_gradient", optimizer.max_gradient());
  finite_at_least_0("optimizer.max_norm", optimizer.max_norm());
}

void CheckInitializer(const v1::Initializer& initializer, Faults& faults) {
  const float a = initializer.a();
  const float b = initializer.b();
  if (!v1::InitializerKind_IsValid(initializer.kind())) {
    faults.Require(false, "initializer.kind", static_cast<int>(initializer.kind()), "an initializer kind");
    return;
  }
  faults.Require(std::isfinite(a), "initializer.a", a, "finite");
  faults.Require(std::isfinite(b), "initializer.b", b, "finite");
  switch (initializer.kind()) {
    case v1::INITIALIZER_KIND_UNIFORM:
      if (b < a) faults.Add("initializer.b", absl::StrCat(b, ", must be >= initializer.a, which is ", a));
      // The width itself is computed in fp32.
      if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(b - a)) {
        faults.Add("initializer.b", absl::StrCat("range from ", a, " to ", b, " is too wide for fp32"));
      }
      break;
    case v1::INITIALIZER_KIND_NORMAL:
      faults.Require(!(a < 0), "initializer.a", a, ">= 0, a standard deviation");
      break;
    case v1::INITIALIZER_KIND_UNSPECIFIED:
      if (a != 0 || b != 0) faults.Add("initializer.kind", "must be given with a or b");
      break;
    default:
      break;
  }
}

void CheckSize(const v1::TableSpec& spec, Faults& faults) {
  faults.Require(spec.row_count() >= 1 && spec.row_count() <= kMaxRows, "row_count", spec.row_count(), "1 to 2^47");
  faults.Require(spec.dim() >= 1 && spec.dim() <= kMaxDim, "dim", spec.dim(), absl::StrCat("1 to ", kMaxDim));
  if (spec.id_type() == v1::ID_TYPE_INT32 && spec.row_count() > kMaxInt32Rows) {
    faults.Add("id_type", absl::StrCat("INT32 reaches 2^31 rows only, row_count is ", spec.row_count()));
  }
}

// "SHARDING_TYPE_ROW_WISE" without the prefix of its enum, or the number.
std::string WithoutPrefix(const std::string& name, absl::string_view prefix, int value) {
  if (name.empty()) return absl::StrCat(value);
  return name.substr(prefix.size());
}

}  // namespace

std::string QualifiedName(const v1::TableSpec& spec) {
  return absl::StrCat(spec.namespace_().empty() ? "default" : spec.namespace_(), "/", spec.name());
}

absl::Status ValidateNamespace(absl::string_view field, absl::string_view value) {
  Faults faults;
  CheckNamespace(field, value, faults);
  return faults.ToStatus("");
}

absl::Status ValidateTableName(absl::string_view field, absl::string_view value) {
  Faults faults;
  CheckTableName(field, value, faults);
  return faults.ToStatus("");
}

absl::Status ValidateTableSpec(const v1::TableSpec& spec) {
  Faults faults;
  CheckNamespace("namespace", spec.namespace_(), faults);
  CheckTableName("name", spec.name(), faults);
  CheckSize(spec, faults);
  faults.Require(v1::DataType_IsValid(spec.row_type()), "row_type", static_cast<int>(spec.row_type()), "a data type");
  faults.Require(v1::IdType_IsValid(spec.id_type()), "id_type", static_cast<int>(spec.id_type()), "an id type");
  CheckOptimizer(spec.optimizer(), faults);
  CheckInitializer(spec.initializer(), faults);
  faults.Require(v1::ShardingType_IsValid(spec.sharding_type()), "sharding_type",
                 static_cast<int>(spec.sharding_type()), "a sharding type");
  // The name goes into the error only if it is fit to be shown.
  const bool showable = !HasControlByte(spec.name()) && spec.name().size() <= kMaxNameBytes;
  return faults.ToStatus(showable ? absl::StrCat("table '", spec.name(), "': ") : "table: ");
}

StateWidths StateWidthsOf(v1::OptimizerType type, int32_t dim) {
  switch (type) {
    case v1::OPTIMIZER_TYPE_ADAGRAD:
    case v1::OPTIMIZER_TYPE_LARS_SGD:
      return {dim, 0};
    case v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD:
      return {1, 0};
    case v1::OPTIMIZER_TYPE_ADAM:
    case v1::OPTIMIZER_TYPE_LAMB:
      return {dim, dim};
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM:
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB:
      return {dim, 1};
    default:
      return {0, 0};
  }
}

int64_t ElementBytes(v1::DataType type) { return type == v1::DATA_TYPE_FP16 || type == v1::DATA_TYPE_BF16 ? 2 : 4; }

int64_t IdBytes(v1::IdType type) { return type == v1::ID_TYPE_INT32 ? 4 : 8; }

int64_t RowBytes(const v1::TableSpec& spec, int32_t columns) { return ElementBytes(spec.row_type()) * columns; }

int64_t StateBytesPerRow(const v1::TableSpec& spec, int32_t columns) {
  const StateWidths widths = StateWidthsOf(spec.optimizer().type(), columns);
  return int64_t{4} * (widths.state0 + widths.state1);
}

bool HasRowNorm(const v1::OptimizerSpec& optimizer) {
  if (optimizer.max_norm() > 0) return true;
  switch (optimizer.type()) {
    case v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD:
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM:
    case v1::OPTIMIZER_TYPE_LAMB:
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB:
    case v1::OPTIMIZER_TYPE_LARS_SGD:
      return true;
    default:
      return false;
  }
}

std::string ShortName(v1::ShardingType value) {
  return WithoutPrefix(v1::ShardingType_Name(value), "SHARDING_TYPE_", value);
}
std::string ShortName(v1::DataType value) { return WithoutPrefix(v1::DataType_Name(value), "DATA_TYPE_", value); }
std::string ShortName(v1::IdType value) { return WithoutPrefix(v1::IdType_Name(value), "ID_TYPE_", value); }
std::string ShortName(v1::Pooling value) { return WithoutPrefix(v1::Pooling_Name(value), "POOLING_", value); }
std::string ShortName(v1::OptimizerType value) {
  return WithoutPrefix(v1::OptimizerType_Name(value), "OPTIMIZER_TYPE_", value);
}
std::string ShortName(v1::WeightDecayMode value) {
  return WithoutPrefix(v1::WeightDecayMode_Name(value), "WEIGHT_DECAY_MODE_", value);
}
std::string ShortName(v1::InitializerKind value) {
  return WithoutPrefix(v1::InitializerKind_Name(value), "INITIALIZER_KIND_", value);
}

}  // namespace embps::plan
