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

  // Changes whenever find() may have another answer than before.
  uint64_t changes_of(TensorId tensor) const { return tensors_[tensor.index].changes; }

  // `region` is written, whatever was there is gone: all of its part has the value then if the write is
  // certain, and none has one otherwise. Of a part that is dealt out, a box has the value when all its shares
  // have been written with the same one; what items have to themselves and what they share are all active
  // rows together, which have either value.
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
    uint64_t changes = 0;
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
