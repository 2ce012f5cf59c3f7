// Where the rows of a lookup land, and how the parts of several nodes become the result: whole features go straight to
// their place; parts cut by rows are added in node order in fp32, columns put side by side, sequences and variable
// batches expanded, and the output type is made last.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/batch_shape.h"
#include "client/cpp/router.h"
#include "client/cpp/tensor_pool.h"
#include "embps/kjt.h"
#include "embps/table.h"
#include "embps/tensor.h"
#include "proto/wire/reply_decoder.h"

namespace embps::client {

class LookupMerger {
 public:
  // Everything is borrowed until Finish. `pooled_output`: the caller's memory of the right size, or empty.
  LookupMerger(const BatchShape& shape, const KjtView& kjt, const RoutedBatch& routed, DataType output_type,
               absl::Span<char> pooled_output, TensorPool* pool);

  // The element type to ask of the node, and where its rows go, features in the order of routed.nodes[node].
  DataType TypeOf(int node) const { return node_types_[static_cast<size_t>(node)]; }
  std::vector<wire::OutputFeature> LandingsOf(int node) const;
  // All rows go straight to the result.
  bool all_direct() const { return all_direct_; }
  int64_t reply_bytes(int node) const;

  // When every row has landed. May run once.
  void Finish(KeyedTensor* pooled, std::vector<SequenceTensor>* sequences);

 private:
  // Rows of one part; they land in the result, or in `memory`.
  struct Landing {
    std::shared_ptr<char> memory;
    char* rows = nullptr;
    int64_t row_step_bytes = 0;
    int32_t dim = 0;
  };
  struct PartRef {
    int node = 0;
    size_t index = 0;  // in routed.nodes[node]
  };
  // Rows [row_count, D] of one output before they are expanded.
  struct Block {
    std::shared_ptr<char> memory;
    const char* rows = nullptr;
    DataType type = DataType::kFp32;
  };

  char* Destination(const BatchOutput& output) const;
  bool IsDirect(size_t output) const;
  Landing Land(int node, const RoutedFeature& part);
  Block Assemble(size_t output, absl::Span<const PartRef> parts) const;
  Block AddParts(absl::Span<const PartRef> parts, int64_t element_count) const;
  void WritePooled(const BatchOutput& output, const Block& block) const;
  void WriteSequence(const BatchOutput& output, const RoutedOutput& routed, const Block& block) const;
  const Landing& LandingOf(const PartRef& part) const { return landings_[static_cast<size_t>(part.node)][part.index]; }
  const RoutedFeature& FeatureOf(const PartRef& part) const {
    return routed_.nodes[static_cast<size_t>(part.node)][part.index];
  }

  const BatchShape& shape_;
  const KjtView& kjt_;
  const RoutedBatch& routed_;
  const DataType output_type_;
  TensorPool* const pool_;
  std::vector<DataType> node_types_;            // [N]
  std::vector<bool> direct_;                    // [outputs] all of its parts land in the result
  std::vector<std::vector<Landing>> landings_;  // [N][features]
  std::shared_ptr<char> pooled_;
  std::vector<std::shared_ptr<char>> sequences_;
  bool all_direct_ = true;
};

// The columns that a node holds of a table: its slices side by side.
struct ColumnRun {
  int32_t begin = 0;  // in the table
  int32_t count = 0;
};
std::vector<ColumnRun> ColumnRunsOf(const plan::TableLayout& layout, int node);

}  // namespace embps::client
