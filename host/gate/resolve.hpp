#pragma once
// Names to addresses, on a few threads of its own (getaddrinfo blocks). Promises: at most `capacity`
// questions at a time; answers come in any order and carry the number they were asked with; asking never
// blocks.

#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gate/address.hpp"

namespace hitchrail::gate {

struct Answer {
  std::uint64_t id = 0;
  std::vector<Address> addresses;  // in the resolver's order, each once; empty = the name has none
};

class Resolver {
 public:
  Resolver() = default;
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  // Threads live to the end of the process.
  bool start();
  [[nodiscard]] int ready_fd() const { return ready_; }  // readable when answers wait
  bool ask(std::uint64_t id, const std::string& name);
  std::vector<Answer> take();

 private:
  struct Question {
    std::uint64_t id;
    std::string name;
  };
  static constexpr std::size_t capacity = 128;
  static void* main(void* self);
  void serve();

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t asked_ = PTHREAD_COND_INITIALIZER;
  std::vector<Question> questions_;
  std::vector<Answer> answers_;
  int ready_ = -1;
};

}  // namespace hitchrail::gate
