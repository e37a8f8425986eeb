#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "boundary/internal.hpp"

namespace hitchrail::boundary {
namespace {

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}
std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::uint64_t rights::handled(int abi) {
  if (abi <= 0) {
    return 0;
  }
  std::uint64_t all = refer - 1;  // ABI 1: the first thirteen
  all |= abi >= 2 ? refer : 0;
  all |= abi >= 3 ? truncate : 0;
  all |= abi >= 5 ? ioctl_dev : 0;
  return all;
}
std::uint64_t rights::scoped(int abi) {
  return abi >= 6 ? 3 : 0;
}  // abstract sockets, signals

PlanWriter::PlanWriter() {
  strings_.push_back('\0');  // offset 0 is the empty string
  steps_.push_back(plan::Step{});
  objects_.push_back({"/", 0, true});
  header.magic = plan::magic;
  header.version = plan::version;
  header.outside_uid = header.outside_gid = plan::no_id;
  header.root_mode = 0755;
  header.umask = 022;
}

plan::String PlanWriter::string(const std::string& text) {
  if (text.empty()) {
    return {0, 0};
  }
  const auto offset = static_cast<std::uint32_t>(strings_.size());
  strings_ += text;
  strings_.push_back('\0');
  return {offset, static_cast<std::uint32_t>(text.size())};
}

std::uint32_t PlanWriter::add(plan::Step step, const std::string& name, const std::string& text) {
  step.name = string(name);
  step.text = string(text);
  steps_.push_back(step);
  return static_cast<std::uint32_t>(steps_.size() - 1);
}

void PlanWriter::rule(std::uint32_t step, std::uint64_t access) {
  if (access != 0) {
    rules_.push_back({step, 0, access});
  }
}

const PlanWriter::Object& PlanWriter::nearest(const std::string& path) const {
  const Object* best = &objects_.front();
  for (const Object& object : objects_) {  // a later object at the same path covers the earlier one
    if (contains(object.path, path) && object.path.size() >= best->path.size()) {
      best = &object;
    }
  }
  return *best;
}

bool PlanWriter::known(const std::string& path) const {
  return nearest(path).path == path;
}
bool PlanWriter::in_overlay(const std::string& path) const {
  return nearest(path).overlay;
}
bool PlanWriter::covered(const std::string& path) const {
  return !nearest(path).skeleton;
}

void PlanWriter::object_at(const std::string& path, std::uint32_t step, bool skeleton) {
  objects_.push_back({path, step, skeleton});
}

std::uint32_t PlanWriter::node(const std::string& path, bool directory) {
  const Object base = nearest(path);
  if (base.path == path) {
    return base.step;
  }
  if (!base.skeleton) {
    return existing(path, {});
  }
  const std::uint32_t parent = node(parent_of(path), true);
  plan::Step step{};
  step.kind = directory ? plan::step_directory : plan::step_file;
  step.parent = parent;
  step.mode = directory ? 0755 : 0644;
  const std::uint32_t made = add(step, name_of(path), "");
  object_at(path, made, true);
  return made;
}

std::uint32_t PlanWriter::existing(const std::string& path, const Identity& identity) {
  const Object base = nearest(path);
  if (base.path == path) {
    return base.step;
  }
  plan::Step step{};
  step.kind = plan::step_open;
  step.parent = existing(parent_of(path), {});
  step.identity =
      base.layer ? plan::Identity{} : plan::Identity{base.overlay ? 0 : identity.dev, identity.ino};
  const std::uint32_t opened = add(step, name_of(path), "");
  objects_.push_back({path, opened, false, base.overlay, base.layer});
  return opened;
}

std::uint32_t PlanWriter::mount(const Root& root, const std::string& target, std::uint32_t flags,
                                bool skeleton) {
  plan::Step step{};
  step.kind = plan::step_mount;
  step.parent = node(target, root.directory);
  step.flags = flags;
  step.identity = {root.identity.dev, root.identity.ino};
  const std::uint32_t made = add(step, "", root.path);
  object_at(target, made, skeleton);
  return made;
}

std::uint32_t PlanWriter::clone(std::uint32_t object, std::uint32_t onto, const std::string& path,
                                std::uint32_t flags) {
  plan::Step step{};
  step.kind = plan::step_clone;
  step.parent = onto;
  step.other = object;
  step.flags = flags;
  const std::uint32_t made = add(step, name_of(path), "");
  const bool of_overlay = std::any_of(objects_.begin(), objects_.end(), [&](const Object& each) {
    return each.step == object && each.overlay;
  });
  objects_.push_back({path, made, false, of_overlay});
  return made;
}

std::uint32_t PlanWriter::overlay(const Root& upper, const OverlayDirectory& directory,
                                  const std::string& target, std::uint32_t flags) {
  const auto [end, ignored] =
      std::mismatch(upper.path.begin(), upper.path.end(), directory.path.begin(), directory.path.end());
  const auto same = static_cast<std::size_t>(end - upper.path.begin());
  plan::Step step{};
  step.kind = plan::step_overlay;
  step.parent = node(target, true);
  step.flags = flags;
  step.identity = {upper.identity.dev, upper.identity.ino};
  step.second = {directory.identity.dev, directory.identity.ino};
  // Both begin with this directory: up to the last slash of what is the same.
  step.size = std::max<std::size_t>(upper.path.rfind('/', same), 1);
  const std::uint32_t made = add(step, directory.path, upper.path);
  objects_.push_back({target, made, false, true});
  return made;
}

std::uint32_t PlanWriter::layer(const Root& lower, const std::string& target, std::uint32_t flags,
                                std::uint64_t size) {
  plan::Step step{};
  step.kind = plan::step_layer;
  step.parent = node(target, true);
  step.flags = flags;
  step.identity = {lower.identity.dev, lower.identity.ino};
  step.size = size;
  const std::uint32_t made = add(step, "", lower.path);
  objects_.push_back({target, made, false, true, true});
  return made;
}

void PlanWriter::cover(const Root& entry, std::uint32_t object, std::uint32_t flags) {
  const Object base = nearest(entry.path);
  if (base.path == entry.path) {  // known already: an ordinary clone over it
    clone(object == plan::no_step ? base.step : object, base.step, entry.path, flags);
    return;
  }
  plan::Step step{};
  step.kind = plan::step_cover;
  step.parent = base.step;
  step.other = object;
  step.flags = flags;
  // Of a layer's own object the identity is that in the lower layer: whole.
  step.identity = {base.overlay && !base.layer ? 0 : entry.identity.dev, entry.identity.ino};
  add(step, entry.path.substr(base.path == "/" ? 1 : base.path.size() + 1), "");
}

void PlanWriter::file(const std::string& path, const std::string& content, std::uint32_t mode) {
  plan::Step step{};
  step.kind = plan::step_file;
  step.parent = node(parent_of(path), true);
  step.mode = mode;
  object_at(path, add(step, name_of(path), content), true);
}

void PlanWriter::link(const std::string& path, const std::string& text) {
  plan::Step step{};
  step.kind = plan::step_symlink;
  step.parent = node(parent_of(path), true);
  add(step, name_of(path), text);
}

std::uint32_t PlanWriter::special(plan::StepKind kind, const std::string& path, std::uint32_t flags,
                                  std::uint32_t mode, std::uint64_t size) {
  plan::Step step{};
  step.kind = kind;
  step.parent = node(path, true);
  step.flags = flags;
  step.mode = mode;
  step.size = size;
  const std::uint32_t made = add(step, name_of(path), "");
  object_at(path, made, false);
  return made;
}

std::uint32_t PlanWriter::source(const Root& root) {
  plan::Step step{};
  step.kind = plan::step_source;
  step.identity = {root.identity.dev, root.identity.ino};
  const std::uint32_t made = add(step, "", root.path);
  object_at(root.path, made, false);
  return made;
}

plan::Place PlanWriter::place(const std::string& path) {
  const Object base = nearest(path);
  plan::Place place{};
  place.step = base.step;
  std::size_t skip = base.path == "/" ? 1 : base.path.size() + 1;
  place.relative = string(path.size() > skip ? path.substr(skip) : "");
  return place;
}

std::string PlanWriter::bytes() {
  std::string out(sizeof(plan::Header), '\0');
  const auto append = [&](const void* data, std::size_t size, std::size_t count) {
    out.resize((out.size() + 7) & ~std::size_t{7});
    const plan::Array array{static_cast<std::uint32_t>(out.size()), static_cast<std::uint32_t>(count)};
    out.append(static_cast<const char*>(data), size);
    return array;
  };
  const auto list = [&](const std::vector<std::string>& texts) {
    std::vector<plan::String> refs;
    for (const std::string& text : texts) {
      refs.push_back(string(text));
    }
    return append(refs.data(), refs.size() * sizeof(plan::String), refs.size());
  };
  header.steps = append(steps_.data(), steps_.size() * sizeof(plan::Step), steps_.size());
  header.rules = append(rules_.data(), rules_.size() * sizeof(plan::LandlockRule), rules_.size());
  header.rlimits = append(rlimits.data(), rlimits.size() * sizeof(plan::Rlimit), rlimits.size());
  header.filter = append(filter.data(), filter.size(), filter.size() / sizeof(plan::Filter));
  header.argv = list(argv);
  header.env = list(env);
  header.secret_env = list(secret_env);
  header.cgroups = list(cgroups);
  header.listeners = append(listeners.data(), listeners.size() * sizeof(plan::Listener), listeners.size());
  header.strings = append(strings_.data(), strings_.size(), strings_.size());
  header.total_size = static_cast<std::uint32_t>(out.size());
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

}  // namespace hitchrail::boundary
