#include "init/plan.hpp"

#include <cstring>

namespace hitchrail::plan {
namespace {

// Bounds of one plan, computed once from its header.
class Checker {
 public:
  Checker(const char* base, const Header& header) : base_(base), header_(header) {}

  bool array(const Array& array, std::size_t element) const {
    const std::uint64_t end = array.offset + static_cast<std::uint64_t>(array.count) * element;
    return array.offset >= sizeof(Header) && array.offset % 8 == 0 && end <= header_.total_size;
  }
  // Within the table, followed by its NUL, and with no NUL inside.
  bool string(const String& string) const {
    const std::uint64_t end = static_cast<std::uint64_t>(string.offset) + string.size;
    if (end >= header_.strings.count) {
      return false;
    }
    const char* text = base_ + header_.strings.offset + string.offset;
    return text[string.size] == '\0' && std::memchr(text, 0, string.size) == nullptr;
  }
  bool strings(const Array& list) const {
    if (!array(list, sizeof(String)) || list.count > max_strings) {
      return false;
    }
    const auto* entries = reinterpret_cast<const String*>(base_ + list.offset);
    for (std::uint32_t i = 0; i < list.count; ++i) {
      if (!string(entries[i])) {
        return false;
      }
    }
    return true;
  }
  const char* text(const String& string) const { return base_ + header_.strings.offset + string.offset; }
  bool component(const String& name) const {
    const char* bytes = text(name);
    return name.size > 0 && name.size < 256 && std::strcmp(bytes, ".") != 0 &&
           std::strcmp(bytes, "..") != 0 && std::memchr(bytes, '/', name.size) == nullptr;
  }
  // "" or components without "", "." and "..".
  bool relative(const String& path) const {
    const char* bytes = text(path);
    std::size_t start = 0;
    for (std::size_t i = 0; path.size > 0 && i <= path.size; ++i) {
      if (i < path.size && bytes[i] != '/') {
        continue;
      }
      const std::size_t length = i - start;
      const bool dots = (length == 1 && bytes[start] == '.') ||
                        (length == 2 && bytes[start] == '.' && bytes[start + 1] == '.');
      if (length == 0 || dots) {
        return false;
      }
      start = i + 1;
    }
    return true;
  }

  // Both directories lie strictly below the base, the first `size` bytes of both paths.
  bool overlay(const Step& step) const {
    const char* upper = text(step.text);
    const char* work = text(step.name);
    const std::uint64_t size = step.size;
    if (size == 0 || size >= step.text.size || size >= step.name.size || upper[0] != '/' ||
        std::memcmp(upper, work, size) != 0) {
      return false;
    }
    return size == 1 || (upper[size] == '/' && work[size] == '/');
  }

  const char* step(const Step& step, std::uint32_t index) const {
    const bool mounts = (header_.flags & mount_namespace) != 0;
    if (step.kind < step_directory || step.kind > step_layer) {
      return "step kind";
    }
    if (!string(step.name) || !string(step.text)) {
      return "step string";
    }
    if (step.kind == step_source) {
      return text(step.text)[0] == '/' ? nullptr : "step source";
    }
    if (!mounts) {
      return "step needs a mount namespace";
    }
    if (step.parent >= index || (step.kind == step_clone && step.other >= index)) {
      return "step reference";
    }
    if (step.kind <= step_open && !component(step.name)) {
      return "step name";
    }
    if (step.kind == step_cover) {
      if (step.name.size == 0 || !relative(step.name)) {
        return "step name";
      }
      return step.other == no_step || step.other < index ? nullptr : "step reference";
    }
    if ((step.kind == step_mount || step.kind == step_layer) && text(step.text)[0] != '/') {
      return "step source";
    }
    if (step.kind == step_layer && (step.size == 0 || (step.flags & optional) != 0)) {
      return "step layer";
    }
    if (step.kind == step_overlay && !overlay(step)) {
      return "step overlay";
    }
    if ((step.flags & idmapped) != 0 && (header_.flags & switch_user) == 0) {
      return "idmapped step without a switch of the user";
    }
    return step.mode > 01777 ? "step mode" : nullptr;
  }

  const char* place(const Place& place) const {
    if (!string(place.relative) || !relative(place.relative)) {
      return "place path";
    }
    return place.step < header_.steps.count ? nullptr : "place step";
  }

  const char* listeners() const {
    if (!array(header_.listeners, sizeof(Listener)) || header_.listeners.count > max_listeners) {
      return "listeners";
    }
    if (header_.listeners.count > 0 && (header_.flags & net_namespace) == 0) {
      return "listeners without a network namespace";
    }
    const auto* list = reinterpret_cast<const Listener*>(base_ + header_.listeners.offset);
    for (std::uint32_t i = 0; i < header_.listeners.count; ++i) {
      if (list[i].port == 0) {
        return "listener port";
      }
    }
    return nullptr;
  }

  const char* all() const;

 private:
  const char* base_;
  const Header& header_;
};

const char* Checker::all() const {
  const Header& header = header_;
  if (!array(header.strings, 1) || header.strings.count == 0) {
    return "string table";
  }
  if (!array(header.steps, sizeof(Step)) || header.steps.count == 0 || header.steps.count > max_steps) {
    return "steps";
  }
  if (!array(header.rules, sizeof(LandlockRule)) || header.rules.count > max_steps) {
    return "landlock rules";
  }
  if (!array(header.rlimits, sizeof(Rlimit)) || header.rlimits.count > 32) {
    return "limits";
  }
  if (!array(header.filter, sizeof(Filter)) || header.filter.count > 4096) {
    return "filter";
  }
  if (!strings(header.argv) || !strings(header.env) || !strings(header.secret_env)) {
    return "arguments";
  }
  if (const char* wrong = listeners()) {
    return wrong;
  }
  if (!strings(header.cgroups) || header.cgroups.count > max_cgroups) {
    return "control groups";
  }
  const auto* steps = reinterpret_cast<const Step*>(base_ + header.steps.offset);
  std::uint32_t overlays = 0;
  std::uint32_t layers = 0;
  for (std::uint32_t i = 1; i < header.steps.count; ++i) {
    if (const char* wrong = step(steps[i], i)) {
      return wrong;
    }
    overlays += steps[i].kind == step_overlay ? 1 : 0;
    layers += steps[i].kind == step_layer ? 1 : 0;
  }
  if (overlays > max_overlays || layers > max_layers) {
    return "overlays";
  }
  const auto* rules = reinterpret_cast<const LandlockRule*>(base_ + header.rules.offset);
  for (std::uint32_t i = 0; i < header.rules.count; ++i) {
    if (rules[i].step >= header.steps.count) {
      return "landlock rule step";
    }
  }
  if (!string(header.hostname) || header.hostname.size > 63 || !string(header.program)) {
    return "names";
  }
  if (const char* wrong = place(header.executable)) {
    return wrong;
  }
  return place(header.cwd);
}

}  // namespace

const char* check(const void* bytes, std::size_t size) {
  if (size < sizeof(Header) || size > max_size) {
    return "size";
  }
  const auto& header = *static_cast<const Header*>(bytes);
  if (header.magic != magic) {
    return "magic";
  }
  if (header.version != version) {
    return "version";
  }
  if (header.total_size != size) {
    return "total size";
  }
  constexpr std::uint32_t known = (exec_by_path << 1) - 1;
  if ((header.flags & ~known) != 0 || header.root_mode > 0777 || header.umask > 0777) {
    return "flags";
  }
  const std::uint32_t others =
      pid_namespace | ipc_namespace | uts_namespace | net_namespace | cgroup_namespace;
  if ((header.flags & mount_namespace) == 0 && (header.flags & others) != 0) {
    return "namespaces without a mount namespace";
  }
  if ((header.flags & mount_namespace) != 0 &&
      (header.flags & (user_namespace | pid_namespace)) != (user_namespace | pid_namespace)) {
    return "mount namespace without user and pid namespaces";
  }
  if ((header.flags & switch_user) != 0 && (header.outside_uid == no_id || header.outside_uid == 0)) {
    return "user to switch to";
  }
  return Checker(static_cast<const char*>(bytes), header).all();
}

}  // namespace hitchrail::plan
