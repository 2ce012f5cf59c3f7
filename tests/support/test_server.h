// A real server in this process on a free port, and a client made of stock generated stubs.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "embps/v1/admin.grpc.pb.h"
#include "embps/v1/embedding.grpc.pb.h"
#include "embps/v1/stats.grpc.pb.h"
#include "embps/v1/table.grpc.pb.h"
#include "proto/base/error.h"
#include "proto/base/mutex.h"
#include "server/collective/collective.h"
#include "server/server.h"

namespace embps {

// 127.0.0.1:0, `ranks` ranks, two workers, small budgets that tests may change.
ServerConfig SmallServerConfig(int ranks = 1);

// Aborts the test program when the server does not start.
std::unique_ptr<Server> StartServer(ServerOptions options);
std::unique_ptr<Server> StartServer(const ServerConfig& config);

// Stock options but for a connection of its own.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address);

// Every call of a test has a deadline.
class CallContext : public grpc::ClientContext {
 public:
  explicit CallContext(std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    set_deadline(std::chrono::system_clock::now() + timeout);
  }
};

// What a client makes of a failed call: code, text, reason and metadata.
absl::Status ToAbsl(const grpc::Status& status);

// Resident memory of this process.
int64_t ResidentBytes();
int64_t ThreadCount();

// One connection with a session and, if asked, a table.
class StockClient {
 public:
  explicit StockClient(const std::string& address);

  v1::EmbeddingService::Stub& data() { return *data_; }
  v1::TableService::Stub& tables() { return *tables_; }
  v1::StatsService::Stub& stats() { return *stats_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // fp32 rows, SGD with learning rate 1, every element `value`; row blocks over the ranks of node 0.
  absl::Status CreateTable(const std::string& name, int64_t rows, int dim, float value, int ranks = 1);
  const v1::Table& table() const { return table_; }  // the last one created
  absl::Status OpenSession();
  const std::string& session_id() const { return session_id_; }

  // A lookup of bags of one id each, POOLING_SUM, from the last table.
  v1::LookupHeader LookupHeader(int64_t bags) const;
  v1::PushGradHeader PushHeader(int64_t bags);  // takes the next sequence
  v1::LookupRequest LookupOf(const std::vector<int64_t>& ids) const;
  // Every gradient element `gradient`.
  v1::PushGradRequest PushOf(const std::vector<int64_t>& ids, float gradient);

  absl::Status Lookup(const v1::LookupRequest& request, v1::LookupResponse* response,
                      std::chrono::milliseconds timeout = std::chrono::seconds(30));
  absl::Status Push(const v1::PushGradRequest& request, v1::PushGradResponse* response,
                    std::chrono::milliseconds timeout = std::chrono::seconds(30));
  v1::GetStatsResponse Stats();
  // Zeros when it was not called.
  v1::CallStats StatsOf(const std::string& method);

 private:
  v1::Feature FeatureOf(int64_t bags) const;

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::EmbeddingService::Stub> data_;
  std::unique_ptr<v1::TableService::Stub> tables_;
  std::unique_ptr<v1::StatsService::Stub> stats_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  v1::Table table_;
  std::string session_id_;
  uint64_t incarnation_ = 0;
  uint64_t sequence_ = 0;
};

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
std::vector<float> FloatsOf(absl::string_view bytes);

// Lets lanes run, or holds them inside their next exchange.
class LaneGate {
 public:
  void Close();
  void Open();
  // Blocks while closed.
  void Pass();
  // Until `lanes` lanes are held.
  void AwaitHeld(int lanes);
  // For ServerOptions::decorate_collective; the gate outlives the server, and is open when that ends.
  std::function<std::unique_ptr<Collective>(std::unique_ptr<Collective>)> Decorator();

 private:
  Mutex mu_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
