// The tokens of a request as a range, with their log-probabilities: how sure was the model?
//
//   example_stream [MODEL]
#include <cstdio>

#include "serval/engine.h"

int main(int argc, char** argv) try {
  serval::EngineOptions options;
  if (argc > 1) options.model = argv[1];
  serval::Engine engine = serval::Engine::load(options);

  serval::Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 40;
  request.sampling.temperature = 0;  // greedy: the likeliest token each time

  serval::TokenStream stream(engine, request);
  double sum = 0;
  int tokens = 0;
  for (const serval::TokenEvent& event : stream) {
    std::printf("%8d  %7.3f  \"%s\"\n", event.token, static_cast<double>(event.log_probability),
                event.text.c_str());
    sum += static_cast<double>(event.log_probability);
    if (++tokens == 30) engine.cancel();  // a range may also just be left
  }
  std::printf("%d tokens, %s, mean log-probability %.3f\n", tokens, serval::name_of(stream.response().finish),
              sum / tokens);
  return 0;
} catch (const serval::Error& error) {
  std::fprintf(stderr, "example_stream: %s\n", error.what());
  return error.exit_code();
}
