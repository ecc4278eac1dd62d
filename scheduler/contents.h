// Tracks which value (scheduler/values.h) each part of a tensor (vm/region.h) holds, while instructions are
// visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/box_index.h"
#include "scheduler/values.h"
#include "vm/region.h"

namespace serval {

class Contents {
 public:
  Contents(size_t num_tensors, ValueTable& values) : tensors_(num_tensors), values_(&values) {}

  // Result of a read.
  struct Found {
    Value value = kNoValue;  // value of the whole region, in every state
    // If there is no value: two instructions that have written different values. If `other` is kNone, some of
    // the region is not certainly written, or a new division of it has begun.
    static constexpr uint32_t kNone = 0xffffffff;
    uint32_t one = kNone, other = kNone;
    bool nothing_written = false;  // true if no written piece overlaps the region
  };
  Found find(const Region& region);
  // A box of the region that no certain write covers; none if all of it is covered.
  std::optional<Box> uncovered(const Region& region) const;
  // An instruction that has written some of the region's box; none if no instruction has.
  std::optional<uint32_t> writer(const Region& region) const;

  // Records that an instruction writes `region`, which overwrites previous contents. If the write is certain,
  // the region's part has `value` afterwards; otherwise it has none. A divided part has the value when all
  // shares have been written with it. kItemRows and kSplitRows together are all active rows, with the value
  // ValueTable::either() of both.
  void write(const Region& region, Value value, uint32_t instruction);

  // True if `tensor` holds the same values here as `other` holds in `there`, everywhere.
  bool same_as(TensorId tensor, Contents& there, TensorId other);

 private:
  struct Piece {
    Box box;
    uint32_t time = 0;  // for BoxIndex; equal for all, since any piece may be cut
    Part part;
    uint32_t layout;
    Value value;
    uint32_t writer;
  };
  struct Division {
    Region region;       // of any share
    uint32_t count = 0;  // shares written
    Value value = kNoValue;
    std::vector<bool> written = {};  // [shares]
    bool is_complete() const { return count == region.layout; }
  };
  // A read that found a value. The tensor has not been written since.
  struct Read {
    Box box;
    Part part;
    uint32_t layout;
    Value value;
  };
  static constexpr size_t kReadsKept = 8;
  struct TensorContents {
    BoxIndex<Piece> pieces;  // they do not overlap
    std::vector<Division> divisions;
    std::vector<Read> reads;  // a ring
    size_t oldest_read = 0;
  };
  static void clear(TensorContents& tensor, const Box& box);
  static void add(TensorContents& tensor, const Piece& piece);
  static void keep_read(TensorContents& tensor, const Region& read, Value value);
  static Division& division_of(TensorContents& tensor, const Region& region);
  void write_share(TensorContents& tensor, const Region& region, Value value, uint32_t instruction);

  std::vector<TensorContents> tensors_;
  ValueTable* values_;
};

}  // namespace serval
