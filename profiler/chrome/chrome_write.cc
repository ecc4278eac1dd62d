#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/analysis/edges.h"
#include "profiler/analysis/slices.h"
#include "profiler/analysis/tracks.h"
#include "profiler/chrome/chrome_format.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/chrome/gzip.h"
#include "vm/base/write_file.h"

namespace serval {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

// Microseconds with three decimals, so that no nanosecond is lost.
std::string microseconds(int64_t ns) {
  constexpr int64_t kNanosecondsPerMicrosecond = 1000;
  return fmt::format("{}.{:03}", ns / kNanosecondsPerMicrosecond, ns % kNanosecondsPerMicrosecond);
}

// The slices of each execution, to find where its arrows begin and end.
class SliceIndex {
 public:
  SliceIndex(const Trace& trace, const std::vector<Slice>& slices)
      : slices_(slices), by_execution_(trace.executions.size()) {
    for (uint32_t s = 0; s < slices.size(); ++s) by_execution_[slices[s].execution].push_back(s);
  }
  // The execution's last slice of that role; null if it has none.
  const Slice* last(uint32_t execution, SmRole role) const {
    const Slice* found = nullptr;
    for (const uint32_t s : by_execution_[execution]) {
      if (slices_[s].role == role) found = &slices_[s];
    }
    return found;
  }
  const Slice* first(uint32_t execution, SmRole role) const {
    for (const uint32_t s : by_execution_[execution]) {
      if (slices_[s].role == role) return &slices_[s];
    }
    return nullptr;
  }

 private:
  const std::vector<Slice>& slices_;
  std::vector<std::vector<uint32_t>> by_execution_;
};

class ChromeWriter {
 public:
  ChromeWriter(const Trace& trace, TakePiece take)
      : trace_(trace), program_(trace.program), take_(std::move(take)) {}

  void write() {
    // Perfetto needs the unit first: it ignores everything after a member that it does not know.
    text_ = "{\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[\n";
    write_names();
    const std::vector<Slice> slices = slices_of(trace_);
    for (const Slice& slice : slices) write_slice(slice);
    write_flows(slices);
    write_tracks();
    text_ += "],\n";
    write_program();
    write_executions();
    text_ += "}\n";
    flush();
  }

 private:
  template <class... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  // Each element of a list is on a line of its own.
  void begin_element() {
    constexpr size_t kPieceBytes = size_t{1} << 20;
    if (!text_.ends_with("[\n")) text_ += ",\n";
    if (text_.size() >= kPieceBytes) flush();
  }
  void flush() {
    take_(text_);
    text_.clear();
  }
  static uint32_t process_of(uint32_t rank) { return chrome::kFirstProcess + rank; }
  static uint32_t thread_of(uint32_t sm, SmRole role) {
    return static_cast<uint32_t>(index_of_role(sm, role)) + chrome::kFirstThread;
  }

  void write_process(uint32_t rank);
  void write_names();
  void write_slice(const Slice& slice);
  void write_flows(const std::vector<Slice>& slices);
  void write_flow(uint64_t id, const Edge& edge, const Slice& from, const Slice& to);
  void write_tracks();
  void write_program();
  void write_executions();

  const Trace& trace_;
  const TraceProgram& program_;
  const TakePiece take_;
  std::string text_;  // not yet passed to take_
};

void ChromeWriter::write_process(uint32_t rank) {
  const std::string machine =
      fmt::format("{} ({})", program_.machine.name, kTraceSourceNames[static_cast<size_t>(trace_.source)]);
  const bool several = program_.ranks > 1;
  begin_element();
  put(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process_of(rank),
      quoted(several ? fmt::format("GPU {}: {}", rank, machine) : machine));
  if (!several) return;
  begin_element();
  put(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", process_of(rank),
      rank);
}

void ChromeWriter::write_names() {
  for (uint32_t rank = 0; rank < program_.ranks; ++rank) write_process(rank);
  for (uint32_t sm = 0; sm < program_.machine.sms; ++sm) {
    const uint32_t process = process_of(program_.rank_of(sm));
    for (uint32_t r = 0; r < kNumSmRoles; ++r) {
      const uint32_t thread = thread_of(sm, static_cast<SmRole>(r));
      begin_element();
      put(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"SM {} {}"}}}})", process,
          thread, sm % program_.sms_of_rank(), kSmRoleNames[r]);
      begin_element();
      put(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", process,
          thread, thread);
    }
  }
}

// A computing slice is named after its op. Other names begin with the state, which readers look for.
void ChromeWriter::write_slice(const Slice& slice) {
  const Execution& x = trace_.executions[slice.execution];
  const TraceInstruction& i = program_.instructions[x.instruction];
  const char* state = kSliceStateNames[static_cast<size_t>(slice.state)];
  const std::string& op = program_.ops[i.op];
  const bool computes = slice.state == SliceState::kCompute;
  begin_element();
  put(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":"{}","name":{},"args":{{"instruction":{},"pc":{},"pass":{})",
      process_of(program_.rank_of(slice.sm)), thread_of(slice.sm, slice.role), microseconds(slice.begin_ns),
      microseconds(slice.end_ns - slice.begin_ns), state, quoted(computes ? op : state + (" " + op)),
      x.instruction, i.pc, x.pass);
  if (i.layer != kNoTag) put(R"(,"layer":{})", i.layer);
  if (slice.counter != kNoCounter) put(R"(,"counter":{})", slice.counter);
  if (computes) put(R"(,"bytes":{},"text":{})", x.bytes, quoted(i.text));
  text_ += "}}";
}

// An arrow goes from the end of the producer's last storer slice to the end of the consumer's wait, or,
// without wait slices, to its first consumer slice.
void ChromeWriter::write_flows(const std::vector<Slice>& slices) {
  const SliceIndex index(trace_, slices);
  uint64_t id = 0;
  for (const Edge& edge : edges_of(trace_)) {
    const Slice* from = index.last(edge.from, SmRole::kStorer);
    const Slice* to = index.first(edge.to, SmRole::kPreparer);
    if (to == nullptr) to = index.first(edge.to, SmRole::kConsumer);
    if (from != nullptr && to != nullptr) write_flow(id++, edge, *from, *to);
  }
}

void ChromeWriter::write_flow(uint64_t id, const Edge& edge, const Slice& from, const Slice& to) {
  int64_t begin = from.end_ns - 1;
  const int64_t ready = trace_.executions[edge.to].time(EventKind::kInputsReady);
  const int64_t end = std::clamp(std::max(ready, begin), to.begin_ns, to.end_ns - 1);
  // The SMs' clocks may differ a little; an arrow that would still point back in time is left out.
  begin = std::min(begin, end);
  if (begin < from.begin_ns) return;
  const bool crosses = crosses_link(trace_, edge);
  const auto write = [&](const char* phase, const Slice& slice, int64_t at_ns) {
    begin_element();
    put(R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"id":{},"cat":"{}","name":"c{}{}"{}}})", phase,
        process_of(program_.rank_of(slice.sm)), thread_of(slice.sm, slice.role), microseconds(at_ns), id,
        crosses ? "link" : "counter", edge.counter, crosses ? " over the link" : "",
        *phase == 'f' ? R"(,"bp":"e")" : "");
  };
  write("s", from, begin);
  write("f", to, end);
}

void ChromeWriter::write_tracks() {
  const std::vector<std::vector<Track>> tracks = tracks_of_ranks(trace_, default_bin_ns(trace_));
  for (uint32_t rank = 0; rank < program_.ranks; ++rank) {
    for (const Track& track : tracks[rank]) {
      for (const TrackPoint& point : track.points) {
        begin_element();
        put(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"value":{:.6g}}}}})", process_of(rank),
            microseconds(point.at_ns), quoted(track.name), point.value);
      }
    }
  }
}

void ChromeWriter::write_program() {
  const Machine& m = program_.machine;
  json events = json::array(), windows = json::array(), waits = json::array(), signals = json::array();
  for (const EventInfo& info : kEventInfos) events.push_back(info.name);
  for (const PassWindow& w : trace_.windows) windows.push_back({w.pass, w.begin_ns, w.end_ns});
  for (const Wait& w : program_.waits) waits.push_back({w.counter, w.threshold, w.operand_mask});
  for (const Signal& s : program_.signals) signals.push_back({s.counter, s.increment});
  json out = {{"format", chrome::kFormat},
              {"source", kTraceSourceNames[static_cast<size_t>(trace_.source)]},
              {"metadata", trace_.metadata},
              {"machine",
               {{"name", m.name},
                {"sms", m.sms},
                {"pages_per_sm", m.pages_per_sm},
                {"gb_per_s", m.gb_per_s},
                {"sm_gb_per_s", m.sm_gb_per_s},
                {"sm_gflop_per_s", m.sm_gflop_per_s},
                {"synchronise_us", m.synchronise_us},
                {"instruction_us", m.instruction_us}}},
              {"global_queue", program_.global_queue},
              {"gate_counter", program_.gate_counter},
              {"increments_per_pass", program_.increments_per_pass},
              {"ops", program_.ops},
              {"events", events},
              {"windows", windows},
              {"waits", waits},
              {"signals", signals}};
  if (program_.ranks > 1) {
    out["ranks"] = program_.ranks;
    out["pushes"] = json::array();
    for (const TracePush& p : program_.pushes)
      out["pushes"].push_back({p.instruction, p.to, p.bytes, p.operands});
  }
  put("\"{}\":{},\n", chrome::kTraceMember,
      out.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace));
}

void ChromeWriter::write_executions() {
  put("\"{}\":[\n", chrome::kInstructionsMember);
  for (const TraceInstruction& i : program_.instructions) {
    begin_element();
    put("[{},{},{},{},{},{},{},{},{},{},{}]", i.op, i.layer, i.queue, i.pc, i.bytes, i.operations,
        i.wait_begin, i.wait_count, i.signal_begin, i.signal_count, quoted(i.text));
  }
  put("],\n\"{}\":[\n", chrome::kExecutionsMember);
  for (const Execution& x : trace_.executions) {
    begin_element();
    put("[{},{},{},{},{},{},{},{}]", x.instruction, x.pass, x.sm,
        x.last_counter == kNoCounter ? int64_t{-1} : int64_t{x.last_counter}, x.bytes, x.room_ns,
        x.starved_ns, fmt::join(x.at, ","));
  }
  put("],\n\"{}\":[\n", chrome::kSamplesMember);
  for (const PageSample& s : trace_.samples) {
    begin_element();
    put("[{},{},{},{}]", s.at_ns, s.sm, s.bytes_in_flight, s.free_pages);
  }
  text_ += "]";
}

}  // namespace

std::string to_chrome_json(const Trace& trace) {
  std::string text;
  ChromeWriter(trace, [&](std::string_view piece) { text += piece; }).write();
  return text;
}

void write_trace(const Trace& trace, const std::filesystem::path& path) {
  FileWriter file(path);
  const TakePiece to_file = [&](std::string_view bytes) { file.write(bytes); };
  if (path.extension() == ".gz") {
    Gzip data(to_file);
    ChromeWriter(trace, [&](std::string_view piece) { data.write(piece); }).write();
    data.finish();
  } else {
    ChromeWriter(trace, to_file).write();
  }
  file.commit();
}

}  // namespace serval
