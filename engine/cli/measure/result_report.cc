#include "engine/cli/measure/result_report.h"

#include "engine/cli/measure/bench_result.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "engine/cli/output/progress.h"

namespace serval::cli {

void ResultReport::begin() const {
  if (format_ == "md") write_stdout(table_.head);
}

void ResultReport::add(const nlohmann::ordered_json& result) {
  if (!record_file_.empty()) append_result(record_file_, result);
  erase_progress();
  if (format_ == "md") write_stdout(table_.row(result));
  if (format_ == "csv") write_stdout((rows_.empty() ? csv_head(result) : "") + csv_row(result));
  rows_.push_back(result);
}

void ResultReport::end(const std::string& note) const {
  if (format_ == "json") write_stdout(pretty(rows_));
  if (format_ == "md" && !note.empty()) write_stdout(note);
}

}  // namespace serval::cli
