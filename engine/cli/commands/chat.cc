// serval chat: a conversation with streamed answers. Ctrl-C ends an answer; at an empty prompt it exits.
#include <csignal>
#include <optional>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/conversation.h"
#include "engine/cli/input/line_reader.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/cli/output/progress.h"
#include "engine/cli/output/response_json.h"
#include "engine/cli/output/speed.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval chat\n"
    "  serval chat --system 'You tell very short stories.' --temp 0.6\n"
    "  printf 'Tell me a story.\\nAnother one, please.\\n' | serval chat -s 1\n";

constexpr const char* kChatCommands =
    "/help          this list\n"
    "/reset         forget the conversation; the system message stays\n"
    "/system TEXT   set the system message (none without TEXT) and forget the conversation\n"
    "/exit          leave, as Ctrl-D does\n"
    "Ctrl-C         stop the answer; at an empty line, leave";

struct Flags {
  EngineOptions engine;
  SamplingFlags sampling;
  OutputFlags output;
  std::string system;

  void declare(FlagSet& set) {
    set.group("Conversation");
    set.value("--system", "TEXT", "the system message",
              [this](const FlagValue& v) { system = repair_utf8(parse_text(v)); });
    sampling.declare(set);
    declare_engine(set, engine);
    declare_capacity(set, engine);
    declare_speculation(set, engine);
    output.declare(set, "print each answer as one line of JSON");
    set.examples(kExamples);
  }
};

// Prints text that is not part of an answer. It goes to stderr, so that stdout contains only answers.
void say(const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

class Chat {
 public:
  Chat(const Flags& flags, Engine& engine)
      : flags_(flags),
        engine_(engine),
        request_(flags.sampling.request(engine.info().default_sampling)),
        conversation_(engine) {
    reset(flags.system);
  }

  // Returns the exit code.
  int run() {
    if (reader_.interactive()) say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.\n");
    for (;;) {
      const LineReader::Result input = reader_.read("> ");
      switch (input.event) {
        case LineReader::Event::kLine:
          if (const std::optional<int> exit_code = take(input.line)) return *exit_code;
          break;
        case LineReader::Event::kDiscarded:
          say("\n");
          break;
        case LineReader::Event::kEnd:
          return leave(0);
        case LineReader::Event::kInterrupt:
          return leave(reader_.interactive() ? 0 : kSignalExitBase + SIGINT);
        case LineReader::Event::kTerminate:
          return leave(kSignalExitBase + SIGTERM);
      }
    }
  }

 private:
  int leave(int exit_code) const {
    if (reader_.interactive()) say("\n");
    return exit_code;
  }

  void reset(const std::string& system) {
    messages_.clear();
    conversation_.forget();
    if (!system.empty()) messages_.push_back({"system", system});
    system_ = system;
  }

  // Returns an exit code if the program must end.
  std::optional<int> take(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return std::nullopt;
    return line.starts_with('/') ? obey(line) : answer(line);
  }

  std::optional<int> obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit" || name == "/quit") return 0;
    if (name == "/help") {
      say(fmt::format("{}\n", kChatCommands));
    } else if (name == "/reset") {
      reset(system_);
    } else if (name == "/system") {
      reset(rest);
    } else {
      log_warning(fmt::format("{}: unknown command; /help lists the commands", name));
    }
    return std::nullopt;
  }

  std::optional<int> answer(const std::string& line) {
    messages_.push_back({"user", line});
    Response response;
    try {
      response = generate();
    } catch (const Error& error) {
      // The conversation has outgrown the context: an interactive user may start a new one, a script cannot.
      if (error.kind() != ErrorKind::kUsage || !reader_.interactive()) throw;
      messages_.pop_back();
      log_error(fmt::format("{}; /reset begins a new conversation", error.what()));
      return std::nullopt;
    }
    remember(response);
    print_end(line, response);
    if (take_signal() == SIGTERM) return kSignalExitBase + SIGTERM;
    return std::nullopt;
  }

  Response generate() {
    Request request = request_;
    request.prompt_ids = conversation_.prompt(messages_);
    const CancelScope cancelled_by_signals(engine_);
    Response response = engine_.generate(request, [&](const TokenEvent& event) {
      if (!flags_.output.json) write_stdout(event.text);
      return pending_signal() == 0;
    });
    if (!response.text.empty()) conversation_.add(std::move(request.prompt_ids), response);
    return response;
  }

  // Keeps the part of the answer that was generated before Ctrl-C. An empty answer and its question are
  // forgotten.
  void remember(const Response& response) {
    if (response.text.empty()) {
      messages_.pop_back();
    } else {
      messages_.push_back({"assistant", response.text});
    }
  }

  void print_end(const std::string& question, const Response& response) const {
    if (flags_.output.json) {
      write_stdout(compact(response_json(question, response)));
    } else if (!response.text.ends_with('\n')) {
      write_stdout("\n");
    }
    const Speed decode = speed_of_decode(response);
    log_debug(fmt::format("prompt {} tokens, {:.1f} ms; generated {} tokens, {:.1f} tokens/s; ended by {}",
                          response.prompt_tokens, response.timings.prompt_ms, response.tokens.size(),
                          decode.tokens_per_second(), name_of(response.finish)));
    if (response.finish == Finish::kLength && flags_.sampling.max_tokens < 0) {
      log_warning("the context is full; /reset begins a new conversation");
    }
  }

  const Flags& flags_;
  Engine& engine_;
  const Request request_;  // without the prompt
  LineReader reader_;
  std::string system_;
  std::vector<ChatMessage> messages_;
  Conversation conversation_;
};

int chat(const Flags& flags) {
  EngineOptions options = flags.engine;
  options.max_sequences = 1;
  options.programs_in_background = true;
  Engine engine = load_engine(options, flags.output.progress);
  const ModelInfo& info = engine.info();
  const ChatMessage probe{"user", "?"};
  (void)engine.tokenize_chat({&probe, 1});  // a model without a usable template is reported now
  log_info(fmt::format("{} on {}; seed {}", info.name, info.backend, flags.sampling.seed()));
  return Chat(flags, engine).run();
}

}  // namespace

int run_chat(const Arguments& arguments) {
  Flags flags;
  FlagSet set("chat", "Talks with the model: one line is one message.", "[FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  return chat(flags);
}

}  // namespace serval::cli
