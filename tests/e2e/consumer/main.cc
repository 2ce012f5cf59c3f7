// Every public header compiles without warnings in a stranger's build, and the library links.
#include <cstdio>

#include "embps/client.h"

int main() {
  embps::TableConfig table;
  table.spec = {.name = "clicks", .row_count = 1000, .dim = 8};
  const embps::KeyedJaggedTensor kjt{.keys = {"clicks"}, .lengths = {2, 1}, .values = {7, 9, 42}};
  embps::ClientOptions options;
  options.nodes = {"127.0.0.1:1"};  // nobody listens there
  options.connect_timeout_ms = 200;
  const auto client = embps::Client::Connect(options);
  std::printf("%s\n", client.status().ToString().c_str());
  return kjt.Validate().ok() && !client.ok() ? 0 : 1;
}
