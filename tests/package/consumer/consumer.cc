// Uses what is installed and nothing else: the error type and, once it is there, the bundled model.
#include <serval/error.h>

#include <iostream>

int main() {
  const serval::Error error(serval::ErrorKind::kUsage, "consumer: found and linked");
  std::cout << error.what() << '\n';
  return error.exit_code() == 2 ? 0 : 1;
}
