// The part of a node's header that lookups and pushes share: which features, and their arrays.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/batch_shape.h"
#include "client/cpp/router.h"
#include "embps/options.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/batch_encoder.h"

namespace embps {
inline namespace sdk {

// What the servers keep of a lookup, and for which batch.
class LookupTokenData {
 public:
  struct NodeToken {
    std::string token;  // 16 bytes; empty = the node is not part of the lookup
    std::string session_id;
  };
  std::vector<NodeToken> nodes;  // [N]
  OutOfRangePolicy policy = OutOfRangePolicy::kError;
  uint64_t batch_digest = 0;  // of the KJT and the tables' uids and versions
};

}  // namespace sdk

namespace client {

// Of features[i] of a header, without gradients.
wire::FeatureArrays ArraysOf(const RoutedFeature& part);
v1::Feature FeatureOf(const BatchShape& shape, const RoutedFeature& part);

// Binds a token to its batch.
uint64_t BatchDigest(const BatchShape& shape, const KjtView& kjt);

}  // namespace client
}  // namespace embps
