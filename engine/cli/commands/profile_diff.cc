// serval profile diff: shows what became slower between two traces, for people and for CI.
#include "fmt/format.h"

#include "engine/cli/commands/profile.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/html/html.h"
#include "profiler/report/diff.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval profile diff before.json.gz after.json.gz\n"
    "  serval profile diff before.json.gz after.json.gz --fail-above 3% --json\n"
    "  serval profile diff before.json.gz after.json.gz --html both.html\n";

constexpr int kSlower = 1;
constexpr float kMaxPercent = 1e6;
constexpr double kPercent = 100;

struct Flags {
  std::vector<std::string> traces;
  std::optional<double> fail_above;  // a fraction
  std::string html_file;
  OutputFlags output;

  void declare(FlagSet& set);
};

// "3%" or "3".
double parse_percent(FlagValue value) {
  if (value.text.ends_with('%')) value.text.pop_back();
  return double{parse_real(value, 0, kMaxPercent)} / kPercent;
}

void Flags::declare(FlagSet& set) {
  const auto add = [this](const FlagValue& v) { traces.push_back(parse_text(v)); };
  set.positional("BEFORE", "a trace file", add);
  set.positional("AFTER", "a trace file", add);
  set.value("--fail-above", "PERCENT", "exit with 1 if a token takes more than PERCENT longer than before",
            [this](const FlagValue& v) { fail_above = parse_percent(v); });
  set.value("--html", "FILE", "write a page with both traces side by side",
            [this](const FlagValue& v) { html_file = parse_text(v); });
  output.declare(set, "print one JSON object");
  set.examples(kExamples);
}

int diff(const Flags& flags) {
  const Trace before = read_trace(flags.traces[0]), after = read_trace(flags.traces[1]);
  const Report before_report = report_of(before), after_report = report_of(after);
  const TraceDiff diff = diff_of(before_report, after_report);
  if (!flags.html_file.empty()) {
    const HtmlTrace pages[] = {{flags.traces[0], before, before_report},
                               {flags.traces[1], after, after_report}};
    write_html(pages, flags.html_file);
    log_info(flags.html_file + ": written; open it in a browser");
  }
  write_stdout(flags.output.json ? to_json(diff) + '\n' : to_text(diff));
  if (!flags.fail_above || diff.slower() <= *flags.fail_above) return 0;
  log_error(fmt::format("a token takes {:.2f} % longer; limit: {:.2f} %", kPercent * diff.slower(),
                        kPercent * *flags.fail_above));
  return kSlower;
}

}  // namespace

int run_profile_diff(const Arguments& arguments) {
  Flags flags;
  FlagSet set("profile diff", "Compares two traces: which ops and states got slower or faster.",
              "BEFORE AFTER [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  if (flags.traces.size() != 2)
    throw Error(ErrorKind::kUsage,
                fmt::format("trace files: {}; expected 2{}", flags.traces.size(), set.see_help()));
  return diff(flags);
}

}  // namespace serval::cli
