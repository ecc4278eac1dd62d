// A client that sends exactly the given bytes.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace serval::testing {

class HttpClient {
 public:
  explicit HttpClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto connect = [&] {
      return ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    };
    // After a signal interrupts connect(), the system continues to connect.
    while (connect() != 0 && errno != EISCONN) {
      if (errno != EINTR && errno != EALREADY) throw std::runtime_error("connect");
    }
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { close(); }

  void send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Closes with a reset, so that the port is not kept in TIME_WAIT and can be used again immediately.
  void abort() {
    const linger now = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close_sending() { ::shutdown(socket_, SHUT_WR); }

  // Reads until `text` has arrived; returns everything up to its end. Returns less if the other side closes.
  std::string read_until(const std::string& text) {
    while (received_.find(text) == std::string::npos && read_some()) {
    }
    const size_t at = received_.find(text);
    const size_t end = at == std::string::npos ? received_.size() : at + text.size();
    std::string taken = received_.substr(0, end);
    received_.erase(0, end);
    return taken;
  }
  std::string read_to_end() {
    while (read_some()) {
    }
    return std::exchange(received_, {});
  }

 private:
  bool read_some() {
    constexpr int kPatience_ms = 60'000;
    pollfd wait = {socket_, POLLIN, 0};
    int ready = 0;
    do {
      ready = ::poll(&wait, 1, kPatience_ms);
    } while (ready < 0 && errno == EINTR);  // a fuzzer's timer interrupts calls
    if (ready <= 0) throw std::runtime_error("no data from the server");
    char buffer[4096];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<size_t>(count));
    return true;
  }

  int socket_;
  std::string received_;
};

}  // namespace serval::testing
