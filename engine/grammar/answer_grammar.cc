#include "engine/grammar/answer_grammar.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/grammar/free_text.h"
#include "engine/grammar/json_rules.h"
#include "engine/grammar/json_schema.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {
namespace {

[[noreturn]] void refuse(const ToolFunction& function, const std::string& problem) {
  throw Error(ErrorKind::kUsage, fmt::format("tools: function {}: {}", function.name, problem));
}

// The schema with "type": "object" if it has no type. Keeps its spelling.
std::string object_schema(const ToolFunction& function) {
  if (function.parameters.empty()) return R"({"type":"object","properties":{}})";
  const auto schema = nlohmann::json::parse(function.parameters, nullptr, /*allow_exceptions=*/false);
  if (!schema.is_object()) refuse(function, "parameters: expected a JSON object");
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (*type != "object") refuse(function, "parameters: type: expected \"object\"");
    return function.parameters;
  }
  const size_t inside = function.parameters.find('{') + 1;
  const char* separator = schema.empty() ? "" : ",";
  return fmt::format("{}\"type\":\"object\"{}{}", function.parameters.substr(0, inside), separator,
                     function.parameters.substr(inside));
}

Grammar arguments_grammar(const ToolFunction& function, bool must_be_valid) {
  try {
    return compile_json_schema(object_schema(function));
  } catch (const Error& error) {
    if (!must_be_valid) return json_object_grammar();
    std::string line = error.what();
    if (line.starts_with("tools: ")) throw;
    const std::string name = "json_schema: ";
    if (line.starts_with(name)) line = line.substr(name.size());
    refuse(function, "parameters: " + line);
  }
}

class Builder {
 public:
  explicit Builder(const AnswerRules& rules) : rules_(rules), tools_(rules.tools), json_(grammar_) {}

  Grammar build(const std::optional<Grammar>& content) {
    const bool may_be_empty = !content && tools_.choice != ToolChoice::kRequired;
    grammar_.set_top(with_reasoning(answer(content), may_be_empty));
    grammar_.finish();
    return std::move(grammar_);
  }

 private:
  void marker(StateId from, std::string_view text, StateId to) {
    if (const auto byte = rules_.markers.byte_of(text)) return grammar_.byte(from, *byte, *byte, to);
    grammar_.literal(from, text, to);
  }
  StateId spaces(StateId from) { return json_.call(from, json_.space()); }

  // Up to 8 spaces and line breaks.
  StateId gap(StateId from) {
    constexpr uint32_t kMost = 8;
    const StateId start = grammar_.add_state(), loop = grammar_.add_state(), after = grammar_.add_state();
    const StateId end = grammar_.add_end();
    for (const uint8_t byte : {' ', '\n'}) grammar_.byte(start, byte, byte, end);
    grammar_.loop(loop, {grammar_.add_rule(start), 0, kMost, after, false});
    grammar_.jump(from, loop);
    return after;
  }

  RuleId with_reasoning(RuleId answer, bool may_be_empty) {
    if (rules_.reasoning == Reasoning::kNone) return answer;
    const StateId start = grammar_.add_state(), closed = grammar_.add_state();
    grammar_.call(gap(closed), answer, grammar_.add_end());
    if (may_be_empty) grammar_.accept(closed);
    if (rules_.ends_reasoning) {
      marker(start, kThinkEnd, closed);
      return grammar_.add_rule(start);
    }
    const FreeText reasoning(grammar_, kThinkEnd, rules_.markers, closed, may_be_empty);
    if (rules_.reasoning == Reasoning::kOpen) {
      const StateId opened = grammar_.add_state();
      grammar_.jump(start, reasoning.start());
      marker(gap(start), kThinkBegin, opened);  // a model may repeat what the prompt has opened
      grammar_.jump(opened, reasoning.start());
    } else {
      grammar_.call(start, answer, grammar_.add_end());
      marker(gap(start), kThinkBegin, reasoning.start());
    }
    return grammar_.add_rule(start);
  }

  RuleId answer(const std::optional<Grammar>& content) {
    const StateId start = grammar_.add_state();
    if (tools_.choice == ToolChoice::kNone || tools_.format == ToolFormat::kNone) {
      if (content) return grammar_.append(*content);
      grammar_.accept(start);
      grammar_.byte(start, 0, kFirstMarkerByte - 1, start);
    } else if (tools_.choice == ToolChoice::kAuto && !content) {
      text_or_calls(start);
    } else {
      if (tools_.choice == ToolChoice::kAuto)
        grammar_.call(start, grammar_.append(*content), grammar_.add_end());
      const StateId opened = grammar_.add_state(), closed = grammar_.add_end();
      open(start, opened);
      calls(opened, closed);
      if (repeats()) open(spaces(closed), opened);
    }
    return grammar_.add_rule(start);
  }

  std::string_view opening() const {
    if (tools_.format == ToolFormat::kLlama3Json) return kPythonTag;
    return tools_.format == ToolFormat::kMistral ? kToolCallsBegin : kToolCallBegin;
  }
  void open(StateId from, StateId opened) {
    marker(from, opening(), opened);
    if (tools_.format == ToolFormat::kLlama3Json) grammar_.jump(from, opened);
  }
  // True if another marker may follow the calls of one.
  bool repeats() const { return tools_.format == ToolFormat::kHermes && tools_.parallel; }

  void text_or_calls(StateId start) {
    constexpr bool kMayEnd = true;
    const StateId opened = grammar_.add_state(), closed = grammar_.add_end();
    FreeText text(grammar_, opening(), rules_.markers, opened, kMayEnd);
    calls(opened, closed);
    if (repeats()) grammar_.jump(closed, text.start());
    if (tools_.format != ToolFormat::kLlama3Json) return grammar_.jump(start, text.start());
    Openings openings(grammar_, text);
    const StateId brace = openings.read(openings.root(), "{");
    StateId type = openings.read(brace, "\"type\"");
    for (const char* part : {":", "\"function\"", ","}) type = openings.read(type, part);
    const StateId names[] = {openings.end(brace, "\"name\""), openings.end(type, "\"name\"")};
    openings.finish();
    for (const StateId name : names) more_calls(json_.call(name, after_name()), closed);
    grammar_.jump(start, openings.root());
  }

  // The calls after an opening marker, with their closing marker.
  void calls(StateId opened, StateId closed) {
    const StateId from = spaces(opened);
    switch (tools_.format) {
      case ToolFormat::kHermes:
        return marker(spaces(json_.call(from, object())), kToolCallEnd, closed);
      case ToolFormat::kMistral:
        return list(from, closed);
      case ToolFormat::kSmolLm2: {
        const StateId listed = grammar_.add_state();
        list(from, listed);
        return marker(spaces(listed), kToolCallEnd, closed);
      }
      case ToolFormat::kLlama3Json:
      case ToolFormat::kNone:
        break;
    }
    more_calls(json_.call(from, object()), closed);
  }

  // After one of Llama's calls.
  void more_calls(StateId from, StateId closed) {
    grammar_.jump(from, closed);
    if (!tools_.parallel) return;
    const StateId separator = grammar_.add_state();
    grammar_.byte(from, ';', ';', separator);
    grammar_.jump(json_.call(spaces(separator), object()), from);
  }

  void list(StateId from, StateId to) {
    const StateId first = json_.punctuation(from, '[');
    const StateId after = json_.call(first, object());
    grammar_.byte(spaces(after), ']', ']', to);
    if (tools_.parallel) grammar_.jump(json_.punctuation(after, ','), first);
  }

  RuleId object() {
    if (object_) return *object_;
    const StateId start = grammar_.add_state(), named = grammar_.add_state();
    grammar_.literal(json_.punctuation(start, '{'), "\"name\"", named);
    grammar_.call(named, after_name(), grammar_.add_end());
    return *(object_ = grammar_.add_rule(start));
  }

  // The rest of a call's object after "name".
  RuleId after_name() {
    if (after_name_) return *after_name_;
    const StateId start = grammar_.add_state(), written = grammar_.add_state();
    const StateId name = json_.punctuation(start, ':');
    const std::string key = fmt::format("\"{}\"", arguments_key(tools_.format));
    for (const ToolFunction& function : tools_.functions) {
      const bool must_be_valid = function.strict || tools_.choice == ToolChoice::kRequired;
      const StateId named = grammar_.add_state(), keyed = grammar_.add_state();
      grammar_.literal(name, nlohmann::json(function.name).dump(), named);
      grammar_.literal(json_.punctuation(named, ','), key, keyed);
      grammar_.call(json_.punctuation(keyed, ':'),
                    grammar_.append(arguments_grammar(function, must_be_valid)), written);
    }
    grammar_.byte(spaces(written), '}', '}', grammar_.add_end());
    return *(after_name_ = grammar_.add_rule(start));
  }

  const AnswerRules& rules_;
  const ToolRules& tools_;
  Grammar grammar_;
  JsonRules json_;
  std::optional<RuleId> object_, after_name_;
};

}  // namespace

Grammar answer_grammar(const AnswerRules& rules, const std::optional<Grammar>& content) {
  return Builder(rules).build(content);
}

}  // namespace serval::grammar
