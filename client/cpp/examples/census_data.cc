#include "client/cpp/examples/census_data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/examples/random_bits.h"
#include "proto/base/status_macros.h"

namespace embps::examples {
namespace {

enum class Kind { kCategory, kNumber };
struct Column {
  int index;
  const char* name;
  Kind kind;
};
constexpr auto kColumns = std::to_array<Column>({
    {0, "age", Kind::kNumber},
    {1, "workclass", Kind::kCategory},
    {3, "education", Kind::kCategory},
    {5, "marital", Kind::kCategory},
    {6, "occupation", Kind::kCategory},
    {7, "relationship", Kind::kCategory},
    {10, "capital_gain", Kind::kNumber},
    {11, "capital_loss", Kind::kNumber},
    {12, "hours", Kind::kNumber},
    {13, "country", Kind::kCategory},
});
constexpr int kFields = 15, kLabel = 14, kHoldOutEvery = 5;
constexpr int kQuantiles = 64;

using Line = std::vector<std::string>;

absl::StatusOr<std::vector<Line>> ReadLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::vector<Line> lines;
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    if (absl::StripAsciiWhitespace(text).empty()) continue;
    Line line;
    for (absl::string_view field : absl::StrSplit(text, ',')) line.emplace_back(absl::StripAsciiWhitespace(field));
    if (line.size() != kFields) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", number, ": ", line.size(), " fields, expected ", kFields));
    }
    for (const Column& column : kColumns) {
      double value;
      if (column.kind == Kind::kNumber && !absl::SimpleAtod(line[column.index], &value)) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, " line ", number, ": ", column.name, " is not a number: ", line[column.index]));
      }
    }
    lines.push_back(std::move(line));
  }
  if (lines.size() < 100) return absl::InvalidArgumentError(absl::StrCat(path, ": fewer than 100 samples"));
  return lines;
}

bool IsHeldOut(size_t line) { return line % kHoldOutEvery == 0; }

double Number(const Line& line, int index) {
  double value = 0;
  (void)absl::SimpleAtod(line[index], &value);  // ReadLines has checked it
  return value;
}

// Distinct quantiles of the training lines, ascending; bucket = number of edges <= value.
std::vector<double> BucketEdges(const std::vector<Line>& lines, int index) {
  std::vector<double> values;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!IsHeldOut(i)) values.push_back(Number(lines[i], index));
  }
  std::sort(values.begin(), values.end());
  std::vector<double> edges;
  for (int q = 1; q < kQuantiles; ++q) edges.push_back(values[values.size() * q / kQuantiles]);
  // Values that most samples share hide the rest: add the quantiles of what differs from the commonest.
  const double common = values[values.size() / 2];
  std::erase(values, common);
  for (int q = 0; q < kQuantiles / 2 && !values.empty(); ++q)
    edges.push_back(values[values.size() * q / (kQuantiles / 2)]);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CensusData>> CensusData::Load(const std::string& path) {
  EMBPS_ASSIGN_OR_RETURN(const std::vector<Line> lines, ReadLines(path));
  auto data = std::unique_ptr<CensusData>(new CensusData);
  std::vector<Sample> samples(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) samples[i].label = lines[i][kLabel].find(">50K") != std::string::npos;
  for (const Column& column : kColumns) {
    int64_t rows = 0;
    if (column.kind == Kind::kNumber) {
      const std::vector<double> edges = BucketEdges(lines, column.index);
      rows = static_cast<int64_t>(edges.size()) + 1;
      for (size_t i = 0; i < lines.size(); ++i) {
        samples[i].ids.push_back(std::upper_bound(edges.begin(), edges.end(), Number(lines[i], column.index)) -
                                 edges.begin());
      }
    } else {
      std::map<std::string, int64_t>
          vocabulary;  // of all lines: a category seen only in held-out lines keeps its initial row
      for (size_t i = 0; i < lines.size(); ++i) {
        const auto next = static_cast<int64_t>(vocabulary.size());
        samples[i].ids.push_back(vocabulary.try_emplace(lines[i][column.index], next).first->second);
      }
      rows = static_cast<int64_t>(vocabulary.size());
    }
    data->features_.push_back({column.name, rows});
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    (IsHeldOut(i) ? data->held_out_ : data->training_).push_back(std::move(samples[i]));
  }
  return data;
}

Batch CensusData::Make(const std::vector<const Sample*>& samples) const {
  Batch batch;
  batch.size = static_cast<int64_t>(samples.size());
  batch.lengths.assign(features_.size() * samples.size(), 1);
  for (size_t f = 0; f < features_.size(); ++f) {
    for (const Sample* sample : samples) batch.ids.push_back(sample->ids[f]);
  }
  for (const Sample* sample : samples) batch.labels.push_back(sample->label);
  return batch;
}

// Each epoch is a permutation of the training samples: index = (a * i + b) mod n with a coprime to n.
Batch CensusData::Training(int64_t step, int64_t batch_size) const {
  const auto count = static_cast<uint64_t>(training_.size());
  std::vector<const Sample*> samples;
  for (int64_t i = 0; i < batch_size; ++i) {
    const auto position = static_cast<uint64_t>(step * batch_size + i);
    const uint64_t epoch = position / count;
    uint64_t factor = Mix(epoch) % count | 1;
    while (std::gcd(factor, count) != 1) factor += 2;
    const uint64_t index = (factor % count * (position % count) + Mix(~epoch) % count) % count;
    samples.push_back(&training_[index]);
  }
  return Make(samples);
}

Batch CensusData::HeldOut() const {
  std::vector<const Sample*> samples;
  for (const Sample& sample : held_out_) samples.push_back(&sample);
  return Make(samples);
}

}  // namespace embps::examples
