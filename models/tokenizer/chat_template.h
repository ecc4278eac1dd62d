// Encodes conversations with the checkpoint's Jinja template (models/jinja/), as transformers'
// apply_chat_template does. The template gets `messages` (each with role, content and what else it has),
// `tools` (none if there are none), `documents` (none), `add_generation_prompt`, `bos_token` and `eos_token`
// if tokenizer_config.json has them, and further variables of the caller.
//
// Two templates are built in: llama3 (Meta's "Llama 3 prompt format", without the preamble that Llama 3.1 and
// later add to the system message) and chatml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/jinja/text.h"
#include "models/jinja/value.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

// A call of a function by the assistant.
struct ChatCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object
};

struct ChatTurn {
  std::string role;          // "system", "user", "assistant", …: 1 to 64 ASCII letters, digits, '_' and '-'
  std::string content = {};  // any text; control tokens in it are encoded as plain text
  // Texts as content; the template does not get those that are empty.
  std::string name = {};
  std::vector<ChatCall> calls = {};  // tool_calls
  std::string call_id = {};          // tool_call_id
  std::string reasoning = {};        // reasoning_content, also as `thinking`
};

struct ChatPrompt {
  bool add_generation_prompt = true;    // adds the start of the assistant's next message
  bool continue_final_message = false;  // ends where the content of the last message ends
  std::string tools = {};               // a JSON array; empty: none
  std::string variables = {};           // further variables: a JSON object; empty: none
};

// Immutable and thread-safe. Copies share the template.
class ChatTemplate {
 public:
  // The template of a checkpoint: chat_template.jinja, or "chat_template" in tokenizer_config.json. Throws
  // Error(kRuntime) that names the alternatives if there is none, or as of_text().
  static ChatTemplate of_checkpoint(const std::filesystem::path& model_dir, const Tokenizer& tokenizer);

  // Parses a template. Error lines start with `where`; `name` is the result of name(). Throws Error(kRuntime)
  // with the template's line if it is wrong or not supported.
  static ChatTemplate of_text(std::string_view jinja, std::string where, std::string name,
                              const Tokenizer& tokenizer);

  // Throws Error(kRuntime): `where` has no template. The message names the alternatives.
  [[noreturn]] static void refuse_missing(const std::string& where);

  // A built-in template (one of names()) or a file with a template. Throws Error(kUsage) if it is neither,
  // Error(kRuntime) if the vocabulary lacks a built-in template's tokens, and as of_text().
  static ChatTemplate of_name(const std::string& name_or_file, const Tokenizer& tokenizer);
  static std::vector<std::string> names();
  static bool exists(const std::string& name_or_file);

  // Name of the built-in template, or of the file that contains the template.
  const std::string& name() const;

  // Throws Error(kUsage) for an invalid role, for JSON that is not as ChatPrompt and ChatCall say, for a last
  // message that cannot be continued, and if the template refuses the messages or fails on them: "messages:
  // chat template NAME: line N: …", without the path of its file.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                   const ChatPrompt& prompt) const;
  std::string render(std::span<const ChatTurn> messages, const ChatPrompt& prompt) const;
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                   bool add_generation_prompt) const {
    return encode(tokenizer, messages, ChatPrompt{.add_generation_prompt = add_generation_prompt});
  }
  std::string render(std::span<const ChatTurn> messages, bool add_generation_prompt) const {
    return render(messages, ChatPrompt{.add_generation_prompt = add_generation_prompt});
  }

  // The template itself.
  const std::string& source() const;

  // Tokens that end an answer: the one that the template writes after an answer, and the ones that models
  // tuned with it use instead, if the vocabulary has them.
  std::vector<std::int32_t> stop_ids() const;

 private:
  struct Loaded;
  explicit ChatTemplate(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}
  jinja::Text render_text(std::span<const ChatTurn> messages, const ChatPrompt& prompt) const;
  jinja::Entries variables_of(std::span<const ChatTurn> messages, const ChatPrompt& prompt) const;
  std::vector<std::int32_t> find_stop_ids(const Tokenizer& tokenizer) const;

  std::shared_ptr<const Loaded> loaded_;
};

}  // namespace serval
