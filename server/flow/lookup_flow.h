// One Lookup, unary or streamed, without gRPC:
//   Begin (header) -> admit admission_bytes() -> Admitted -> Append (every frame) until complete() -> Start -> blocks,
//   done.
// A flow destroyed before Start has changed nothing. After Start it runs out; Cancel only saves work.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/bulk_message.h"
#include "server/flow/core.h"
#include "server/sequencer/sequencer.h"

namespace embps {

// One reply frame: `bytes` at `data` are the blocks of `runs` one after another.
struct ReplyBlock {
  std::vector<v1::Run> runs;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<void> owner;  // keeps data and the admission alive; release it when gRPC let go of the last byte
};

// The small fields of a reply; complete once done(OK) was called, all but lookup_token also before the first block.
struct LookupReplyInfo {
  uint64_t server_incarnation = 0;
  uint64_t version = 0;  // pushes ticketed before this lookup
  uint64_t dropped_ids = 0;
  uint64_t pruned_ids = 0;
  std::string lookup_token;  // 16 bytes or empty
};

class LookupFlow : public Flow {
 public:
  // Called with the index of a block that may be taken, in order of readiness, never two calls at once. On lane or
  // worker threads; must not block.
  using BlockReady = absl::AnyInvocable<void(int index)>;
  using Done = absl::AnyInvocable<void(absl::Status) &&>;

  // Checks the header: tables, versions, incarnation, sizes. Allocates nothing that grows with the batch.
  static absl::StatusOr<std::shared_ptr<LookupFlow>> Begin(Core& core, const v1::LookupHeader& header);

  // Decoded input, exchange and the whole reply; an upper bound, known from the header alone.
  virtual int64_t admission_bytes() const = 0;
  // Takes the admission along and allocates the input. `grant` may be null.
  virtual absl::Status Admitted(std::shared_ptr<void> grant) = 0;
  // Decodes and validates one frame; the views of `frame` are not kept. After an error the flow is only good for
  // destruction.
  virtual absl::Status Append(const wire::BulkMessage& frame) = 0;
  virtual bool complete() const = 0;
  // Names what has not arrived; OK when complete(). Only after Admitted.
  virtual absl::Status CheckComplete() const = 0;

  // From complete() on: the blocks of the reply, in reply order, and their payload together.
  virtual int block_count() const = 0;
  virtual int64_t reply_bytes() const = 0;

  // Only when complete(). Takes the ticket and returns at once. Every block is announced by block_ready unless the flow
  // was cancelled or failed, then done(status) is called once.
  virtual void Start(BlockReady block_ready, Done done) = 0;
  // Only after block_ready(index), or, for all blocks, after done(OK). Each block may be taken once.
  virtual ReplyBlock TakeBlock(int index) = 0;
  virtual LookupReplyInfo reply_info() const = 0;
  // Blocks not yet computed may be left out. Any thread, any time; done is called all the same.
  virtual void Cancel() = 0;
};

}  // namespace embps
