#include "models/tokenizer/regex.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

#include "models/tokenizer/oniguruma/pattern.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace serval {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;
constexpr std::uint32_t kMatchLimit = 500'000;   // backtracking steps from one starting position
constexpr std::uint32_t kMatchLimitPerByte = 4;  // additional steps for each byte of the text
constexpr std::uint32_t kMaxMatchLimit = 100'000'000;
constexpr std::uint32_t kHeapLimitKiB = 256 * 1024;  // backtracking memory of one search

struct FreeCode {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;
using CompileContext = std::unique_ptr<pcre2_compile_context, FreeCompileContext>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeMatchContext>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatchData>;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kRuntime, where + ": " + what);
}

template <typename T>
T checked(T pointer) {
  if (!pointer) throw Error(ErrorKind::kOutOfMemory, "no memory for a tokenizer's regular expression");
  return pointer;
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

// A budget of CPU time: with wall time, a busy machine could turn a good text into an error. Reading a
// thread's CPU time is a system call, and CPU time never exceeds wall time, so the CPU clock is read only
// after the wall clock has exceeded the budget.
class CpuBudget {
 public:
  CpuBudget(const RegexBudget& budget, std::size_t bytes) : clock_(budget.clock) {
    const double seconds = budget.seconds + budget.seconds_per_byte * static_cast<double>(bytes);
    const std::chrono::duration<double> wall(seconds);
    wall_end_ = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(wall);
    cpu_end_ = clock_() + seconds;
  }
  bool spent() const { return std::chrono::steady_clock::now() > wall_end_ && clock_() > cpu_end_; }

 private:
  const std::function<double()>& clock_;
  std::chrono::steady_clock::time_point wall_end_;
  double cpu_end_;
};

std::uint32_t match_limit(std::size_t text_bytes) {
  const std::size_t more = std::min<std::size_t>(text_bytes, kMaxMatchLimit / kMatchLimitPerByte);
  return kMatchLimit + kMatchLimitPerByte * static_cast<std::uint32_t>(more);
}

std::size_t next_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + utf8_first(text.substr(at)).bytes : at + 1;
}

// Offset of the first character that begins after byte `at`.
std::size_t next_boundary(std::string_view text, std::size_t at) {
  constexpr unsigned kContinuationMask = 0xC0, kContinuationBits = 0x80;
  for (++at; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & kContinuationMask) != kContinuationBits) break;
  }
  return at;
}

}  // namespace

struct Regex::Compiled {
  Code code;
  std::string pattern;
  std::string where;
  RegexBudget budget;

  [[noreturn]] void fail_on_text(std::string_view text, std::string_view why) const {
    fail(where, fmt::format("pattern {} on a text of {} bytes: {}", in_quotes(pattern), text.size(), why));
  }
};

namespace {

// A search of one text from left to right.
class Search {
 public:
  Search(pcre2_code* code, std::string_view text, const RegexBudget& budget)
      : code_(code),
        text_(text),
        context_(checked(MatchContext(pcre2_match_context_create(nullptr)))),
        data_(checked(MatchData(pcre2_match_data_create(1, nullptr)))),
        budget_(budget, text.size()) {
    pcre2_set_match_limit(context_.get(), match_limit(text.size()));
    pcre2_set_heap_limit(context_.get(), kHeapLimitKiB);
  }

  // The first match that begins at `at` or later. nullopt if there is none, or if error() is not empty.
  std::optional<TextSpan> next(std::size_t at) {
    while (at <= text_.size()) {
      if (budget_.spent()) {
        error_ = "takes too much time";
        return std::nullopt;
      }
      const std::size_t last_start = at + Regex::kSearchWindow - 1;
      pcre2_set_offset_limit(context_.get(), last_start);
      const int found = match(at);
      if (found >= 0) {
        const std::size_t* span = pcre2_get_ovector_pointer(data_.get());
        return TextSpan{span[0], span[1]};
      }
      if (found != PCRE2_ERROR_NOMATCH) {
        error_ = message_of(found);
        return std::nullopt;
      }
      at = next_boundary(text_, last_start);
    }
    return std::nullopt;
  }

  const std::string& error() const { return error_; }

 private:
  int match(std::size_t at) {
    const int found = run(at);
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    options_ |= PCRE2_NO_JIT;  // the interpreter backtracks on the heap, which is larger than the JIT stack
    return run(at);
  }

  int run(std::size_t at) {
    return pcre2_match(code_, units(text_), text_.size(), at, options_, data_.get(), context_.get());
  }

  pcre2_code* code_;
  std::string_view text_;
  MatchContext context_;
  MatchData data_;
  CpuBudget budget_;
  std::uint32_t options_ = PCRE2_NO_UTF_CHECK;
  std::string error_;
};

}  // namespace

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  constexpr double kNanosecond = 1e-9;
  return static_cast<double>(now.tv_sec) + kNanosecond * static_cast<double>(now.tv_nsec);
}

std::string unicode_version() {
  std::array<char, 32> text{};  // more than PCRE2 needs
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, text.data());
  return text.data();
}

Regex::Regex(std::string_view pattern, std::string where, RegexBudget budget) {
  if (pattern.size() > kMaxPatternBytes) {
    fail(where, fmt::format("a pattern of {} bytes; limit: {}", pattern.size(), kMaxPatternBytes));
  }
  const CompileContext context = checked(CompileContext(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const std::string translated = oniguruma::to_pcre2(pattern, where);
  constexpr std::uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  int error = 0;
  std::size_t offset = 0;
  Code code(pcre2_compile(units(translated), translated.size(), kOptions, &error, &offset, context.get()));
  if (!code)
    fail(where, fmt::format("pattern {} does not compile: {}", in_quotes(pattern), message_of(error)));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // if it fails, PCRE2's interpreter runs the pattern
  compiled_ = std::make_unique<const Compiled>(
      Compiled{std::move(code), std::string(pattern), std::move(where), std::move(budget)});
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::vector<TextSpan> Regex::find_all(std::string_view text) const {
  std::vector<TextSpan> matches;
  Search search(compiled_->code.get(), text, compiled_->budget);
  std::size_t at = 0;
  while (const auto match = search.next(at)) {
    if (match->end < match->begin || match->begin < at)
      compiled_->fail_on_text(text, "a match ends before it begins");
    const bool empty = match->begin == match->end;
    if (empty && !matches.empty() && matches.back().end == match->end) {
      at = next_character(text, at);  // otherwise the same empty match would be found forever
      continue;
    }
    matches.push_back(*match);
    at = match->end;
  }
  if (!search.error().empty()) compiled_->fail_on_text(text, search.error());
  return matches;
}

}  // namespace serval
