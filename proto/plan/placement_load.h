// What placed tables cost the ranks that hold them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "embps/v1/types.pb.h"
#include "proto/plan/cluster.h"

namespace embps::plan {

// What a rank holds and serves.
struct RankLoad {
  int64_t bytes = 0;         // rows and optimizer state; sums stop at the largest int64
  double ids_per_batch = 0;  // an id looked up in a part of the columns counts by that part
};

// Rows and optimizer state of the uncut table, one copy. Fits for every valid spec.
int64_t TableBytes(const v1::TableSpec& spec);

// What one shard of the placement holds and serves; `ids_per_batch` is the whole table's.
RankLoad LoadOf(const v1::TableSpec& spec, const v1::Placement& placement, const v1::Shard& shard,
                double ids_per_batch);

RankLoad operator+(const RankLoad& a, const RankLoad& b);

// Adds a placed table to `loads`, [Q].
void AddLoad(const v1::TableSpec& spec, const v1::Placement& placement, double ids_per_batch, const Cluster& cluster,
             std::vector<RankLoad>& loads);

// "1.5 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace embps::plan
