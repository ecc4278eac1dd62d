// Names of enumerators, listed once: printing, parsing and help texts take them from the same table.
//
//   enum class QueueKind : uint8_t { kPerSm, kGlobal };
//   template <>
//   struct EnumNames<QueueKind> {
//     static constexpr EnumName<QueueKind> kTable[] = {{QueueKind::kPerSm, "per-sm"}, …};
//   };
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

namespace serval {

template <class E>
struct EnumName {
  E value;
  const char* name;
};

// Specialise it beside each enumeration with public names. The table lists each enumerator and each name
// once.
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = std::is_array_v<decltype(EnumNames<E>::kTable)>;

// "?" for a value that is not in the table.
template <NamedEnum E>
constexpr const char* name_of(E value) {
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

template <NamedEnum E>
constexpr std::optional<E> enumerator_named(std::string_view name) {
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

// All enumerators, in the order of the table.
template <NamedEnum E>
constexpr auto enumerators() {
  std::array<E, std::size(EnumNames<E>::kTable)> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = EnumNames<E>::kTable[i].value;
  return values;
}
template <NamedEnum E>
constexpr auto enumerator_names() {
  std::array<std::string_view, std::size(EnumNames<E>::kTable)> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = EnumNames<E>::kTable[i].name;
  return names;
}

}  // namespace serval
