#include "runner/framing.hpp"

#include <hitchrail/adapter.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace hitchrail::runner {

namespace {

constexpr std::size_t max_header = 8192;  // of a Content-Length frame
constexpr std::uint64_t max_framed = 64ull
                                     << 20;  // a longer message could fill the ring and never arrive whole

// Length of an unfinished UTF-8 character at the end of bytes, 0 when the last one is whole or the bytes are
// not UTF-8.
std::size_t unfinished_tail(std::string_view bytes) {
  const std::size_t look = std::min<std::size_t>(3, bytes.size());
  for (std::size_t back = 1; back <= look; ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0u) == 0x80u) {
      continue;
    }
    const std::size_t need = byte >= 0xF0u && byte <= 0xF4u ? 4 : byte >= 0xE0u ? 3 : byte >= 0xC2u ? 2 : 1;
    return byte < 0xF5u && need > back ? back : 0;
  }
  return 0;
}

// The value of Content-Length in a header block; false when absent, repeated or not a number.
bool parse_length(std::string_view header, std::uint64_t& length) {
  bool found = false;
  while (!header.empty()) {
    const std::size_t end = header.find("\r\n");
    std::string_view line = header.substr(0, end);
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 2);
    constexpr std::string_view name = "content-length:";
    if (line.size() < name.size() || strncasecmp(line.data(), name.data(), name.size()) != 0) {
      continue;
    }
    line.remove_prefix(name.size());
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) {
      line.remove_prefix(1);
    }
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), length);
    if (found || error != std::errc() || rest != line.data() + line.size()) {
      return false;
    }
    found = true;
  }
  return found;
}

}  // namespace

void Framer::restore(std::uint64_t position, bool discarding, std::uint64_t discard_start) {
  position_ = position;
  discarding_ = discarding;
  discard_start_ = discard_start;
  scanned_ = 0;
  finished_ = false;
}

Framer::Step Framer::next(std::string_view bytes, bool eof, std::uint32_t end_flags) {
  if (finished_) {
    return Step::done;
  }
  if (discarding_) {
    return discard(bytes, eof);
  }
  if (eof && (end_flags & HR_RECORD_ABSENT) != 0) {
    finished_ = true;
    return give({}, position_, HR_RECORD_ABSENT);
  }
  switch (config_.framing) {
    case HR_FRAME_LINES:
      return lines(bytes, eof, end_flags);
    case HR_FRAME_CHUNKS:
      return chunks(bytes, eof, end_flags);
    case HR_FRAME_WHOLE:
      return whole(bytes, eof, end_flags);
    case HR_FRAME_CONTENT_LENGTH:
      return content_length(bytes, eof, end_flags);
    default:
      return Step::malformed;
  }
}

void Framer::accept() {
  position_ = record_.end;
  scanned_ = 0;
  if (begins_discard_) {
    discarding_ = true;
    discard_start_ = record_.offset;
    begins_discard_ = false;
  }
}

Framer::Step Framer::give(std::string_view bytes, std::uint64_t end, std::uint32_t flags) {
  record_ = {position_, end, flags, bytes};
  return Step::record;
}

Framer::Step Framer::over_cap(std::string_view bytes) {
  if (config_.overflow == HR_OVERFLOW_FAIL) {
    return Step::too_long;
  }
  begins_discard_ = true;
  return give(bytes.substr(0, config_.record_cap), position_ + config_.record_cap, HR_RECORD_TRUNCATED);
}

Framer::Step Framer::lines(std::string_view bytes, bool eof, std::uint32_t end_flags) {
  // One byte beyond the cap decides: a line of exactly cap bytes is whole.
  const std::size_t limit = std::min<std::size_t>(bytes.size(), std::size_t{config_.record_cap} + 1);
  const void* found =
      scanned_ < limit ? std::memchr(bytes.data() + scanned_, '\n', limit - scanned_) : nullptr;
  if (found != nullptr) {
    const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    return give(bytes.substr(0, length), position_ + length + 1, 0);
  }
  scanned_ = limit;
  if (bytes.size() > config_.record_cap) {
    return over_cap(bytes);
  }
  if (!eof) {
    return Step::more;
  }
  finished_ = true;
  if (bytes.empty()) {
    return Step::done;
  }
  return give(bytes, position_ + bytes.size(), HR_RECORD_UNTERMINATED | end_flags);
}

Framer::Step Framer::chunks(std::string_view bytes, bool eof, std::uint32_t end_flags) {
  std::size_t size = std::min<std::size_t>(bytes.size(), config_.record_cap);
  const bool last = eof && size == bytes.size();
  if (!last) {
    const std::size_t tail = unfinished_tail(bytes.substr(0, size));
    size = tail < size ? size - tail : (size == bytes.size() ? 0 : size);
  }
  if (size == 0) {
    finished_ = eof;
    return eof ? Step::done : Step::more;
  }
  return give(bytes.substr(0, size), position_ + size, last ? end_flags : 0);
}

Framer::Step Framer::whole(std::string_view bytes, bool eof, std::uint32_t end_flags) {
  if (bytes.size() > config_.record_cap) {
    return over_cap(bytes);
  }
  if (!eof) {
    return Step::more;
  }
  finished_ = true;
  return give(bytes, position_ + bytes.size(), end_flags);
}

Framer::Step Framer::content_length(std::string_view bytes, bool eof, std::uint32_t end_flags) {
  const std::string_view head = bytes.substr(0, max_header);
  const std::size_t blank = head.find("\r\n\r\n");
  std::uint64_t length = 0;
  if (blank == std::string_view::npos) {
    if (bytes.size() >= max_header) {
      return Step::malformed;
    }
  } else {
    if (!parse_length(head.substr(0, blank), length) || length > max_framed) {
      return Step::malformed;
    }
    if (length > config_.record_cap && config_.overflow == HR_OVERFLOW_FAIL) {
      return Step::too_long;
    }
    if (bytes.size() - (blank + 4) >= length) {
      const auto whole_size = static_cast<std::size_t>(length);
      const std::uint32_t flags = length > config_.record_cap ? HR_RECORD_TRUNCATED : 0;
      return give(bytes.substr(blank + 4, std::min<std::size_t>(whole_size, config_.record_cap)),
                  position_ + blank + 4 + whole_size, flags);
    }
  }
  if (!eof) {
    return Step::more;
  }
  finished_ = true;
  if (bytes.empty()) {
    return Step::done;
  }
  const std::string_view body = blank == std::string_view::npos ? bytes : bytes.substr(blank + 4);
  const bool cut = body.size() > config_.record_cap;
  return give(body.substr(0, config_.record_cap), position_ + bytes.size(),
              HR_RECORD_UNTERMINATED | (cut ? HR_RECORD_TRUNCATED : 0u) | end_flags);
}

Framer::Step Framer::discard(std::string_view bytes, bool eof) {
  const void* found = config_.framing == HR_FRAME_LINES && !bytes.empty()
                          ? std::memchr(bytes.data(), '\n', bytes.size())
                          : nullptr;
  const std::uint64_t kept_end = discard_start_ + config_.record_cap;
  if (found != nullptr) {
    const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    dropped_ = {discard_start_, position_ + length - kept_end};
    position_ += length + 1;
    discarding_ = false;
    return Step::dropped;
  }
  position_ += bytes.size();
  if (!eof) {
    return Step::more;
  }
  dropped_ = {discard_start_, position_ - kept_end};
  discarding_ = false;
  finished_ = true;
  return Step::dropped;
}

}  // namespace hitchrail::runner
