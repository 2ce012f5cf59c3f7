#include "server/output/output_exchange.h"

#include <cstring>

#include "proto/base/check.h"

namespace embps {

OutputExchange::OutputExchange(const ReplyShape& shape, int rank, absl::Span<const ShardRows> mine,
                               absl::Span<const HomePositions> positions, TakeScratch take)
    : shape_(shape), rank_(rank) {
  size_t next_mine = 0, next_positions = 0;
  for (int32_t f = 0; f < static_cast<int32_t>(shape.batch->features.size()); ++f) {
    if (route(f).kind == plan::RouteKind::kCopies) continue;
    if (route(f).kind == plan::RouteKind::kWhole) {
      for (const plan::RouteSlice& slice : route(f).slices) {
        if (slice.rank == rank) SendWhole(mine[next_mine++], slice);
      }
      RecvWhole(f, take);
    } else if (feature(f).pooled()) {
      SendPartials(mine[next_mine++]);
      RecvPartials(f, take);
    } else {
      SendSequence(mine[next_mine++]);
      RecvSequence(positions[next_positions++], take);
    }
  }
  EMBPS_CHECK(next_mine == mine.size() && next_positions == positions.size());
}

int64_t OutputExchange::slots(int32_t f, int home) const {
  const auto& bounds = shape_.slot_bounds[static_cast<size_t>(f)];
  return bounds[static_cast<size_t>(home) + 1] - bounds[static_cast<size_t>(home)];
}

int64_t OutputExchange::bucket_count(int32_t f, int home, int owner) const {
  return shape_.bucket_counts[static_cast<size_t>(f)][static_cast<size_t>(home * shape_.rank_count + owner)];
}

char* OutputExchange::HomeRows(int32_t f) const {
  const int64_t row = shape_.slot_bounds[static_cast<size_t>(f)][static_cast<size_t>(rank_)] - feature(f).slot_begin;
  return shape_.rows[static_cast<size_t>(f)] + row * table(f).dim * element_bytes();
}

void OutputExchange::SendWhole(const ShardRows& rows, const plan::RouteSlice& slice) {
  const char* at = static_cast<const char*>(rows.rows);
  for (int home = 0; home < shape_.rank_count; ++home) {
    const int64_t bytes = slots(rows.feature, home) * slice.width * element_bytes();
    transfers_.Send(home, at, bytes);
    at += bytes;
  }
}

void OutputExchange::RecvWhole(int32_t f, TakeScratch take) {
  const int64_t rows = slots(f, rank_), dim_bytes = table(f).dim * element_bytes();
  char* const out = HomeRows(f);
  const std::vector<plan::RouteSlice>& slices = route(f).slices;
  if (slices.size() == 1) return transfers_.Recv(slices[0].rank, out, rows * dim_bytes);
  for (const plan::RouteSlice& slice : slices) {
    const int64_t row_bytes = slice.width * element_bytes();
    char* const received = static_cast<char*>(take(rows * row_bytes));
    transfers_.Recv(slice.rank, received, rows * row_bytes);
    place_.push_back({received, row_bytes, out + slice.node_column * element_bytes(), dim_bytes, row_bytes, rows});
  }
}

void OutputExchange::SendPartials(const ShardRows& rows) {
  const auto* at = static_cast<const float*>(rows.rows);
  for (int home = 0; home < shape_.rank_count; ++home) {
    const int64_t count = slots(rows.feature, home) * table(rows.feature).dim;
    transfers_.Send(home, at, count);
    at += count;
  }
}

void OutputExchange::RecvPartials(int32_t f, TakeScratch take) {
  const wire::TableSlice& t = table(f);
  const int64_t rows = slots(f, rank_);
  std::vector<const float*>& parts = parts_.emplace_back();
  for (int owner = 0; owner < shape_.rank_count; ++owner) {
    auto* const received = static_cast<float*>(take(rows * t.dim * int64_t{sizeof(float)}));
    transfers_.Recv(owner, received, rows * t.dim);
    parts.push_back(received);
  }
  kernels::ReducePartialsTask task;
  task.parts = parts.data();
  task.part_count = shape_.rank_count;
  if (feature(f).pooling == v1::POOLING_MEAN) {
    task.divisors = t.divisors + shape_.slot_bounds[static_cast<size_t>(f)][static_cast<size_t>(rank_)];
  }
  task.bag_count = rows;
  task.dim = t.dim;
  task.out = HomeRows(f);
  task.out_stride = t.dim;
  task.out_type = shape_.type;
  reduce_.push_back(task);
}

void OutputExchange::SendSequence(const ShardRows& rows) {
  const char* at = static_cast<const char*>(rows.rows);
  for (int home = 0; home < shape_.rank_count; ++home) {
    const int64_t bytes = bucket_count(rows.feature, home, rank_) * table(rows.feature).dim * element_bytes();
    transfers_.Send(home, at, bytes);
    at += bytes;
  }
}

// A row that no owner sends belongs to an id that DROP marked: it is zero.
void OutputExchange::RecvSequence(const HomePositions& positions, TakeScratch take) {
  const int32_t f = positions.feature;
  const wire::TableSlice& t = table(f);
  const int64_t row_bytes = t.dim * element_bytes();
  if (shape_.batch->marked_ids > 0) zero_fill_.push_back({HomeRows(f), slots(f, rank_) * row_bytes});
  for (int owner = 0; owner < shape_.rank_count; ++owner) {
    const int64_t count = bucket_count(f, rank_, owner);
    char* const received = static_cast<char*>(take(count * row_bytes));
    transfers_.Recv(owner, received, count * row_bytes);
    kernels::ScatterRowsTask task;
    task.src = received;
    task.positions = positions.of_owner[static_cast<size_t>(owner)];
    task.row_count = count;
    task.row_bytes = row_bytes;
    task.position_base = feature(f).id_begin;
    task.dst = shape_.rows[static_cast<size_t>(f)];
    task.dst_stride_bytes = row_bytes;
    scatter_.push_back(task);
  }
}

void OutputExchange::Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const {
  if (!zero_fill_.empty()) {
    stream.Enqueue([fills = zero_fill_] {
      for (const ZeroFill& fill : fills) std::memset(fill.data, 0, static_cast<size_t>(fill.bytes));
      return absl::OkStatus();
    });
  }
  transfers_.Run(collective, stream);
  backend.ReducePartials(reduce_, stream);
  backend.Permute(place_, stream);
  backend.ScatterRows(scatter_, stream);
}

}  // namespace embps
