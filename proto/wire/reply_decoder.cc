#include "proto/wire/reply_decoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/checked_copy.h"
#include "proto/wire/request_checks.h"

namespace embps::wire {
namespace {

absl::Status BadReply(absl::string_view what) {
  return MakeErrorWithCode(absl::StatusCode::kInternal, Reason::kMalformed, absl::StrCat("reply: ", what));
}

// Which rows of a feature have arrived: disjoint intervals [begin, end), adjacent ones merged.
class RowSet {
 public:
  // False, and nothing added, if a row of [begin, end) is there already.
  bool Add(int64_t begin, int64_t end) {
    if (begin == end) return true;
    auto next = intervals_.lower_bound(begin);
    if (next != intervals_.end() && next->first < end) return false;
    const bool has_before = next != intervals_.begin();
    auto before = has_before ? std::prev(next) : next;
    if (has_before && before->second > begin) return false;
    count_ += end - begin;
    if (next != intervals_.end() && next->first == end) {
      end = next->second;
      next = intervals_.erase(next);
    }
    if (has_before && before->second == begin) {
      before->second = end;
    } else {
      intervals_.emplace_hint(next, begin, end);
    }
    return true;
  }
  int64_t count() const { return count_; }

 private:
  std::map<int64_t, int64_t> intervals_;
  int64_t count_ = 0;
};

// Reads blocks that may be cut anywhere.
class BlockReader {
 public:
  explicit BlockReader(const BulkSpans& spans) : spans_(spans) {}

  void CopyBlock(size_t rows, size_t row_bytes, size_t stride_bytes, bool streaming_stores, char* out) {
    while (rows > 0) {
      SkipEmpty();
      const absl::string_view part = spans_.parts[part_].substr(used_);
      if (const size_t whole = std::min(rows, part.size() / row_bytes); whole > 0) {
        CopyRows(part.data(), whole, row_bytes, stride_bytes, streaming_stores, out);
        used_ += whole * row_bytes;
        rows -= whole;
        out += whole * stride_bytes;
      } else {
        CopyCutRow(row_bytes, out);
        --rows;
        out += stride_bytes;
      }
    }
  }

 private:
  void SkipEmpty() {
    while (used_ == spans_.parts[part_].size()) ++part_, used_ = 0;
  }
  void CopyCutRow(size_t row_bytes, char* out) {
    for (size_t done = 0; done < row_bytes;) {
      SkipEmpty();
      const size_t n = std::min(row_bytes - done, spans_.parts[part_].size() - used_);
      std::memcpy(out + done, spans_.parts[part_].data() + used_, n);
      done += n;
      used_ += n;
    }
  }

  const BulkSpans& spans_;
  size_t part_ = 0, used_ = 0;
};

}  // namespace

class ReplyDecoder::Impl {
 public:
  Impl(std::vector<OutputFeature> features, const ReplyOptions& options)
      : features_(std::move(features)),
        item_bytes_(static_cast<size_t>(DataTypeBytes(options.output_dtype))),
        streaming_stores_(options.streaming_stores),
        arrived_(features_.size()) {}

  template <class Response>
  absl::Status Append(const Response& header, const BulkMessage& message) {
    EMBPS_RETURN_IF_ERROR(CheckRuns(header, message.bulk(kBlocks).bytes));
    BlockReader reader(message.bulk(kBlocks));
    for (const v1::Run& run : header.runs()) {
      for (size_t f = run.first_feature(); f < size_t{run.first_feature()} + run.feature_count(); ++f) {
        const OutputFeature& feature = features_[f];
        auto* out = static_cast<char*>(feature.out) + static_cast<int64_t>(run.row_begin()) * feature.row_stride_bytes;
        reader.CopyBlock(run.row_count(), static_cast<size_t>(feature.dim) * item_bytes_,
                         static_cast<size_t>(feature.row_stride_bytes), streaming_stores_, out);
      }
    }
    if (streaming_stores_) FlushStores();
    return absl::OkStatus();
  }

  absl::Status CheckComplete() const {
    for (size_t f = 0; f < features_.size(); ++f) {
      if (arrived_[f].count() == features_[f].row_count) continue;
      return BadReply(
          absl::StrCat(arrived_[f].count(), " of ", features_[f].row_count, " rows of feature ", f, " arrived"));
    }
    return absl::OkStatus();
  }

 private:
  // Nothing is written unless all runs of a message are sound.
  template <class Response>
  absl::Status CheckRuns(const Response& header, size_t bytes) {
    uint64_t elements = 0;
    const uint64_t max_elements = bytes / item_bytes_;
    for (const v1::Run& run : header.runs()) {
      EMBPS_RETURN_IF_ERROR(CheckRun(run));
      if (run.dim() == 0 || run.row_count() == 0 || run.feature_count() == 0) continue;
      elements += run.row_count() * run.feature_count() * run.dim();  // each factor bounded by CheckRun
      if (elements > max_elements) break;
    }
    if (elements * item_bytes_ == bytes) return absl::OkStatus();
    return BadReply(absl::StrCat("blocks of ", bytes, " bytes do not hold the ", elements, " elements of the runs"));
  }

  absl::Status CheckRun(const v1::Run& run) {
    const uint64_t end = uint64_t{run.first_feature()} + run.feature_count();
    if (end > features_.size()) {
      return BadReply(absl::StrCat("features ", run.first_feature(), " to ", end, " of ", features_.size()));
    }
    for (size_t f = run.first_feature(); f < end; ++f) {
      const auto rows = static_cast<uint64_t>(features_[f].row_count);
      if (run.row_begin() > rows || run.row_count() > rows - run.row_begin()) {
        return BadReply(
            absl::StrCat("rows ", run.row_begin(), " + ", run.row_count(), " of feature ", f, ", which has ", rows));
      }
      if (run.dim() != static_cast<uint32_t>(features_[f].dim)) {
        return BadReply(absl::StrCat("dim ", run.dim(), " of feature ", f, ", which has ", features_[f].dim));
      }
      const auto begin = static_cast<int64_t>(run.row_begin());
      const int64_t row_end = begin + static_cast<int64_t>(run.row_count());
      if (!arrived_[f].Add(begin, row_end)) {
        return BadReply(absl::StrCat("rows ", begin, " to ", row_end, " of feature ", f, " came twice"));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<OutputFeature> features_;
  const size_t item_bytes_;
  const bool streaming_stores_;
  std::vector<RowSet> arrived_;  // per feature
};

ReplyDecoder::ReplyDecoder(std::vector<OutputFeature> features, const ReplyOptions& options)
    : impl_(std::make_unique<Impl>(std::move(features), options)) {}
ReplyDecoder::~ReplyDecoder() = default;
ReplyDecoder::ReplyDecoder(ReplyDecoder&&) noexcept = default;
ReplyDecoder& ReplyDecoder::operator=(ReplyDecoder&&) noexcept = default;

absl::Status ReplyDecoder::Append(const v1::LookupResponse& header, const BulkMessage& message) {
  return impl_->Append(header, message);
}
absl::Status ReplyDecoder::Append(const v1::LookupStreamResponse& header, const BulkMessage& message) {
  return impl_->Append(header, message);
}
bool ReplyDecoder::complete() const { return impl_->CheckComplete().ok(); }
absl::Status ReplyDecoder::CheckComplete() const { return impl_->CheckComplete(); }

}  // namespace embps::wire
