#include "server/input/home_parts.h"

namespace embps {

HomeParts CutHomeParts(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes, int rank_count) {
  HomeParts parts;
  parts.rank_count = rank_count;
  parts.bucket_counts.resize(batch.features.size());
  for (size_t f = 0; f < batch.features.size(); ++f) {
    const wire::FeatureSlice& feature = batch.features[f];
    const plan::NodeRoute& route = routes[static_cast<size_t>(feature.table)];
    parts.slot_bounds.push_back(wire::HomePartSlots(batch, feature, rank_count));
    if (route.kind != plan::RouteKind::kRows) continue;
    parts.bucket_counts[f].resize(static_cast<size_t>(rank_count * rank_count));
    const wire::BucketShape shape{route.buckets.row_begin, route.buckets.block_rows, route.buckets.count};
    wire::CountBuckets(batch.tables[static_cast<size_t>(feature.table)], parts.slot_bounds[f], shape,
                       absl::MakeSpan(parts.bucket_counts[f]));
  }
  return parts;
}

}  // namespace embps
