// fmt's functions, compiled here once. Its header-only form compiles them in every file that formats
// something: 2.5 s a file, 60 files. Debian has fmt as a shared library, which those who link Serval would
// then need.
#include <locale>

#include "fmt/format-inl.h"

FMT_BEGIN_NAMESPACE
namespace detail {

// The templates that fmt/format.h declares but leaves to this file to instantiate.
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float);
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double);

}  // namespace detail
FMT_END_NAMESPACE
