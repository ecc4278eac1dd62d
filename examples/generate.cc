// A prompt in, text out, printed as it is made.
//
//   example_generate "Once upon a time" [MODEL]
//
// MODEL is a Hugging Face directory or a GGUF file; without it the bundled model tells the story.
#include <cstdio>

#include "serval/engine.h"

int main(int argc, char** argv) try {
  serval::EngineOptions options;
  if (argc > 2) options.model = argv[2];
  serval::Engine engine = serval::Engine::load(options);

  serval::Request request;
  request.prompt = argc > 1 ? argv[1] : "Once upon a time";
  request.max_tokens = 120;
  request.sampling = engine.info().default_sampling;
  request.sampling.seed = 7;

  std::fputs(request.prompt.c_str(), stdout);
  const serval::Response response = engine.generate(request, [](const serval::TokenEvent& event) {
    std::fputs(event.text.c_str(), stdout);
    std::fflush(stdout);
    return true;  // false would cancel
  });

  const double seconds = response.timings.decode_ms / 1000;
  std::printf("\n\n%zu tokens, %s, %.0f tokens/s\n", response.tokens.size(), serval::name_of(response.finish),
              static_cast<double>(response.tokens.size()) / seconds);
  return 0;
} catch (const serval::Error& error) {
  std::fprintf(stderr, "example_generate: %s\n", error.what());
  return error.exit_code();
}
