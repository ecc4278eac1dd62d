#include "scheduler/contents.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

// The area that two overlapping boxes share.
uint64_t shared_area(const Box& a, const Box& b) {
  return area({std::max(a.row_begin, b.row_begin), std::min(a.row_end, b.row_end),
               std::max(a.col_begin, b.col_begin), std::min(a.col_end, b.col_end)});
}

template <class A>
bool same_part(const A& a, const Region& b) {
  return a.box == b.box && a.part == b.part && a.layout == b.layout;
}

// True if, where the boxes overlap, the written part includes the part that is read.
template <class Written>
bool covers(const Written& written, const Region& read) {
  if (written.part == read.part) return written.layout == read.layout;
  return includes(written.part, read.part);
}

constexpr Box kEverywhere{0, ~uint64_t{0}, 0, ~uint64_t{0}};

}  // namespace

Contents::Found Contents::find(const Region& region) {
  TensorContents& tensor = tensors_[region.tensor.index];
  for (const Read& read : tensor.reads) {
    if (same_part(read, region)) return {.value = read.value};
  }
  Found out{.nothing_written = true};
  uint64_t left = area(region.box);
  Value value = kNoValue;
  size_t pieces = 0;
  std::optional<Piece> one;  // the first piece, if all have its part and layout
  tensor.pieces.for_overlapping(region.box, [&](const Piece& piece) {
    out.nothing_written = false;
    if (!covers(piece, region)) return;
    left -= shared_area(piece.box, region.box);
    if (++pieces == 1) one = piece;
    if (one && (one->part != piece.part || one->layout != piece.layout)) one.reset();
    if (value == kNoValue) {
      value = piece.value;
      out.one = piece.writer;
    } else if (piece.value != value) {
      out.other = piece.writer;
    }
  });
  if (left > 0 || out.other != Found::kNone) return out;
  out.value = value;
  // Merge many pieces into one, so that the next reads are fast.
  constexpr size_t kMostPieces = 1024;
  if (pieces > kMostPieces && one) {
    clear(tensor, region.box);
    one->box = region.box;
    add(tensor, *one);
  }
  keep_read(tensor, region, value);
  return out;
}

void Contents::keep_read(TensorContents& tensor, const Region& read, Value value) {
  const Read kept{read.box, read.part, read.layout, value};
  if (tensor.reads.size() < kReadsKept) {
    tensor.reads.push_back(kept);
  } else {
    tensor.reads[tensor.oldest_read++ % kReadsKept] = kept;
  }
}

std::optional<Box> Contents::uncovered(const Region& region) const {
  std::vector<Box> left = {region.box};
  tensors_[region.tensor.index].pieces.for_overlapping(region.box, [&](const Piece& piece) {
    if (covers(piece, region)) subtract(left, piece.box);
  });
  return left.empty() ? std::nullopt : std::optional(left.front());
}

std::optional<uint32_t> Contents::writer(const Region& region) const {
  std::optional<uint32_t> found;
  tensors_[region.tensor.index].pieces.for_overlapping(region.box,
                                                       [&](const Piece& piece) { found = piece.writer; });
  return found;
}

void Contents::clear(TensorContents& tensor, const Box& box) {
  ++tensor.changes;
  tensor.reads.clear();
  tensor.pieces.carve(box, 0);
}

// Each layer writes a tensor in the same division: then only the value changes.
void Contents::add(TensorContents& tensor, const Piece& piece) {
  ++tensor.changes;
  tensor.reads.clear();
  Piece* const same = tensor.pieces.find(piece.box, [](const Piece&) { return true; });
  if (same != nullptr) {
    *same = piece;
    return;
  }
  tensor.pieces.carve(piece.box, 0);
  tensor.pieces.add(piece);
}

void Contents::write(const Region& region, Value value, uint32_t instruction) {
  TensorContents& tensor = tensors_[region.tensor.index];
  if (is_divided(region.part) && region.certain) return write_share(tensor, region, value, instruction);
  std::erase_if(tensor.divisions,
                [&](const Division& division) { return division.region.box.overlaps(region.box); });
  if (!region.certain) return clear(tensor, region.box);
  add(tensor, {region.box, 0, region.part, region.layout, value, instruction});
}

Contents::Division& Contents::division_of(TensorContents& tensor, const Region& region) {
  const auto found =
      std::ranges::find_if(tensor.divisions, [&](const Division& d) { return same_part(d.region, region); });
  return found != tensor.divisions.end() ? *found : tensor.divisions.emplace_back(Division{region});
}

// A layer writes kItemRows, then kSplitRows. So a new division of kItemRows also restarts kSplitRows. A new
// division of kSplitRows restarts kItemRows only if both were complete: then the next layer has begun.
void Contents::write_share(TensorContents& tensor, const Region& region, Value value, uint32_t instruction) {
  const bool of_items = region.part == Part::kItemRows || region.part == Part::kSplitRows;
  Region rest = region;
  rest.part = region.part == Part::kItemRows ? Part::kSplitRows : Part::kItemRows;
  if (of_items) division_of(tensor, rest);  // adds it, before references to divisions are taken
  Division& division = division_of(tensor, region);
  Division* const partner = of_items ? &division_of(tensor, rest) : nullptr;
  if (division.count == 0 || division.written[region.share] || division.value != value) {
    const bool both = partner != nullptr &&
                      (region.part == Part::kItemRows || (division.is_complete() && partner->is_complete()));
    if (both) partner->count = 0;
    for (Division& other : tensor.divisions) {
      if (&other != &division && &other != partner && other.region.box.overlaps(region.box)) other.count = 0;
    }
    clear(tensor, region.box);
    division.count = 0;
    division.value = value;
    division.written.assign(region.layout, false);
  }
  division.written[region.share] = true;
  ++division.count;
  if (!division.is_complete() || (partner != nullptr && !partner->is_complete())) return;
  Piece piece{region.box, 0, Part::kActiveRows, 0, value, instruction};
  if (region.part == Part::kItemPlaces) {
    piece.part = region.part;
    piece.layout = region.layout;
  }
  if (region.part == Part::kItemRows) piece.value = values_->either(value, partner->value);
  if (region.part == Part::kSplitRows) piece.value = values_->either(partner->value, value);
  add(tensor, piece);
}

bool Contents::same_as(TensorId tensor, Contents& there, TensorId other) {
  const auto all_there = [](const Contents& a, TensorId of_a, Contents& b, TensorId of_b) {
    bool same = true;
    a.tensors_[of_a.index].pieces.for_overlapping(kEverywhere, [&](const Piece& piece) {
      const Region region{.tensor = of_b, .box = piece.box, .part = piece.part, .layout = piece.layout};
      same = same && b.find(region).value == piece.value;
    });
    return same;
  };
  return all_there(*this, tensor, there, other) && all_there(there, other, *this, tensor);
}

}  // namespace serval
