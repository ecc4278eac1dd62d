// Many short lists in one piece of memory.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
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
  // Makes `lists` lists from the items that for_each(add) adds by calling add(list, item), in order. Calls
  // for_each twice: the first time, it only counts the items of each list.
  template <class ForEach>
  static Lists filled(size_t lists, const ForEach& for_each) {
    Lists out;
    out.ends_.resize(lists);
    for_each([&](size_t list, const T&) { ++out.ends_[list]; });
    size_t items = 0;
    for (size_t& end : out.ends_) items += std::exchange(end, items);  // for now, where the list begins
    out.items_.resize(items);
    for_each([&](size_t list, const T& item) { out.items_[out.ends_[list]++] = item; });
    return out;
  }

  void reserve(size_t lists, size_t items) {
    ends_.reserve(lists);
    items_.reserve(items);
  }
  // Returns the added list; valid until the next add().
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
