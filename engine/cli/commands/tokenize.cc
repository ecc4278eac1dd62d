// serval tokenize and serval detokenize: convert between text and token ids with only a model's tokenizer.
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "engine/core/request.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/text_model.h"

namespace serval::cli {
namespace {

constexpr const char* kTokenizeExamples =
    "  serval tokenize -p 'Once upon a time'\n"
    "  serval tokenize --prompt-file story.txt --json\n";
constexpr const char* kDetokenizeExamples =
    "  serval detokenize 383,258\n"
    "  serval tokenize -p 'Once upon a time' | serval detokenize\n";

constexpr int32_t kMaxId = 1 << 30;  // ids are checked against the vocabulary later

struct Flags {
  std::string model;
  bool special = false;
  OutputFlags output;

  void declare(FlagSet& set, const std::string& of_special) {
    declare_model_name(set, model);
    set.group("Text");
    set.toggle("--special", of_special, special);
    output.declare(set, "print one JSON object");
  }

  SpecialTokens special_tokens() const { return special ? SpecialTokens::kWritten : SpecialTokens::kNot; }
};

// A preset has no tokenizer; its tokens are bytes.
struct Codec {
  explicit Codec(const std::string& model)
      : source(find_model(model)), text(load_text_model(source, "", source.files == nullptr)) {}

  ModelSource source;
  TextModel text;
};

// Ids separated by spaces, commas or line ends.
std::vector<int32_t> parse_ids(const std::string& text) {
  constexpr const char* kSeparators = " ,\t\r\n";
  std::vector<int32_t> ids;
  for (size_t begin = text.find_first_not_of(kSeparators); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    ids.push_back(static_cast<int32_t>(parse_integer({"token", text.substr(begin, end - begin)}, 0, kMaxId)));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

int tokenize(const Flags& flags, const PromptFlags& prompts) {
  const Codec codec(flags.model);
  for (const Prompt& prompt : prompts.collect()) {
    const std::vector<int32_t> ids =
        codec.text.codec->encode(prompt.text, {.special = flags.special_tokens()});
    if (flags.output.json) {
      write_stdout(compact({{"text", prompt.text}, {"tokens", ids}, {"count", ids.size()}}));
    } else {
      write_stdout(fmt::format("{}\n", fmt::join(ids, " ")));
    }
  }
  return 0;
}

int detokenize(const Flags& flags, const std::string& given) {
  const Codec codec(flags.model);
  const std::vector<int32_t> ids = parse_ids(given.empty() ? read_all("-") : given);
  check_token_ids("tokens", ids, codec.source.model->vocab_size);
  const std::string text = codec.text.codec->decode(ids, flags.special_tokens());
  if (flags.output.json) {
    write_stdout(compact({{"text", text}, {"tokens", ids}, {"count", ids.size()}}));
  } else {
    write_stdout(text.ends_with('\n') ? text : text + '\n');
  }
  return 0;
}

}  // namespace

int run_tokenize(const Arguments& arguments) {
  Flags flags;
  PromptFlags prompts;
  FlagSet set("tokenize", "Prints the token ids of texts, one line each, BOS included.",
              "-p TEXT | --prompt-file FILE [FLAGS]");
  prompts.declare(set);
  flags.declare(set, "control tokens that are written in a text mean these tokens");
  set.examples(kTokenizeExamples);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  return tokenize(flags, prompts);
}

int run_detokenize(const Arguments& arguments) {
  Flags flags;
  std::string ids;
  FlagSet set("detokenize", "Prints the text of token ids, those of stdin unless some are given.",
              "[IDS] [FLAGS]");
  set.positional("IDS", "token ids, as 383,258", [&](const FlagValue& v) { ids = parse_text(v); });
  flags.declare(set, "write control tokens, too");
  set.examples(kDetokenizeExamples);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  return detokenize(flags, ids);
}

}  // namespace serval::cli
