#include "runner/frames.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hitchrail::runner {

namespace {
constexpr std::size_t max_payload =
    32u << 20;  // far above any input; a greater size means the stream is out of step
constexpr std::size_t read_size = 64u << 10;
}  // namespace

Status Frames::fill(bool wait) {
  char read[read_size];
  for (;;) {
    const ssize_t got = ::recv(socket_, read, sizeof(read), wait ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return {};
    }
    if (got < 0 && errno != ECONNRESET) {
      return errno_error("receive", "shim", errno);
    }
    if (got <= 0) {
      return Error{ErrorClass::environment, "shim-gone", "receive", "shim", "the shim closed its socket", ""};
    }
    buffer_.append(read, static_cast<std::size_t>(got));
    const std::uint64_t seen = applied_;
    HR_CHECK(split());
    if (!wait || !queue_.empty() || applied_ != seen) {
      return {};
    }
  }
}

Status Frames::split() {
  while (buffer_.size() - begin_ >= sizeof(wire::Frame)) {
    wire::Frame frame;
    std::memcpy(&frame, buffer_.data() + begin_, sizeof(frame));
    if (frame.size > max_payload) {
      return Error{
          ErrorClass::internal, "frame-invalid", "receive", "shim", "a frame's size is out of bounds", ""};
    }
    if (buffer_.size() - begin_ - sizeof(frame) < frame.size) {
      break;
    }
    if (frame.type == wire::frame_applied) {
      applied_ = std::max(applied_, frame.a);
    } else {
      queue_.push_back({frame, buffer_.substr(begin_ + sizeof(frame), frame.size)});
    }
    begin_ += sizeof(frame) + frame.size;
  }
  buffer_.erase(0, begin_);
  begin_ = 0;
  return {};
}

Message Frames::take() {
  Message message = std::move(queue_.front());
  queue_.pop_front();
  return message;
}

Status Frames::send(std::uint32_t type, std::uint64_t a, std::string_view payload) {
  wire::Frame frame{};
  frame.type = type;
  frame.size = static_cast<std::uint32_t>(payload.size());
  frame.a = a;
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes.append(payload);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return errno_error("send", "shim", errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return {};
}

}  // namespace hitchrail::runner
