#include "client/cpp/request_header.h"

#include "client/cpp/convert.h"
#include "proto/wire/payload_checksum.h"

namespace embps::client {

wire::FeatureArrays ArraysOf(const RoutedFeature& part) {
  wire::FeatureArrays arrays;
  arrays.lengths = part.lengths;
  arrays.ids = part.ids;
  arrays.weights = part.weights;
  arrays.bag_sizes = part.bag_sizes;
  return arrays;
}

v1::Feature FeatureOf(const BatchShape& shape, const RoutedFeature& part) {
  const AttachedTable& table = *shape.outputs[part.output].table;
  v1::Feature feature;
  feature.set_table_uid(table.table.table_uid());
  feature.set_placement_version(table.table.placement_version());
  feature.set_batch_size(static_cast<uint32_t>(part.bag_count));
  feature.set_pooling(ToProto(table.pooling));
  feature.set_id_type(table.table.spec().id_type());
  feature.set_dim(table.layout.dim());
  // Also where no bag is left to have a size.
  feature.set_split_bags(table.layout.rows_split_over_nodes() && table.pooling == Pooling::kMean);
  return feature;
}

uint64_t BatchDigest(const BatchShape& shape, const KjtView& kjt) {
  wire::Digest64 digest;
  for (const BatchOutput& output : shape.outputs) {
    digest.UpdateValue(output.table->table.table_uid());
    digest.UpdateValue(output.table->table.placement_version());
    digest.UpdateValue(output.feature);
    digest.UpdateValue(output.bag_count);
  }
  digest.Update(kjt.lengths.data(), kjt.lengths.size() * sizeof(int64_t));
  digest.Update(kjt.values.data(), kjt.values.size() * sizeof(int64_t));
  digest.Update(kjt.values32.data(), kjt.values32.size() * sizeof(int32_t));
  digest.UpdateValue(kjt.weighted);
  digest.Update(kjt.weights.data(), kjt.weights.size() * sizeof(float));
  return digest.value();
}

}  // namespace embps::client
