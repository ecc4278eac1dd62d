#include "scheduler/coverage.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

bool touch(uint64_t begin, uint64_t end, uint64_t other_begin, uint64_t other_end) {
  return begin <= other_end && other_begin <= end;
}

// Grows `box` by `other` if both together are a box.
bool merge(Box& box, const Box& other) {
  if (box.row_begin == other.row_begin && box.row_end == other.row_end &&
      touch(box.col_begin, box.col_end, other.col_begin, other.col_end)) {
    box.col_begin = std::min(box.col_begin, other.col_begin);
    box.col_end = std::max(box.col_end, other.col_end);
    return true;
  }
  if (box.col_begin == other.col_begin && box.col_end == other.col_end &&
      touch(box.row_begin, box.row_end, other.row_begin, other.row_end)) {
    box.row_begin = std::min(box.row_begin, other.row_begin);
    box.row_end = std::max(box.row_end, other.row_end);
    return true;
  }
  return false;
}

}  // namespace

void Coverage::add(const Region& region) {
  OfTensor& tensor = tensors_[region.tensor.index];
  if (is_dealt(region.part)) return add_share(tensor, region);
  add_part(tensor, region.part, region.layout, region.box);
}

void Coverage::add_part(OfTensor& tensor, Part part, uint32_t layout, const Box& added) {
  std::vector<OfPart>& parts = tensor.parts;
  auto found = std::find_if(parts.begin(), parts.end(),
                            [&](const OfPart& p) { return p.part == part && p.layout == layout; });
  if (found == parts.end()) found = parts.insert(parts.end(), {part, layout, {}});
  std::vector<Box>& boxes = found->boxes;
  Box box = added;
  for (size_t i = 0; i < boxes.size();) {
    if (boxes[i].contains(box)) return;
    if (!merge(box, boxes[i])) {
      ++i;
      continue;
    }
    boxes[i] = boxes.back();
    boxes.pop_back();
    i = 0;  // what did not fit before may fit now
  }
  boxes.push_back(box);
}

void Coverage::add_share(OfTensor& tensor, const Region& region) {
  const auto find = [&](Part part) {
    return std::find_if(tensor.deals.begin(), tensor.deals.end(), [&](const Deal& d) {
      return d.region.part == part && d.region.layout == region.layout && d.region.box == region.box;
    });
  };
  auto deal = find(region.part);
  if (deal == tensor.deals.end())
    deal = tensor.deals.insert(deal, {region, region.layout, std::vector<bool>(region.layout)});
  if (deal->has[region.share]) return;
  deal->has[region.share] = true;
  if (--deal->missing > 0) return;
  if (region.part == Part::kItemPlaces) return add_part(tensor, region.part, region.layout, region.box);
  if (region.part == Part::kDealtRows) return add_part(tensor, Part::kActiveRows, 0, region.box);
  const auto rest = find(region.part == Part::kItemRows ? Part::kSplitRows : Part::kItemRows);
  if (rest != tensor.deals.end() && rest->missing == 0) add_part(tensor, Part::kActiveRows, 0, region.box);
}

void Coverage::subtract_from(std::vector<Box>& boxes, const Region& region) const {
  for (const OfPart& written : tensors_[region.tensor.index].parts) {
    if (!includes(written.part, region.part)) continue;
    if (written.part == region.part && written.layout != region.layout) continue;
    for (const Box& box : written.boxes) {
      if (boxes.empty()) return;
      subtract(boxes, box);
    }
  }
}

}  // namespace serval
