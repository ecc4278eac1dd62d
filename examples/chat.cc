// A conversation: a line of standard input is a question, the answer is streamed. Ctrl-C stops an answer, the
// end of the input ends the program.
//
//   example_chat [MODEL]
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "serval/engine.h"

namespace {

serval::Engine* running = nullptr;

// Engine::cancel() may be called from a signal handler.
void stop_answer(int) {
  running->cancel();
}

std::string answer(serval::Engine& engine, const std::vector<serval::ChatMessage>& conversation) {
  serval::Request request;
  request.messages = conversation;
  request.max_tokens = 200;
  request.sampling = engine.info().default_sampling;
  const serval::Response response = engine.generate(request, [](const serval::TokenEvent& event) {
    std::cout << event.text << std::flush;
    return true;
  });
  std::cout << '\n';
  return response.text;
}

}  // namespace

int main(int argc, char** argv) try {
  serval::EngineOptions options;
  if (argc > 1) options.model = argv[1];
  serval::Engine engine = serval::Engine::load(options);
  running = &engine;
  std::signal(SIGINT, stop_answer);

  std::vector<serval::ChatMessage> conversation;
  std::string line;
  while (std::cout << "> " << std::flush, std::getline(std::cin, line)) {
    conversation.push_back({"user", line});
    conversation.push_back({"assistant", answer(engine, conversation)});
  }
  std::cout << '\n';
  return 0;
} catch (const serval::Error& error) {
  std::cerr << "example_chat: " << error.what() << '\n';
  return error.exit_code();
}
