// serval serve: answers requests over HTTP, as OpenAI's clients make them.
#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/answer/formats.h"
#include "engine/cli/commands/commands.h"
#include "engine/cli/commands/restart.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/parse_value.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/server/http/cors.h"
#include "engine/server/http/descriptor_limit.h"
#include "engine/server/metrics/request_log.h"
#include "engine/server/server.h"
#include "vm/state/output.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval serve\n"
    "  serval serve -m path/to/Llama-3.2-1B-Instruct --alias llama --port 8000 --api-key-file keys\n"
    "  curl localhost:8080/v1/completions -d '{\"prompt\": \"Once upon a time\"}'\n";

constexpr int kMaxPort = 65535;
constexpr int kMaxConnections = 65536;
constexpr int kMaxQueue = 1'000'000;
constexpr int kMaxSeconds = 86'400;
constexpr int kMaxBodyBytes = 64 << 20;
constexpr int kMaxHttpThreads = 64;

struct Flags {
  EngineOptions engine;
  OutputFlags output;
  server::ServerOptions server;
  std::string api_key, api_key_file;
  double drain_timeout_s = 60;
  std::string request_log;
  bool restart_on_fault = false;
  bool embeddings = false, no_embeddings = false;

  Flags() { server.service.timeout = std::chrono::seconds(600); }

  void declare(FlagSet& set) {
    declare_server(set);
    declare_limits(set);
    declare_engine(set, engine);
    declare_embeddings(set);
    declare_max_sequences(set, engine);
    declare_capacity(set, engine);
    declare_speculation(set, engine);
    set.group("Server");
    set.toggle("--restart-on-fault", "begin again after a fault of the engine instead of ending with code 4",
               restart_on_fault);
    set.value("--fault-at-launch", "N",
              "let launch N of the engine fail, to see what becomes of it. Default: 0, none",
              [this](const FlagValue& v) {
                engine.fault_at_launch = static_cast<int>(parse_integer(v, 0, INT_MAX));
              });
    set.group("Tracing");
    set.value("--trace-tokens", "N",
              "keep events of the last N tokens, which GET /debug/trace sends. Default: 0, none",
              [this](const FlagValue& v) {
                engine.trace_tokens = static_cast<int>(parse_integer(v, 0, kMostLaunchPasses));
              });
    output.declare(set, "");
    set.value("--request-log", "FILE",
              "append a line for each request to FILE; none: write no lines. Default: stderr",
              [this](const FlagValue& v) { request_log = parse_text(v); });
    set.examples(kExamples);
  }

 private:
  void declare_server(FlagSet& set);
  void declare_embeddings(FlagSet& set);
  void declare_parsers(FlagSet& set);
  void declare_limits(FlagSet& set);
};

void Flags::declare_server(FlagSet& set) {
  set.group("Server");
  set.value("--host", "ADDRESS",
            "the address to listen on; 0.0.0.0: all of this machine. Default: " + server.host,
            [this](const FlagValue& v) { server.host = parse_text(v); });
  set.value(
      "--port", "N", fmt::format("the port; 0: any free one, which the log names. Default: {}", server.port),
      [this](const FlagValue& v) { server.port = static_cast<uint16_t>(parse_integer(v, 0, kMaxPort)); });
  set.value("--api-key", "KEY", "clients must send this key. Default: none is needed",
            [this](const FlagValue& v) { api_key = parse_text(v); });
  set.value("--api-key-file", "FILE", "clients must send one of these keys; lines NAME:KEY or KEY",
            [this](const FlagValue& v) { api_key_file = parse_text(v); });
  set.value("--cors", "ORIGIN",
            "browsers may ask from pages of ORIGIN, as https://example.org, too; *: of any. Default: of this "
            "server "
            "only",
            [this](const FlagValue& v) {
              server.cors = parse_text(v);
              if (!server::is_cors_origin(server.cors))
                reject(v, "is no origin; expected SCHEME://HOST[:PORT], as https://example.org, or *");
            });
  set.value("--ssl-certfile", "FILE",
            "answer over HTTPS, with the certificate in FILE (PEM) and those after it. Default: HTTP",
            [this](const FlagValue& v) { server.tls.certificate = parse_text(v); });
  set.value("--ssl-keyfile", "FILE",
            "the certificate's private key (PEM, without a passphrase). Default: it is in --ssl-certfile",
            [this](const FlagValue& v) { server.tls.key = parse_text(v); });
  set.value("-a,--alias", "NAME", "what clients call the model. Default: its own name",
            [this](const FlagValue& v) { server.service.alias = parse_text(v); });
  declare_parsers(set);
}

void Flags::declare_parsers(FlagSet& set) {
  const auto one_of = [](const FlagValue& v, const std::vector<std::string>& names) {
    std::string name = parse_text(v);
    if (std::ranges::find(names, name) == names.end())
      reject(v, fmt::format("is unknown; expected one of {}", fmt::join(names, ", ")));
    return name;
  };
  const std::vector<std::string> tools = tool_format_names(), reasoning = reasoning_format_names();
  set.value("--tool-parser", "NAME",
            fmt::format("how the model writes calls of tools: {}. Default: what its chat template shows",
                        fmt::join(tools, ", ")),
            [this, one_of, tools](const FlagValue& v) { server.service.tool_parser = one_of(v, tools); });
  set.value("--reasoning-parser", "NAME",
            fmt::format("how the model reasons: {}. Default: what its chat template shows",
                        fmt::join(reasoning, ", ")),
            [this, one_of, reasoning](const FlagValue& v) {
              server.service.reasoning_parser = one_of(v, reasoning);
            });
}

void Flags::declare_embeddings(FlagSet& set) {
  set.group("Embeddings");
  set.toggle("--embeddings",
             "compute embeddings, and generate nothing. Default: if the model's files say how its embeddings "
             "are made",
             embeddings);
  set.toggle("--no-embeddings", "generate, whatever the model's files say", no_embeddings);
  declare_pooling(set, engine);
}

void Flags::declare_limits(FlagSet& set) {
  server::ServiceOptions& service = server.service;
  server::HttpLimits& http = server.http;
  set.group("Limits");
  set.value("--max-queue", "N",
            fmt::format("most requests that wait; further ones get 429. Default: {}", service.max_queue),
            [&service](const FlagValue& v) {
              service.max_queue = static_cast<uint32_t>(parse_integer(v, 0, kMaxQueue));
            });
  set.value("--timeout", "SECONDS",
            fmt::format("time for a request, from its arrival to its end; 0: no limit. Default: {}",
                        service.timeout.count()),
            [&service](const FlagValue& v) {
              service.timeout = std::chrono::duration<double>(parse_real(v, 0, kMaxSeconds));
            });
  set.value("--drain-timeout", "SECONDS",
            fmt::format("time after SIGTERM for requests that run or wait. Default: {}", drain_timeout_s),
            [this](const FlagValue& v) { drain_timeout_s = parse_real(v, 0, kMaxSeconds); });
  set.value("--max-connections", "N", fmt::format("most open connections. Default: {}", http.connections),
            [&http](const FlagValue& v) {
              http.connections = static_cast<size_t>(parse_integer(v, 1, kMaxConnections));
            });
  set.value("--max-body", "BYTES", fmt::format("largest body of a request. Default: {}", http.body_bytes),
            [&http](const FlagValue& v) {
              http.body_bytes = static_cast<size_t>(parse_integer(v, 1, kMaxBodyBytes));
            });
  set.value("--threads-http", "N",
            fmt::format("threads that read bodies and encode prompts. Default: {}", service.workers),
            [&service](const FlagValue& v) {
              service.workers = static_cast<int>(parse_integer(v, 1, kMaxHttpThreads));
            });
}

server::ApiKeys keys_of(const Flags& flags) {
  if (!flags.api_key.empty() && !flags.api_key_file.empty())
    throw Error(ErrorKind::kUsage, "--api-key and --api-key-file: set either, not both");
  if (!flags.api_key_file.empty()) return server::ApiKeys::read(flags.api_key_file);
  server::ApiKeys keys;
  if (!flags.api_key.empty()) keys.add({"default", flags.api_key});
  return keys;
}

size_t connections_that_fit(size_t wanted, size_t spare) {
  const size_t all = server::raise_descriptor_limit(wanted + spare);
  const size_t fit = all - std::min(all, spare);
  if (fit < wanted)
    log_warning(fmt::format("{} connections at most, because of the limit of open files (ulimit -n)", fit));
  return std::max<size_t>(fit, 1);
}

Engine load_engine_for(server::Service& service, EngineOptions options, ProgressMode progress) {
  options.programs_in_background = true;
  return load_engine(
      std::move(options), progress,
      [&service](const char* stage, uint64_t done, uint64_t total) { service.loading(stage, done, total); });
}

// How serving ended.
struct Ending {
  uint16_t port;      // the port it used
  std::string fault;  // the error line; empty: the server has drained
};

// Serves until the server drains or the engine fails.
Ending serve_model(server::Server& server, const Flags& flags) {
  const QuitScope loading;  // nothing has been asked yet: a signal ends the program at once, and well
  Engine engine = load_engine_for(server.service(), flags.engine, flags.output.progress);
  const DeferScope signals;
  server.drain_on(signals.descriptor(), std::chrono::duration<double>(flags.drain_timeout_s),
                  [] { log_info("no request is taken any more; those that run or wait are answered"); });
  server.service().attach(engine);
  const ModelInfo& info = engine.info();
  log_info(fmt::format("ready: {} on {}, {} sequences of {} tokens{}", info.name, info.backend,
                       info.max_sequences, info.context,
                       info.pooling.empty() ? "" : fmt::format("; embeddings, pooling {}", info.pooling)));
  const auto outcome = server.wait();
  server.service().detach();
  return {server.port(), outcome == server::Service::Outcome::kFault ? server.service().fault() : ""};
}

Ending serve(Flags& flags) {
  flags.server.service.keys = keys_of(flags);
  flags.server.http.connections =
      connections_that_fit(flags.server.http.connections, flags.server.http.spare_connections);
  const bool needs_key = !flags.server.service.keys.empty();
  const bool logs = flags.request_log != "none";
  RequestLog log(logs ? flags.request_log : "");
  if (logs) {
    flags.server.service.on_record = [&log](const server::RequestRecord& record) {
      log.write(server::log_line(record));
    };
  }
  server::Server server(flags.server);
  const std::string host =
      flags.server.host.find(':') == std::string::npos ? flags.server.host : "[" + flags.server.host + "]";
  log_info(fmt::format("listening on {}://{}:{}{}", flags.server.tls.certificate.empty() ? "http" : "https",
                       host, server.port(), needs_key ? "; a key is needed" : ""));
  return serve_model(server, flags);
}

// CUDA is unusable in a process in which a kernel has failed. So this process replaces itself by a new one on
// the same port.
[[noreturn]] void begin_again(const Arguments& arguments, const Ending& ending) {
  log_warning(ending.fault + "; serval begins again");
  Arguments again = {"serve"};
  again.insert(again.end(), arguments.begin(), arguments.end());
  again.insert(again.end(), {"--port", std::to_string(ending.port)});  // the last --port wins
  restart(again);
}

}  // namespace

int run_serve(const Arguments& arguments) {
  Flags flags;
  FlagSet set("serve", "Answers requests over HTTP, as OpenAI's clients make them.", "[FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  if (flags.embeddings && flags.no_embeddings)
    throw Error(ErrorKind::kUsage, "--embeddings and --no-embeddings: set either, not both");
  flags.engine.embeddings.reset();
  if (flags.embeddings || flags.no_embeddings) flags.engine.embeddings = flags.embeddings;
  const Ending ending = serve(flags);
  if (ending.fault.empty()) return 0;
  // A signal that arrived meanwhile asks to end.
  if (!flags.restart_on_fault || pending_signal() != 0) throw Error(ErrorKind::kDeviceFault, ending.fault);
  begin_again(arguments, ending);
}

}  // namespace serval::cli
