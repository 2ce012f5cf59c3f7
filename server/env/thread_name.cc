#include "server/env/thread_name.h"

#include <pthread.h>

#include <string>

namespace embps {

void SetThreadName(absl::string_view name) {
  const std::string kept(name.substr(0, 15));
  pthread_setname_np(pthread_self(), kept.c_str());
}

}  // namespace embps
