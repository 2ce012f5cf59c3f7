// Full names of the methods the SDK calls.
#pragma once

namespace embps::client {

inline constexpr char kOpenSession[] = "/embps.v1.EmbeddingService/OpenSession";
inline constexpr char kCloseSession[] = "/embps.v1.EmbeddingService/CloseSession";
inline constexpr char kLookup[] = "/embps.v1.EmbeddingService/Lookup";
inline constexpr char kLookupStream[] = "/embps.v1.EmbeddingService/LookupStream";
inline constexpr char kPushGrad[] = "/embps.v1.EmbeddingService/PushGrad";
inline constexpr char kPushGradStream[] = "/embps.v1.EmbeddingService/PushGradStream";
inline constexpr char kCreateTables[] = "/embps.v1.TableService/CreateTables";
inline constexpr char kGetTable[] = "/embps.v1.TableService/GetTable";
inline constexpr char kListTables[] = "/embps.v1.TableService/ListTables";
inline constexpr char kDeleteTable[] = "/embps.v1.TableService/DeleteTable";
inline constexpr char kUpdateTable[] = "/embps.v1.TableService/UpdateTable";
inline constexpr char kReadRows[] = "/embps.v1.TableService/ReadRows";
inline constexpr char kWriteRows[] = "/embps.v1.TableService/WriteRows";
inline constexpr char kGetPlan[] = "/embps.v1.TableService/GetPlan";
inline constexpr char kGetServerInfo[] = "/embps.v1.StatsService/GetServerInfo";
inline constexpr char kGetStats[] = "/embps.v1.StatsService/GetStats";
inline constexpr char kDrain[] = "/embps.v1.AdminService/Drain";
inline constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

}  // namespace embps::client
