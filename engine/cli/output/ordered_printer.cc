#include "engine/cli/output/ordered_printer.h"

#include <utility>

#include "fmt/format.h"

#include "engine/cli/output/output.h"

namespace serval::cli {

OrderedPrinter::OrderedPrinter(std::vector<PrintedText> texts)
    : texts_(std::move(texts)), waiting_(texts_.size()), finished_(texts_.size()) {}

void OrderedPrinter::add(size_t index, const std::string& more, bool finished) {
  if (index == current_) {
    print(more);
  } else {
    waiting_[index] += more;
  }
  if (finished) finished_[index] = true;
  while (current_ < texts_.size() && finished_[current_]) next();
}

void OrderedPrinter::finish() {
  while (current_ < texts_.size()) next();
}

void OrderedPrinter::begin_current() {
  const PrintedText& text = texts_[current_];
  ended_line_ = true;
  if (!text.title.empty()) print(fmt::format("==> {} <==\n", text.title));
  print(text.prompt);
  print(waiting_[current_]);
}

void OrderedPrinter::next() {
  if (!ended_line_) print("\n");
  if (++current_ == texts_.size()) return;
  print("\n");
  begin_current();
}

void OrderedPrinter::print(const std::string& text) {
  if (text.empty()) return;
  write_stdout(text);
  ended_line_ = text.ends_with('\n');
}

}  // namespace serval::cli
