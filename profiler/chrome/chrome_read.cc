#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/analysis/slices.h"
#include "profiler/chrome/chrome_check.h"
#include "profiler/chrome/chrome_format.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/chrome/gzip.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;

constexpr int64_t kMaxWord = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxInteger = int64_t{1} << 53;

// A list of integers, each with a meaning of its own, read from front to back.
class Row {
 public:
  Row(const json& row, size_t size, const std::string& where) : row_(row), where_(where) {
    if (!row.is_array() || row.size() != size) refuse(fmt::format("not a list of {} values", size));
  }
  int64_t integer(int64_t least, int64_t most) {
    const json& value = row_[next_++];
    if (!value.is_number_integer()) refuse(fmt::format("value {}: not an integer", next_));
    const bool huge =
        value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMaxInteger);
    const int64_t v = huge ? kMaxInteger + 1 : value.get<int64_t>();
    if (v < least || v > most) refuse(fmt::format("value {}: {}; limit: {} to {}", next_, v, least, most));
    return v;
  }
  uint32_t word() { return static_cast<uint32_t>(integer(0, kMaxWord)); }
  std::string text() {
    const json& value = row_[next_++];
    if (!value.is_string()) refuse(fmt::format("value {}: not a text", next_));
    return value.get<std::string>();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kRuntime, where_ + ": " + what);
  }
  const json& row_;
  const std::string& where_;
  size_t next_ = 0;
};

class ChromeReader {
 public:
  ChromeReader(const std::string& name, const TraceLimits& limits)
      : name_(name), limits_(limits), check_(name) {}

  Trace read(const TextPieces& text) {
    const json root =
        parse_json_elements(text, name_, [this](const std::vector<std::string>& keys, const json& element) {
          const bool taken = take(keys, element);
          check_memory();
          return taken;
        });
    check_.finish();
    const JsonFields fields(root, name_);
    if (!fields.has(chrome::kTraceMember))
      fields.fail(chrome::kTraceMember, "missing: not a trace of serval profile");
    read_trace_member(fields.object(chrome::kTraceMember));
    check_trace(trace_, name_);
    check_events();
    return std::move(trace_);
  }

 private:
  bool take(const std::vector<std::string>& keys, const json& element);
  bool take_of_root(const std::string& member, const json& element);
  bool take_of_program(const std::string& member, const json& element);
  void check_memory() const;
  template <class Item, class Read>
  void add(std::vector<Item>& list, const std::string& member, size_t values, const json& element,
           Read&& read);
  void take_instruction(const json& element);
  void take_execution(const json& element);
  void take_sample(const json& element);
  void take_push(const json& element);
  void read_trace_member(const JsonFields& fields);
  void read_machine(const JsonFields& fields);
  void read_lists(const JsonFields& fields);
  void read_ranks(const JsonFields& fields);
  void check_format(const JsonFields& fields) const;
  void check_events() const;
  void read_metadata(const JsonFields& fields);
  const json& list(const JsonFields& fields, const char* key) const;
  template <class Read>
  void for_rows(const JsonFields& fields, const char* key, size_t size, Read&& read) const;
  template <class Read>
  void for_values(const JsonFields& fields, const char* key, Read&& read) const;

  const std::string& name_;
  const TraceLimits& limits_;
  ChromeCheck check_;
  Trace trace_;
  uint64_t bytes_ = 0;  // read so far into the trace's lists
};

// Lists that grow with the trace are read element by element; the rest of the file is a small tree.
bool ChromeReader::take(const std::vector<std::string>& keys, const json& element) {
  if (keys.size() == 1) return take_of_root(keys.back(), element);
  return keys.size() == 2 && keys.front() == chrome::kTraceMember && take_of_program(keys.back(), element);
}

bool ChromeReader::take_of_root(const std::string& member, const json& element) {
  if (member == "traceEvents") {
    check_.add(element);
  } else if (member == chrome::kInstructionsMember) {
    take_instruction(element);
  } else if (member == chrome::kExecutionsMember) {
    take_execution(element);
  } else if (member == chrome::kSamplesMember) {
    take_sample(element);
  } else {
    return false;
  }
  return true;
}

bool ChromeReader::take_of_program(const std::string& member, const json& element) {
  TraceProgram& program = trace_.program;
  if (member == "waits") {
    add(program.waits, "serval.waits", 3, element, [](Row& row, Wait& w) {
      w.counter = row.word();
      w.threshold = row.word();
      w.operand_mask = row.word();
    });
  } else if (member == "signals") {
    add(program.signals, "serval.signals", 2, element, [](Row& row, Signal& s) {
      s.counter = row.word();
      s.increment = row.word();
    });
  } else if (member == "pushes") {
    take_push(element);
  } else {
    return false;
  }
  return true;
}

void ChromeReader::check_memory() const {
  if (bytes_ + check_.bytes() > limits_.memory_bytes) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: its events and lists need more than {} bytes of memory",
                                                 name_, limits_.memory_bytes));
  }
}

// An element of a list of lists.
template <class Item, class Read>
void ChromeReader::add(std::vector<Item>& list, const std::string& member, size_t values, const json& element,
                       Read&& read) {
  const std::string where = fmt::format("{}: {} {}", name_, member, list.size());
  Row row(element, values, where);
  read(row, list.emplace_back());
  bytes_ += sizeof(Item);
}

void ChromeReader::take_instruction(const json& element) {
  add(trace_.program.instructions, chrome::kInstructionsMember, 11, element,
      [this](Row& row, TraceInstruction& i) {
        i.op = row.word();
        i.layer = static_cast<uint16_t>(row.integer(0, kNoTag));
        i.queue = row.word();
        i.pc = row.word();
        i.bytes = static_cast<uint64_t>(row.integer(0, kMaxInteger));
        i.operations = static_cast<uint64_t>(row.integer(0, kMaxInteger));
        i.wait_begin = row.word();
        i.wait_count = row.word();
        i.signal_begin = row.word();
        i.signal_count = row.word();
        i.text = row.text();
        bytes_ += i.text.size();
      });
}

void ChromeReader::take_execution(const json& element) {
  constexpr size_t kValuesBeforeTimes = 7;
  add(trace_.executions, chrome::kExecutionsMember, kValuesBeforeTimes + kNumEventKinds, element,
      [](Row& row, Execution& x) {
        x.instruction = row.word();
        x.pass = row.word();
        x.sm = row.word();
        const int64_t counter = row.integer(-1, kMaxWord);
        x.last_counter = counter < 0 ? kNoCounter : static_cast<uint32_t>(counter);
        x.bytes = static_cast<uint64_t>(row.integer(0, kMaxInteger));
        x.room_ns = row.integer(0, kMaxInteger);
        x.starved_ns = row.integer(0, kMaxInteger);
        for (int64_t& ns : x.at) ns = row.integer(kNever, kMaxInteger);
      });
}

void ChromeReader::take_sample(const json& element) {
  add(trace_.samples, chrome::kSamplesMember, 4, element, [](Row& row, PageSample& s) {
    s.at_ns = row.integer(0, kMaxInteger);
    s.sm = row.word();
    s.bytes_in_flight = row.word();
    s.free_pages = row.word();
  });
}

void ChromeReader::take_push(const json& element) {
  add(trace_.program.pushes, "serval.pushes", 4, element, [](Row& row, TracePush& p) {
    p.instruction = row.word();
    p.to = row.word();
    p.bytes = static_cast<uint64_t>(row.integer(0, kMaxInteger));
    p.operands = row.word();
  });
}

void ChromeReader::check_format(const JsonFields& fields) const {
  const int64_t format = fields.integer("format", 0, kMaxWord);
  if (format != chrome::kFormat)
    fields.fail("format", fmt::format("{}, expected {}", format, chrome::kFormat));
  const json* events = fields.find("events");
  bool same = events != nullptr && events->is_array() && events->size() == kNumEventKinds;
  for (size_t k = 0; same && k < kNumEventKinds; ++k) same = (*events)[k] == kEventInfos[k].name;
  if (!same) fields.fail("events", "not those of this version");
}

void ChromeReader::read_machine(const JsonFields& fields) {
  constexpr double kMaxFigure = 1e12;
  Machine& m = trace_.program.machine;
  m.name = fields.text_or("name", "");
  m.sms = static_cast<uint32_t>(fields.integer("sms", 1, kMaxTraceSms));
  m.pages_per_sm = static_cast<uint32_t>(fields.integer("pages_per_sm", 0, kMaxWord));
  m.gb_per_s = fields.number("gb_per_s", 0, kMaxFigure);
  m.sm_gb_per_s = fields.number("sm_gb_per_s", 0, kMaxFigure);
  m.sm_gflop_per_s = fields.number("sm_gflop_per_s", 0, kMaxFigure);
  m.synchronise_us = fields.number("synchronise_us", 0, kMaxFigure);
  m.instruction_us = fields.number("instruction_us", 0, kMaxFigure);
}

const json& ChromeReader::list(const JsonFields& fields, const char* key) const {
  const json* found = fields.find(key);
  if (found == nullptr || !found->is_array()) fields.fail(key, "missing, or not a list");
  return *found;
}

// Calls read(row) for each element of a list of lists.
template <class Read>
void ChromeReader::for_rows(const JsonFields& fields, const char* key, size_t size, Read&& read) const {
  const std::string where = fmt::format("{}: {}.{}", name_, chrome::kTraceMember, key);
  for (const json& element : list(fields, key)) {
    Row row(element, size, where);
    read(row);
  }
}

// Calls read(row) for each value of a list.
template <class Read>
void ChromeReader::for_values(const JsonFields& fields, const char* key, Read&& read) const {
  const json& values = list(fields, key);
  const std::string where = fmt::format("{}: {}.{}", name_, chrome::kTraceMember, key);
  Row row(values, values.size(), where);
  for (size_t v = 0; v < values.size(); ++v) read(row);
}

void ChromeReader::read_metadata(const JsonFields& fields) {
  const json* metadata = fields.find("metadata");
  if (metadata == nullptr || !metadata->is_object()) fields.fail("metadata", "missing, or not an object");
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) fields.fail("metadata", in_quotes(key) + " is not a text");
    trace_.metadata[key] = value.get<std::string>();
  }
}

void ChromeReader::read_lists(const JsonFields& fields) {
  TraceProgram& program = trace_.program;
  for_values(fields, "ops", [&](Row& row) { program.ops.push_back(row.text()); });
  for_values(fields, "increments_per_pass",
             [&](Row& row) { program.increments_per_pass.push_back(row.word()); });
  for_rows(fields, "windows", 3, [&](Row& row) {
    PassWindow& w = trace_.windows.emplace_back();
    w.pass = row.word();
    w.begin_ns = row.integer(0, kMaxInteger);
    w.end_ns = row.integer(0, kMaxInteger);
  });
  for (const char* taken : {"waits", "signals"}) list(fields, taken);
}

void ChromeReader::read_ranks(const JsonFields& fields) {
  trace_.program.ranks = static_cast<uint32_t>(fields.integer("ranks", 1, kMaxDevices));
  list(fields, "pushes");
}

void ChromeReader::read_trace_member(const JsonFields& fields) {
  check_format(fields);
  const std::string source = fields.text_or("source", "");
  const auto known = std::find(kTraceSourceNames.begin(), kTraceSourceNames.end(), source);
  if (known == kTraceSourceNames.end())
    fields.fail("source", in_quotes(source) + ", not host, device or sim");
  trace_.source = static_cast<TraceSource>(known - kTraceSourceNames.begin());
  trace_.program.global_queue = fields.boolean_or("global_queue", false);
  if (fields.has("ranks")) read_ranks(fields);
  trace_.program.gate_counter = static_cast<uint32_t>(fields.integer("gate_counter", 0, kMaxWord));
  read_machine(fields.object("machine"));
  read_metadata(fields);
  read_lists(fields);
}

// The slices in traceEvents must be as many as the executions give: both parts must come from one trace.
void ChromeReader::check_events() const {
  const size_t slices = slices_of(trace_).size();
  if (check_.slices() != slices) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: traceEvents: {} slices, its executions give {}", name_,
                                                 check_.slices(), slices));
  }
}

}  // namespace

Trace from_chrome_json(const TextPieces& text, const std::string& name, const TraceLimits& limits) {
  return ChromeReader(name, limits).read(text);
}

Trace from_chrome_json(std::string_view text, const std::string& name) {
  return from_chrome_json(one_piece(text), name);
}

Trace read_trace(const std::filesystem::path& path) {
  const TraceLimits limits;
  const std::string name = path.string();
  TextFile file(path, limits.text_bytes);
  std::string_view first = file.next();
  const TextPieces bytes = [&] { return first.empty() ? file.next() : std::exchange(first, {}); };
  if (!is_gzip(first)) return from_chrome_json(bytes, name, limits);
  Gunzip data(bytes, limits.text_bytes, name);
  return from_chrome_json([&] { return data.next(); }, name, limits);
}

}  // namespace serval
