#include "server/rpc/lookup_calls.h"

#include <utility>
#include <vector>

#include "proto/wire/bulk_encode.h"
#include "server/rpc/byte_buffers.h"

namespace embps {
namespace {

template <class Response>
Response ResponseOf(const LookupReplyInfo& info) {
  Response response;
  response.set_server_incarnation(info.server_incarnation);
  response.set_version(info.version);
  response.set_dropped_ids(info.dropped_ids);
  response.set_pruned_ids(info.pruned_ids);
  response.set_lookup_token(info.lookup_token);
  return response;
}

template <class Response>
void AddBlock(ReplyBlock block, Response& response, wire::OutBulk& blocks) {
  for (v1::Run& run : block.runs) *response.add_runs() = std::move(run);
  const absl::string_view bytes(static_cast<const char*>(block.data), static_cast<size_t>(block.bytes));
  if (!bytes.empty()) blocks.pieces.push_back({bytes, std::move(block.owner)});
}

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& response, wire::OutBulk blocks, SliceLedger& ledger) {
  std::vector<wire::OutBulk> bulk;
  bulk.push_back(std::move(blocks));
  return ToByteBuffer(wire::EncodeBulkMessage(response, bulk), ledger);
}

}  // namespace

absl::StatusOr<std::shared_ptr<LookupFlow>> LookupCall::BeginFlow(const v1::LookupHeader& header) {
  return LookupFlow::Begin(*core().flows, header);
}

absl::Status LookupCall::CheckComplete(const LookupFlow& flow) const {
  return CheckPayload(static_cast<size_t>(flow.reply_bytes()), core().max_unary_bytes, "the reply of Lookup");
}

void LookupCall::Run(std::shared_ptr<LookupFlow> flow, StartQueue::Slot slot) {
  flow->Start([](int) {},
              [self = shared_from_this(), slot = std::move(slot)](absl::Status status) mutable {
                slot.reset();
                self->Computed(status);
              });
}

void LookupCall::Computed(const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  const std::shared_ptr<LookupFlow> flow = this->flow();
  // A cancelled flow may have left out blocks; whoever cancels it closes the call first.
  if (flow == nullptr || !ClaimFinish()) return;
  auto response = ResponseOf<v1::LookupResponse>(flow->reply_info());
  wire::OutBulk blocks{.index = wire::kBlocks, .pieces = {}};
  for (int i = 0; i < flow->block_count(); ++i) AddBlock(flow->TakeBlock(i), response, blocks);
  *reply_ = Encode(response, std::move(blocks), *core().slices);
  Finish(grpc::Status::OK);
}

absl::StatusOr<std::shared_ptr<LookupFlow>> LookupStreamCall::BeginFlow(const v1::LookupHeader& header) {
  return LookupFlow::Begin(*core().flows, header);
}

void LookupStreamCall::Run(std::shared_ptr<LookupFlow> flow, StartQueue::Slot slot) {
  {
    MutexLock lock(&ready_mu_);
    blocks_left_ = flow->block_count();
  }
  flow->Start([self = shared_from_this()](int index) { self->BlockReady(index); },
              [self = shared_from_this(), slot = std::move(slot)](absl::Status status) mutable {
                slot.reset();
                self->Computed(status);
              });
}

void LookupStreamCall::BlockReady(int index) {
  {
    MutexLock lock(&ready_mu_);
    ready_.push_back(index);
    if (writing_) return;
    writing_ = true;
  }
  WriteNext();
}

void LookupStreamCall::Computed(const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  {
    MutexLock lock(&ready_mu_);
    computed_ = true;
    if (writing_) return;
    writing_ = true;
  }
  WriteNext();
}

// Called by whoever set writing_, and by the completion of each write. The last block waits for the flow's end, since
// its frame also carries what is known only then; a reply without blocks is one frame as well.
void LookupStreamCall::WriteNext() {
  int index = -1;
  bool last = false;
  {
    MutexLock lock(&ready_mu_);
    last = blocks_left_ <= 1;
    if ((last && !computed_) || (ready_.empty() && blocks_left_ > 0)) {
      writing_ = false;
      return;
    }
    if (!ready_.empty()) {
      index = ready_.front();
      ready_.pop_front();
      --blocks_left_;
    }
  }
  WriteBlock(index, last);
}

// Writes on this thread as far as the socket has room; never waits for the reader.
void LookupStreamCall::WriteBlock(int index, bool last) {
  const std::shared_ptr<LookupFlow> flow = this->flow();
  if (flow == nullptr) return;
  auto response = ResponseOf<v1::LookupStreamResponse>(flow->reply_info());
  wire::OutBulk blocks{.index = wire::kBlocks, .pieces = {}};
  if (index >= 0) AddBlock(flow->TakeBlock(index), response, blocks);
  if (last ? !ClaimFinish() : !BeginOperation()) return;
  outgoing_ = Encode(response, std::move(blocks), *core().slices);
  if (last) {
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    StartWrite(&outgoing_);
  }
}

void LookupStreamCall::OnWriteDone(bool ok) {
  outgoing_.Clear();
  if (!EndOperation()) return;
  if (!ok) return Fail(absl::CancelledError("the peer went away"));
  WriteNext();
}

}  // namespace embps
