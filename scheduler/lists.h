// Many short lists in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace serval {

template <class T>
class Lists {
 public:
  Lists() = default;
  explicit Lists(const std::vector<std::vector<T>>& lists) {
    size_t items = 0;
    for (const std::vector<T>& list : lists) items += list.size();
    reserve(lists.size(), items);
    for (const std::vector<T>& list : lists) add(list);
  }
  // Lists of so many items, each T().
  static Lists of_sizes(std::span<const uint32_t> sizes) {
    Lists out;
    out.ends_.reserve(sizes.size());
    size_t end = 0;
    for (const uint32_t size : sizes) out.ends_.push_back(end += size);
    out.items_.resize(end);
    return out;
  }

  void reserve(size_t lists, size_t items) {
    ends_.reserve(lists);
    items_.reserve(items);
  }
  // Returns the list added, until another is.
  std::span<T> add(std::span<const T> list) {
    items_.insert(items_.end(), list.begin(), list.end());
    ends_.push_back(items_.size());
    return std::span(items_).last(list.size());
  }

  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::span<const T> operator[](size_t list) const {
    return std::span(items_).subspan(begin(list), length(list));
  }
  std::span<T> operator[](size_t list) { return std::span(items_).subspan(begin(list), length(list)); }

  friend bool operator==(const Lists&, const Lists&) = default;

 private:
  size_t begin(size_t list) const { return list == 0 ? 0 : ends_[list - 1]; }
  size_t length(size_t list) const { return ends_[list] - begin(list); }

  std::vector<size_t> ends_;
  std::vector<T> items_;
};

}  // namespace serval
