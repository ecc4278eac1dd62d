// Which values (scheduler/values.h) the parts of tensors hold (vm/region.h), while instructions are visited.
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

  // What a read of a region finds.
  struct Found {
    Value value = kNoValue;  // one that all of it certainly has
    // With no value: two instructions that have written different ones; or nothing has certainly written some
    // of it, since when another write began anew.
    static constexpr uint32_t kNone = 0xffffffff;
    uint32_t one = kNone, other = kNone;
    bool nothing_written = false;  // of the region at all
  };
  Found find(const Region& region);
  // A box of the region that is not covered, of a region that find() has no value for.
  std::optional<Box> uncovered(const Region& region) const;
  // An instruction that has written some of the region's box, none if there is none.
  std::optional<uint32_t> writer(const Region& region) const;

  // `region` is written, whatever was there is gone: all of its part has the value then if the write is
  // certain, and none has one otherwise. Of a part that is dealt out, a box has the value when all its shares
  // have been written with the same one; what items have to themselves and what they share are all active
  // rows together, which have either value.
  void write(const Region& region, Value value, uint32_t instruction);

  // Whether a tensor here holds what another one holds there, everywhere.
  bool same_as(TensorId tensor, Contents& there, TensorId other);

 private:
  struct Piece {
    Box box;
    uint32_t time = 0;  // not used: one may be cut at any time
    Part part;
    uint32_t layout;
    Value value;
    uint32_t writer;
  };
  struct Division {
    Region region;  // of any share
    uint32_t count = 0;
    Value value = kNoValue;
    std::vector<bool> written = {};  // [shares]
    bool is_complete() const { return count == region.layout; }
  };
  // A read that had a value, since when nothing has been written.
  struct Read {
    Box box;
    Part part;
    uint32_t layout;
    Value value;
  };
  static constexpr size_t kReadsKept = 8;
  struct TensorContents {
    BoxIndex<Piece> pieces;  // which do not overlap
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
