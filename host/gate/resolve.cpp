#include "gate/resolve.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hitchrail::gate {
namespace {

constexpr int threads = 4;
constexpr std::size_t stack = 512u << 10;

std::vector<Address> look_up(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<Address> found;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) {
    return found;
  }
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    Address address{};
    if (each->ai_family == AF_INET) {
      address = mapped(ntohl(reinterpret_cast<const sockaddr_in*>(each->ai_addr)->sin_addr.s_addr));
    } else if (each->ai_family == AF_INET6) {
      std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6*>(each->ai_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    if (std::find(found.begin(), found.end(), address) == found.end()) {
      found.push_back(address);
    }
  }
  freeaddrinfo(list);
  return found;
}

}  // namespace

bool Resolver::start() {
  ready_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_attr_t attributes;
  if (ready_ < 0 || pthread_attr_init(&attributes) != 0) {
    return false;
  }
  bool started = pthread_attr_setstacksize(&attributes, stack) == 0 &&
                 pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0;
  for (int i = 0; i < threads && started; ++i) {
    pthread_t thread{};
    started = pthread_create(&thread, &attributes, &Resolver::main, this) == 0;
  }
  pthread_attr_destroy(&attributes);
  return started;
}

void* Resolver::main(void* self) {
  static_cast<Resolver*>(self)->serve();
  return nullptr;
}

void Resolver::serve() {
  for (;;) {
    pthread_mutex_lock(&mutex_);
    while (questions_.empty()) {
      pthread_cond_wait(&asked_, &mutex_);
    }
    const Question question = std::move(questions_.front());
    questions_.erase(questions_.begin());
    pthread_mutex_unlock(&mutex_);
    Answer answer{question.id, look_up(question.name)};
    pthread_mutex_lock(&mutex_);
    answers_.push_back(std::move(answer));
    pthread_mutex_unlock(&mutex_);
    const std::uint64_t one = 1;
    (void)!write(ready_, &one, sizeof one);
  }
}

bool Resolver::ask(std::uint64_t id, const std::string& name) {
  pthread_mutex_lock(&mutex_);
  const bool room = questions_.size() < capacity;
  if (room) {
    questions_.push_back({id, name});
  }
  pthread_mutex_unlock(&mutex_);
  pthread_cond_signal(&asked_);
  return room;
}

std::vector<Answer> Resolver::take() {
  std::uint64_t count = 0;
  (void)!read(ready_, &count, sizeof count);
  std::vector<Answer> out;
  pthread_mutex_lock(&mutex_);
  out.swap(answers_);
  pthread_mutex_unlock(&mutex_);
  return out;
}

}  // namespace hitchrail::gate
