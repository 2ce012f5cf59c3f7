// Public types <-> messages of embps.v1. Pure.
#pragma once
#include "embps/options.h"
#include "embps/stats.h"
#include "embps/table.h"
#include "embps/v1/stats.pb.h"
#include "embps/v1/table.pb.h"
#include "embps/v1/types.pb.h"

namespace embps::client {

v1::DataType ToProto(DataType value);
v1::IdType ToProto(IdType value);
v1::Pooling ToProto(Pooling value);
v1::ShardingType ToProto(ShardingType value);
v1::OutOfRangePolicy ToProto(OutOfRangePolicy value);
v1::NonfinitePolicy ToProto(NonfinitePolicy value);
v1::TableSpec ToProto(const TableSpec& spec, ShardingType sharding, absl::string_view table_namespace);

// UNSPECIFIED and values this version does not know become the default of types.proto.
DataType FromProto(v1::DataType value);
IdType FromProto(v1::IdType value);
ShardingType FromProto(v1::ShardingType value);
TableSpec FromProto(const v1::TableSpec& spec);
TableInfo FromProto(const v1::Table& table);
ServerInfo FromProto(const v1::GetServerInfoResponse& response);
NodeStats FromProto(const v1::GetStatsResponse& response);

}  // namespace embps::client
