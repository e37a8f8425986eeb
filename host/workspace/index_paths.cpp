#include "workspace/index_paths.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kStat = 40;  // times, device, inode, mode, uid, gid, size
constexpr std::size_t kModeAt = 24;
constexpr std::uint32_t kAssumeUnchanged = 0x8000, kExtended = 0x4000;
constexpr std::uint32_t kSkipWorktree = 0x4000;  // of the extended flags

std::uint32_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

// One entry of version 4 says how many bytes of the path before it fall away.
bool take_offset(std::string_view bytes, std::size_t& at, std::size_t& value) {
  value = 0;
  for (int i = 0; i < 9 && at < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value = i == 0 ? byte & 0x7fU : (value + 1) << 7 | (byte & 0x7fU);
    if ((byte & 0x80U) == 0) {
      return true;
    }
  }
  return false;
}

class Reader {
 public:
  Reader(std::string_view index, std::size_t oid_size) : index_(index), oid_(oid_size) {}

  bool entries(const std::function<void(const IndexPath&)>& entry) {
    if (index_.size() < kHeader + oid_ || index_.substr(0, 4) != "DIRC") {
      return false;
    }
    version_ = number(index_, 4, 4);
    if (version_ < 2 || version_ > 4) {
      return false;
    }
    at_ = kHeader;
    end_ = index_.size() - oid_;
    for (std::uint32_t left = number(index_, 8, 4); left > 0; --left) {
      if (!one(entry)) {
        return false;
      }
    }
    return true;
  }

  // The extension that names the base of a split index.
  bool extensions(std::string& shared) {
    while (at_ + 8 <= end_) {
      const std::string_view name = index_.substr(at_, 4);
      const std::size_t size = number(index_, at_ + 4, 4);
      at_ += 8;
      if (size > end_ - at_) {
        return false;
      }
      if (name == "link") {
        if (size < oid_) {
          return false;
        }
        shared = std::string(index_.substr(at_, oid_));
      }
      at_ += size;
    }
    return true;
  }

 private:
  bool one(const std::function<void(const IndexPath&)>& entry) {
    const std::size_t begin = at_;
    if (end_ - at_ < kStat + oid_ + 2) {
      return false;
    }
    IndexPath out;
    out.mode = number(index_, at_ + kModeAt, 4);
    at_ += kStat + oid_;
    const std::uint32_t flags = number(index_, at_, 2);
    at_ += 2;
    out.assume_unchanged = (flags & kAssumeUnchanged) != 0;
    out.stage = static_cast<int>(flags >> 12 & 3U);
    if ((flags & kExtended) != 0) {
      if (version_ < 3 || end_ - at_ < 2) {
        return false;
      }
      out.skip_worktree = (number(index_, at_, 2) & kSkipWorktree) != 0;
      at_ += 2;
    }
    if (!path_of(begin, out.path)) {
      return false;
    }
    if (!out.path.empty()) {  // a replaced entry of a split index has its name in the base
      entry(out);
    }
    return true;
  }

  bool path_of(std::size_t begin, std::string_view& path) {
    std::size_t drop = 0;
    if (version_ == 4 && !take_offset(index_, at_, drop)) {
      return false;
    }
    const std::size_t nul = index_.find('\0', at_);
    if (nul == std::string_view::npos || nul >= end_ || drop > previous_.size()) {
      return false;
    }
    const std::string_view text = index_.substr(at_, nul - at_);
    if (version_ == 4) {
      previous_.resize(previous_.size() - drop);
      previous_ += text;
      path = previous_;
      at_ = nul + 1;
      return true;
    }
    path = text;
    at_ = begin + ((nul - begin) / 8 + 1) * 8;  // one to eight NULs
    return at_ <= end_;
  }

  std::string_view index_;
  std::size_t oid_;
  std::uint32_t version_ = 0;
  std::size_t at_ = 0, end_ = 0;
  std::string previous_;
};

}  // namespace

bool each_index_path(std::string_view index, std::size_t oid_size, std::string& shared,
                     const std::function<void(const IndexPath&)>& entry) {
  shared.clear();
  Reader reader(index, oid_size);
  return reader.entries(entry) && reader.extensions(shared);
}

}  // namespace hitchrail::workspace
