#include "gate/report.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/canonical.hpp"

namespace hitchrail::gate {
namespace {

constexpr std::uint64_t many = 2000;
constexpr double burst = 64;
constexpr double pace = 2.0 / 1000;  // a millisecond
constexpr double slow_pace = 1.0 / 60000;
constexpr std::int64_t retry_ms = 100;

bool alike(const gatewire::Record& a, const gatewire::Record& b) {
  gatewire::Record left = a;
  left.count = b.count;
  return std::memcmp(&left, &b, sizeof b) == 0;
}

}  // namespace

void Reporter::add(const gatewire::Record& record, std::int64_t now_ms) {
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(waiting_);
  auto found = std::find_if(pending_.begin(), end, [&](const auto& other) { return alike(other, record); });
  if (found == end && waiting_ >= capacity - 2) {  // two places are for what is no longer told apart
    gatewire::Record various{};
    various.allowed = record.allowed;
    various.reason = gatewire::reason_various;
    various.protocol = record.protocol;
    found = std::find_if(pending_.begin(), end, [&](const auto& other) {
      return other.reason == gatewire::reason_various && other.allowed == record.allowed;
    });
    if (found == end) {
      pending_[waiting_++] = various;
      found = pending_.begin() + static_cast<std::ptrdiff_t>(waiting_ - 1);
    }
  } else if (found == end) {
    pending_[waiting_] = record;
    pending_[waiting_].count = 0;
    found = pending_.begin() + static_cast<std::ptrdiff_t>(waiting_++);
  }
  found->count += record.count;
  send_due(now_ms);
}

bool Reporter::send_first() {
  ssize_t sent = 0;
  do {
    sent = ::send(socket_, &pending_[0], sizeof pending_[0], MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    broken_ = errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM;
    return false;
  }
  --waiting_;
  std::copy(pending_.begin() + 1, pending_.begin() + static_cast<std::ptrdiff_t>(waiting_ + 1),
            pending_.begin());
  ++sent_;
  return true;
}

void Reporter::send_due(std::int64_t now_ms) {
  if (filled_ms_ != 0) {
    tokens_ += static_cast<double>(now_ms - filled_ms_) * (sent_ < many ? pace : slow_pace);
    tokens_ = std::min(tokens_, sent_ < many ? burst : 8.0);
  }
  filled_ms_ = now_ms;
  while (waiting_ > 0 && tokens_ >= 1) {
    if (!send_first()) {
      due_ = now_ms + retry_ms;
      return;
    }
    tokens_ -= 1;
  }
  const double missing = (1 - tokens_) / (sent_ < many ? pace : slow_pace);
  due_ = now_ms + std::max<std::int64_t>(1, static_cast<std::int64_t>(missing));
}

void Reporter::flush() {
  while (waiting_ > 0 && send_first()) {
  }
}

void set_host(gatewire::Record& record, std::string_view host) {
  const std::string hex = sha256_hex("egress-host:" + std::string(host));
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (std::size_t i = 0; i < 32 && 2 * i + 1 < hex.size(); ++i) {
    record.host_key[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  }
  record.has_host = 1;
}

}  // namespace hitchrail::gate
