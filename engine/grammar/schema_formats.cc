#include "engine/grammar/schema_formats.h"

#include <algorithm>

namespace serval::grammar {
namespace {

struct Format {
  std::string_view name, pattern;
};

// RFC 3339 for the years 1000 to 2999, which all libraries support, without 29 February and leap seconds.
#define SERVAL_DATE                                                                                         \
  "[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[" \
  "0-9]|2[0-8]))"
#define SERVAL_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define SERVAL_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define SERVAL_HOST "([a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?\\.){1,3}[a-z]{2,8}"

constexpr Format kFormats[] = {
    {"date", "^" SERVAL_DATE "$"},
    {"time", "^" SERVAL_TIME "$"},
    {"date-time", "^" SERVAL_DATE "T" SERVAL_TIME "$"},
    // ISO 8601 in the form of RFC 3339, appendix A.
    {"duration",
     "^P([0-9]{1,4}D(T[0-9]{1,2}H([0-9]{1,2}M([0-9]{1,2}S)?)?)?|T([0-9]{1,4}H|[0-9]{1,4}M|[0-9]{1,4}S))$"},
    {"email", "^[A-Za-z0-9_+-]{1,16}(\\.[A-Za-z0-9_+-]{1,16}){0,2}@" SERVAL_HOST "$"},
    {"hostname", "^" SERVAL_HOST "$"},
    {"ipv4", "^(" SERVAL_BYTE "\\.){3}" SERVAL_BYTE "$"},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
    {"uri", "^https?://" SERVAL_HOST "(/[A-Za-z0-9_.~-]{1,24}){0,4}/?$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
};

#undef SERVAL_DATE
#undef SERVAL_TIME
#undef SERVAL_BYTE
#undef SERVAL_HOST

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  const auto* known = std::ranges::find(kFormats, format, &Format::name);
  return known == std::end(kFormats) ? std::string_view() : known->pattern;
}

std::string known_formats() {
  std::string names;
  for (const Format& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

}  // namespace serval::grammar
