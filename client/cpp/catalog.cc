#include "client/cpp/catalog.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_spec.h"

namespace embps::client {
namespace {

constexpr size_t kMaxFeatureBytes = 128;

absl::Status CheckFeatures(absl::string_view label, const std::vector<std::string>& features) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& feature : features) {
    if (feature.empty() || feature.size() > kMaxFeatureBytes) {
      return MakeError(Reason::kMalformed, absl::StrCat("table ", label, ": a feature name of ", feature.size(),
                                                        " bytes, must be 1 to ", kMaxFeatureBytes));
    }
    if (!seen.insert(feature).second) {
      return MakeError(Reason::kMalformed, absl::StrCat("table ", label, " lists feature \"", feature, "\" twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const AttachedTable>> Catalog::Make(std::vector<std::string> features, Pooling pooling,
                                                                   const v1::Table& table) const {
  EMBPS_ASSIGN_OR_RETURN(plan::TableLayout layout,
                         plan::TableLayout::Create(table.spec(), table.placement(), cluster_));
  if (features.empty()) features.push_back(table.spec().name());
  std::string label = plan::QualifiedName(table.spec());
  EMBPS_RETURN_IF_ERROR(CheckFeatures(label, features));
  return std::make_shared<const AttachedTable>(
      AttachedTable{std::move(features), pooling, table, std::move(label), std::move(layout)});
}

absl::StatusOr<std::shared_ptr<const Catalog>> Catalog::Attach(const std::vector<TableConfig>& configs,
                                                               const std::vector<v1::Table>& tables) const {
  auto next = std::make_shared<Catalog>(*this);
  for (size_t i = 0; i < configs.size(); ++i) {
    EMBPS_ASSIGN_OR_RETURN(auto made, Make(configs[i].features, configs[i].pooling, tables[i]));
    bool replaced = false;
    for (auto& old : next->tables_) {
      if (old->table.spec().name() != tables[i].spec().name()) continue;
      old = made;
      replaced = true;
    }
    if (!replaced) next->tables_.push_back(std::move(made));
  }
  next->Index();
  return std::shared_ptr<const Catalog>(std::move(next));
}

std::shared_ptr<const Catalog> Catalog::Detach(absl::string_view name) const {
  auto next = std::make_shared<Catalog>(*this);
  std::erase_if(next->tables_, [&](const auto& table) { return table->table.spec().name() == name; });
  next->Index();
  return next;
}

absl::StatusOr<std::shared_ptr<const Catalog>> Catalog::Refresh(const std::vector<v1::Table>& tables) const {
  auto next = std::make_shared<Catalog>(*this);
  for (const v1::Table& table : tables) {
    for (auto& old : next->tables_) {
      if (old->table.spec().name() != table.spec().name()) continue;
      EMBPS_ASSIGN_OR_RETURN(old, Make(old->features, old->pooling, table));
    }
  }
  return std::shared_ptr<const Catalog>(std::move(next));
}

absl::Span<const int> Catalog::TablesOf(absl::string_view feature) const {
  const auto found = tables_of_.find(feature);
  return found == tables_of_.end() ? absl::Span<const int>() : absl::MakeConstSpan(found->second);
}

void Catalog::Index() {
  tables_of_.clear();
  for (size_t i = 0; i < tables_.size(); ++i) {
    for (const std::string& feature : tables_[i]->features) tables_of_[feature].push_back(static_cast<int>(i));
  }
}

}  // namespace embps::client
