// The normal form of table_spec.h and comparisons by it.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/base/check.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {
namespace {

float DefaultBound(int64_t row_count) { return static_cast<float>(std::sqrt(1.0 / static_cast<double>(row_count))); }

// -0 means 0, and equal specs are equal bytes.
float WithoutSignedZero(float value) { return value == 0 ? 0.0f : value; }

void NormalizeInitializer(int64_t row_count, v1::Initializer& initializer) {
  switch (initializer.kind()) {
    case v1::INITIALIZER_KIND_UNSPECIFIED:
      initializer.set_kind(v1::INITIALIZER_KIND_UNIFORM);
      initializer.set_a(-DefaultBound(row_count));
      initializer.set_b(DefaultBound(row_count));
      break;
    case v1::INITIALIZER_KIND_NORMAL:
    case v1::INITIALIZER_KIND_CONSTANT:
      initializer.set_b(0);
      break;
    default:
      break;
  }
  initializer.set_a(WithoutSignedZero(initializer.a()));
  initializer.set_b(WithoutSignedZero(initializer.b()));
}

void NormalizeOptimizer(v1::OptimizerSpec& optimizer) {
  if (optimizer.type() == v1::OPTIMIZER_TYPE_UNSPECIFIED) optimizer.set_type(v1::OPTIMIZER_TYPE_SGD);
  if (optimizer.weight_decay_mode() == v1::WEIGHT_DECAY_MODE_UNSPECIFIED) {
    optimizer.set_weight_decay_mode(v1::WEIGHT_DECAY_MODE_NONE);
  }
  const auto or_default = [](bool set, float value, float otherwise) {
    return WithoutSignedZero(set ? value : otherwise);
  };
  optimizer.set_learning_rate(or_default(optimizer.has_learning_rate(), optimizer.learning_rate(), 0.01f));
  optimizer.set_eps(or_default(optimizer.has_eps(), optimizer.eps(), 1e-8f));
  optimizer.set_beta1(or_default(optimizer.has_beta1(), optimizer.beta1(), 0.9f));
  optimizer.set_beta2(or_default(optimizer.has_beta2(), optimizer.beta2(), 0.999f));
  optimizer.set_eta(or_default(optimizer.has_eta(), optimizer.eta(), 0.001f));
  optimizer.set_momentum(or_default(optimizer.has_momentum(), optimizer.momentum(), 0.9f));
  optimizer.set_weight_decay(or_default(optimizer.has_weight_decay(), optimizer.weight_decay(), 0.0f));
  optimizer.set_max_gradient(WithoutSignedZero(optimizer.max_gradient()));
  optimizer.set_max_norm(WithoutSignedZero(optimizer.max_norm()));
}

std::string ValueText(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor* field) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection->GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection->GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT: {
      // Nine digits tell any two floats apart.
      char text[32];
      std::snprintf(text, sizeof(text), "%.9g", reflection->GetFloat(message, field));
      return text;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnum(message, field)->name();
    default:
      break;
  }
  EMBPS_CHECK(false);
}

// Field by field through the descriptors, so that a field added to the spec cannot be forgotten here.
void CollectDifferences(const google::protobuf::Message& stored, const google::protobuf::Message& requested,
                        const std::string& prefix, std::vector<std::string>& differences) {
  const auto* descriptor = stored.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    const std::string path = prefix + std::string(field->name());
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      CollectDifferences(stored.GetReflection()->GetMessage(stored, field),
                         requested.GetReflection()->GetMessage(requested, field), path + ".", differences);
      continue;
    }
    const std::string left = ValueText(stored, field);
    const std::string right = ValueText(requested, field);
    if (left != right) differences.push_back(absl::StrCat(path, ": stored ", left, ", requested ", right));
  }
}

}  // namespace

v1::TableSpec NormalizeTableSpec(v1::TableSpec spec) {
  if (spec.namespace_().empty()) spec.set_namespace_("default");
  if (spec.row_type() == v1::DATA_TYPE_UNSPECIFIED) spec.set_row_type(v1::DATA_TYPE_FP32);
  if (spec.id_type() == v1::ID_TYPE_UNSPECIFIED) spec.set_id_type(v1::ID_TYPE_INT64);
  NormalizeOptimizer(*spec.mutable_optimizer());
  NormalizeInitializer(spec.row_count(), *spec.mutable_initializer());
  // Unknown fields of a newer client would make equal specs differ.
  spec.DiscardUnknownFields();
  return spec;
}

bool SpecsEqual(const v1::TableSpec& a, const v1::TableSpec& b) {
  return NormalizeTableSpec(a).SerializeAsString() == NormalizeTableSpec(b).SerializeAsString();
}

std::string DescribeSpecDifference(const v1::TableSpec& stored, const v1::TableSpec& requested) {
  std::vector<std::string> differences;
  CollectDifferences(NormalizeTableSpec(stored), NormalizeTableSpec(requested), "", differences);
  return absl::StrJoin(differences, "; ");
}

}  // namespace embps::plan
