#include "plugins/elf.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "hitchrail/adapter.h"

namespace hitchrail::plugins {
namespace {

// Sound programs have a dozen segments, a few hundred dynamic entries, a few dependencies.
constexpr std::size_t max_segments = 64;
constexpr std::size_t max_dynamic = 4096;
constexpr std::size_t max_listed = 8;  // names in a message

constexpr std::array<std::string_view, 5> allowed_needed = {"libc.so.6", "libm.so.6", "libstdc++.so.6",
                                                            "libgcc_s.so.1", "ld-linux-x86-64.so.2"};
#ifdef HITCHRAIL_SANITIZED_BUILD
constexpr std::array<std::string_view, 3> sanitizer_needed = {"libasan.so.8", "libubsan.so.1",
                                                              "libtsan.so.2"};
#else
constexpr std::array<std::string_view, 0> sanitizer_needed = {};
#endif

Error refuse(std::string code, std::string_view name, std::string detail, std::string remedy) {
  return {ErrorClass::refused, std::move(code),   "read plugin",
          std::string(name),   std::move(detail), std::move(remedy)};
}

std::string hex(std::uint64_t value) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + out;
}

bool valid_provider(std::string_view id) {
  if (id.empty() || id.size() > HR_MAX_PROVIDER_ID || id[0] < 'a' || id[0] > 'z') {
    return false;
  }
  return std::all_of(id.begin(), id.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

// The file as the loader will see it. Every read is bounds-checked; nothing is trusted to be aligned.
class Image {
 public:
  Image(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  template <class T>
  [[nodiscard]] std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return std::nullopt;
    }
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof(T));
    return out;
  }
  [[nodiscard]] std::optional<std::string_view> slice(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) {
      return std::nullopt;
    }
    return bytes_.substr(offset, size);
  }
  // File offset of a virtual address inside the file part of a loaded segment.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz) {
        const std::uint64_t inside = address - segment.p_vaddr;
        if (segment.p_offset <= bytes_.size() && inside <= bytes_.size() - segment.p_offset) {
          return segment.p_offset + inside;
        }
      }
    }
    return std::nullopt;
  }

  Status read_header() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
      return refuse("plugin-not-elf", name_, "found no ELF header; supported is an ELF shared object",
                    "Give the adapter's .so file.");
    }
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != EM_X86_64 || header->e_type != ET_DYN) {
      return refuse("plugin-not-elf", name_,
                    "found ELF class " + std::to_string(header->e_ident[EI_CLASS]) + ", machine " +
                        std::to_string(header->e_machine) + ", type " + std::to_string(header->e_type) +
                        "; supported is a 64-bit x86-64 shared object (class 2, machine 62, type 3)",
                    "Build the adapter with -shared -fPIC for this machine.");
    }
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0 || header->e_phnum > max_segments) {
      return malformed("program header table");
    }
    for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
      if (header->e_phoff > bytes_.size() || !segment) {
        return malformed("program header table");
      }
      segments_.push_back(*segment);
    }
    return {};
  }

  [[nodiscard]] Error malformed(std::string_view part) const {
    return refuse(
        "plugin-malformed", name_,
        "found a " + std::string(part) + " that does not fit the file; supported is a whole ELF file",
        "Build or copy the library again.");
  }
  [[nodiscard]] const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  std::string_view name_;
  std::vector<Elf64_Phdr> segments_;
};

std::string supported_abi() {
  return std::to_string(HR_ABI_MAJOR) + ".0 to " + std::to_string(HR_ABI_MAJOR) + "." +
         std::to_string(HR_ABI_MINOR);
}

std::string_view padded(const char* field, std::size_t size) {
  const std::string_view all(field, size);
  const auto end = all.find('\0');
  return end == std::string_view::npos ? all : all.substr(0, end);
}

Result<AdapterNote> parse_note(const Image& image, std::string_view desc) {
  if (desc.size() != HR_NOTE_DESC_SIZE) {
    return refuse("plugin-note-malformed", image.name(),
                  "found a Hitchrail note of " + std::to_string(desc.size()) + " bytes; supported are " +
                      std::to_string(HR_NOTE_DESC_SIZE),
                  "Write the note with HR_ADAPTER_NOTE of SDK " HR_SDK_VERSION " and build again.");
  }
  AdapterNote note;
  std::memcpy(&note.abi_major, desc.data(), 4);
  std::memcpy(&note.abi_minor, desc.data() + 4, 4);
  const std::string found = std::to_string(note.abi_major) + "." + std::to_string(note.abi_minor);
  if (note.abi_major != HR_ABI_MAJOR || note.abi_minor > HR_ABI_MINOR) {
    const bool newer = note.abi_major >= HR_ABI_MAJOR;
    return refuse(newer ? "plugin-abi-newer" : "plugin-abi-older", image.name(),
                  "found adapter ABI " + found + "; supported is " + supported_abi(),
                  newer ? "Install a Hitchrail that has adapter ABI " + found +
                              ", or rebuild the adapter with SDK " HR_SDK_VERSION "."
                        : std::string("Rebuild the adapter with SDK " HR_SDK_VERSION "."));
  }
  const std::string_view provider = padded(desc.data() + 8, 64);
  const std::string_view sdk = padded(desc.data() + 72, 16);
  if (!valid_provider(provider)) {
    return refuse("plugin-provider-invalid", image.name(),
                  "found provider id \"" + std::string(provider) +
                      "\"; supported is ^[a-z][a-z0-9-]*$ of at most 63 bytes",
                  "Name the provider in HR_ADAPTER_NOTE and build again.");
  }
  if (sdk.empty() || !std::all_of(sdk.begin(), sdk.end(), [](char c) { return c > ' ' && c < 127; })) {
    return refuse("plugin-note-malformed", image.name(),
                  "found an SDK version that is not printable text; supported is text as 0.1.0",
                  "Write the note with HR_ADAPTER_NOTE and build again.");
  }
  note.provider_id = provider;
  note.sdk_version = sdk;
  return note;
}

// Walks the notes of one PT_NOTE segment; appends the descriptions of ours.
Status collect_notes(const Image& image, const Elf64_Phdr& segment, std::vector<std::string_view>& found) {
  const auto bytes = image.slice(segment.p_offset, segment.p_filesz);
  if (!bytes) {
    return image.malformed("note segment");
  }
  const std::uint64_t align = segment.p_align == 8 ? 8 : 4;
  const auto up = [align](std::uint64_t value) { return (value + align - 1) & ~(align - 1); };
  constexpr std::string_view our_name(HR_NOTE_NAME, sizeof HR_NOTE_NAME);  // with its NUL
  std::uint64_t at = 0;
  while (bytes->size() - at >= 12) {
    std::array<std::uint32_t, 3> head{};
    std::memcpy(head.data(), bytes->data() + at, 12);
    const std::uint64_t desc_at = up(at + 12 + head[0]);
    const std::uint64_t end = desc_at + head[1];
    if (desc_at > bytes->size() || end > bytes->size()) {
      return image.malformed("note segment");
    }
    if (bytes->substr(at + 12, head[0]) == our_name && head[2] == HR_NOTE_TYPE) {
      found.push_back(bytes->substr(desc_at, head[1]));
    }
    at = std::min<std::uint64_t>(up(end), bytes->size());
  }
  return {};
}

Result<AdapterNote> find_note(const Image& image) {
  std::vector<std::string_view> found;
  for (const Elf64_Phdr& segment : image.segments()) {
    if (segment.p_type == PT_NOTE) {
      HR_CHECK(collect_notes(image, segment, found));
    }
  }
  if (found.empty()) {
    return refuse(
        "plugin-no-note", image.name(),
        "found no Hitchrail note; supported is adapter ABI " + supported_abi(),
        "Put HR_ADAPTER_NOTE(\"provider-id\"); into one source file of the adapter and build again.");
  }
  if (found.size() > 1) {
    return refuse("plugin-note-malformed", image.name(),
                  "found " + std::to_string(found.size()) + " Hitchrail notes; supported is exactly one",
                  "Use HR_ADAPTER_NOTE in one source file only.");
  }
  return parse_note(image, found.front());
}

// ---- the dynamic section
// ------------------------------------------------------------------------------------------

struct Dynamic {
  std::vector<std::uint64_t> needed;  // string table offsets
  std::uint64_t strings = 0, strings_size = 0, symbols = 0, hash = 0, gnu_hash = 0;
  bool has_hash = false, has_gnu_hash = false, has_symbols = false;
};

Status refuse_flags(const Image& image, std::uint64_t flags, std::uint64_t allowed, std::string_view tag) {
  if ((flags & ~allowed) == 0) {
    return {};
  }
  return refuse("plugin-dynamic-flag", image.name(),
                "found " + std::string(tag) + " " + hex(flags & ~allowed) +
                    "; supported are at most the flags " + hex(allowed),
                "Build with hitchrail_add_adapter or the flags of `pkg-config hitchrail-sdk`.");
}

Status take_entry(const Image& image, const Elf64_Dyn& entry, Dynamic& out) {
  const std::uint64_t value = entry.d_un.d_val;
  const auto search_path = [&](std::string_view tag) {
    return refuse("plugin-search-path", image.name(),
                  "found " + std::string(tag) + "; supported is a library without any search path or auditor",
                  "Link without -rpath (CMake: SKIP_BUILD_RPATH ON and no INSTALL_RPATH).");
  };
  switch (entry.d_tag) {
    case DT_NEEDED:
      out.needed.push_back(value);
      return {};
    case DT_STRTAB:
      out.strings = value;
      return {};
    case DT_STRSZ:
      out.strings_size = value;
      return {};
    case DT_SYMTAB:
      out.symbols = value;
      out.has_symbols = true;
      return {};
    case DT_HASH:
      out.hash = value;
      out.has_hash = true;
      return {};
    case DT_GNU_HASH:
      out.gnu_hash = value;
      out.has_gnu_hash = true;
      return {};
    case DT_RPATH:
      return search_path("DT_RPATH");
    case DT_RUNPATH:
      return search_path("DT_RUNPATH");
    case DT_AUDIT:
      return search_path("DT_AUDIT");
    case DT_DEPAUDIT:
      return search_path("DT_DEPAUDIT");
    case DT_FILTER:
      return search_path("DT_FILTER");
    case DT_AUXILIARY:
      return search_path("DT_AUXILIARY");
    case DT_TEXTREL:
      return refuse("plugin-text-relocation", image.name(),
                    "found DT_TEXTREL; supported is position-independent code",
                    "Compile every object with -fPIC.");
    case DT_FLAGS:
      if ((value & DF_TEXTREL) != 0) {
        return refuse("plugin-text-relocation", image.name(),
                      "found DF_TEXTREL; supported is position-independent code",
                      "Compile every object with -fPIC.");
      }
      return refuse_flags(image, value, DF_SYMBOLIC | DF_BIND_NOW | DF_STATIC_TLS, "DT_FLAGS");
    case DT_FLAGS_1:
      return refuse_flags(image, value, DF_1_NOW | DF_1_NODELETE, "DT_FLAGS_1");
    default:
      return {};
  }
}

Result<Dynamic> read_dynamic(const Image& image) {
  const auto is_dynamic = [](const Elf64_Phdr& segment) { return segment.p_type == PT_DYNAMIC; };
  const auto& segments = image.segments();
  if (std::count_if(segments.begin(), segments.end(), is_dynamic) != 1) {
    return image.malformed("dynamic section (exactly one is expected)");
  }
  const Elf64_Phdr& segment = *std::find_if(segments.begin(), segments.end(), is_dynamic);
  // The loader goes by address; a file that shows other bytes at p_offset would be judged by what is not
  // used.
  const auto start = image.offset_of(segment.p_vaddr);
  if (!start || *start != segment.p_offset) {
    return image.malformed("dynamic section");
  }
  Dynamic out;
  for (std::uint64_t i = 0;; ++i) {
    const auto entry = image.at<Elf64_Dyn>(*start + i * sizeof(Elf64_Dyn));
    if (!entry || i >= max_dynamic) {
      return image.malformed("dynamic section (no end)");
    }
    if (entry->d_tag == DT_NULL) {
      break;
    }
    HR_CHECK(take_entry(image, *entry, out));
  }
  return out;
}

class Strings {
 public:
  static Result<Strings> of(const Image& image, const Dynamic& dynamic) {
    const auto start = image.offset_of(dynamic.strings);
    const auto bytes = start ? image.slice(*start, dynamic.strings_size) : std::nullopt;
    if (!bytes || bytes->empty() || bytes->back() != '\0') {
      return image.malformed("string table");
    }
    return Strings(*bytes);
  }
  [[nodiscard]] std::optional<std::string_view> at(std::uint64_t offset) const {
    if (offset >= bytes_.size()) {
      return std::nullopt;
    }
    return bytes_.substr(offset, bytes_.find('\0', offset) - offset);
  }

 private:
  explicit Strings(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

Result<std::vector<std::string>> read_needed(const Image& image, const Dynamic& dynamic,
                                             const Strings& strings) {
  std::vector<std::string> out;
  for (const std::uint64_t offset : dynamic.needed) {
    const auto name = strings.at(offset);
    if (!name) {
      return image.malformed("list of dependencies");
    }
    const auto listed = [&](const auto& list) {
      return std::find(list.begin(), list.end(), *name) != list.end();
    };
    if (!listed(allowed_needed) && !listed(sanitizer_needed)) {
      return refuse(
          "plugin-dependency", image.name(),
          "found a dependency on " + std::string(*name) +
              "; supported are libc.so.6, libm.so.6, libstdc++.so.6, libgcc_s.so.1, ld-linux-x86-64.so.2",
          "Link the code of " + std::string(*name) + " statically into the adapter, or do without it.");
    }
    out.emplace_back(*name);
  }
  return out;
}

// ---- exported symbols
// ---------------------------------------------------------------------------------------------

// Indices that a look-up in the library can find, from the table the loader uses (DT_GNU_HASH before
// DT_HASH).
Result<std::vector<std::uint64_t>> hashed_symbols(const Image& image, const Dynamic& dynamic) {
  std::vector<std::uint64_t> out;
  const std::uint64_t most = image.size() / sizeof(Elf64_Sym);
  if (!dynamic.has_gnu_hash) {
    const auto start = dynamic.has_hash ? image.offset_of(dynamic.hash) : std::nullopt;
    const auto count = start ? image.at<std::uint32_t>(*start + 4) : std::nullopt;  // nchain
    if (!count || *count > most) {
      return image.malformed("symbol hash table");
    }
    for (std::uint64_t i = 1; i < *count; ++i) {
      out.push_back(i);
    }
    return out;
  }
  const auto start = image.offset_of(dynamic.gnu_hash);
  const auto head = start ? image.at<std::array<std::uint32_t, 4>>(*start) : std::nullopt;
  if (!head) {
    return image.malformed("symbol hash table");
  }
  const auto [bucket_count, first, bloom_words, shift] = *head;
  const std::uint64_t buckets = *start + 16 + std::uint64_t{bloom_words} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{bucket_count} * 4;
  if (bucket_count > most + 1) {
    return image.malformed("symbol hash table");
  }
  for (std::uint64_t b = 0; b < bucket_count; ++b) {
    const auto bucket = image.at<std::uint32_t>(buckets + b * 4);
    if (!bucket || (*bucket != 0 && *bucket < first)) {
      return image.malformed("symbol hash table");
    }
    for (std::uint64_t i = *bucket; i != 0; ++i) {
      const auto hash = image.at<std::uint32_t>(chains + (i - first) * 4);
      if (!hash || out.size() > most) {
        return image.malformed("symbol hash table");
      }
      out.push_back(i);
      if ((*hash & 1) != 0) {
        break;
      }
    }
  }
  return out;
}

Result<std::vector<std::string>> read_exports(const Image& image, const Dynamic& dynamic,
                                              const Strings& strings) {
  HR_TRY(indices, hashed_symbols(image, dynamic));
  const auto table = dynamic.has_symbols ? image.offset_of(dynamic.symbols) : std::nullopt;
  if (!table) {
    return image.malformed("symbol table");
  }
  std::vector<std::string> out;
  for (const std::uint64_t index : indices) {
    const auto symbol = image.at<Elf64_Sym>(*table + index * sizeof(Elf64_Sym));
    const auto name = symbol ? strings.at(symbol->st_name) : std::nullopt;
    if (!name) {
      return image.malformed("symbol table");
    }
    const auto visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
        visibility != STV_HIDDEN && visibility != STV_INTERNAL) {
      out.emplace_back(*name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Status judge_exports(const Image& image, const std::vector<std::string>& exports) {
  if (exports.size() == 1 && exports.front() == HR_ENTRY_SYMBOL) {
    return {};
  }
  const bool has_entry = std::find(exports.begin(), exports.end(), HR_ENTRY_SYMBOL) != exports.end();
  std::string found;
  std::size_t listed = 0;
  for (const std::string& name : exports) {
    if (name != HR_ENTRY_SYMBOL && listed++ < max_listed) {
      found += (found.empty() ? "" : ", ") + name;
    }
  }
  if (listed > max_listed) {
    found += " and " + std::to_string(listed - max_listed) + " more";
  }
  return refuse("plugin-export", image.name(),
                "found " +
                    (has_entry ? "besides " HR_ENTRY_SYMBOL " the exported symbols " + found
                               : "no exported " HR_ENTRY_SYMBOL + (found.empty() ? "" : ", but " + found)) +
                    "; supported is the one symbol " HR_ENTRY_SYMBOL,
                has_entry
                    ? "Link with the SDK's hitchrail-adapter.map (hitchrail_add_adapter does)."
                    : "Define `HR_EXPORT const hr_adapter *hitchrail_adapter_entry(void)` with C linkage.");
}

// Code that can be written while it runs: an executable stack (also by default, without PT_GNU_STACK) or
// segment.
Status judge_segments(const Image& image) {
  bool stack = true;
  for (const Elf64_Phdr& segment : image.segments()) {
    if (segment.p_type == PT_GNU_STACK) {
      stack = (segment.p_flags & PF_X) != 0;
    }
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0) {
      return refuse("plugin-writable-code", image.name(),
                    "found a segment that is writable and executable; supported is either",
                    "Link without -z separate-code tricks and without -N.");
    }
  }
  if (stack) {
    return refuse("plugin-writable-code", image.name(),
                  "found a library that asks for an executable stack; supported is -z noexecstack",
                  "Link with -Wl,-z,noexecstack; assembler files need a .note.GNU-stack section.");
  }
  return {};
}

}  // namespace

Result<ElfReport> inspect_adapter(std::string_view bytes, std::string_view name) {
  Image image(bytes, name);
  HR_CHECK(image.read_header());
  ElfReport report;
  HR_TRY(note, find_note(image));
  report.note = std::move(note);
  HR_TRY(dynamic, read_dynamic(image));
  HR_TRY(strings, Strings::of(image, dynamic));
  HR_TRY(needed, read_needed(image, dynamic, strings));
  report.needed = std::move(needed);
  HR_CHECK(judge_segments(image));
  HR_TRY(exports, read_exports(image, dynamic, strings));
  report.exports = std::move(exports);
  HR_CHECK(judge_exports(image, report.exports));
  return report;
}

Result<AdapterNote> read_adapter_note(std::string_view bytes, std::string_view name) {
  Image image(bytes, name);
  HR_CHECK(image.read_header());
  return find_note(image);
}

Result<AdapterNote> read_adapter_note(int sealed_fd, std::string_view name) {
  struct stat status {};
  if (::fstat(sealed_fd, &status) != 0 || status.st_size <= 0) {
    return errno_error("stat plugin", std::string(name), errno);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, sealed_fd, 0);
  if (map == MAP_FAILED) {
    return errno_error("map plugin", std::string(name), errno);
  }
  auto note = read_adapter_note(std::string_view(static_cast<const char*>(map), size), name);
  ::munmap(map, size);
  return note;
}

}  // namespace hitchrail::plugins
