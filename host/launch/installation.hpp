#pragma once
// Where this build's own parts lie: the programs of a run, the in-tree plugins with their digest list,
// profiles; and the operator's configuration folder. Found from the running executable, never from the
// environment's PATH.
//
//   installed   PREFIX/bin/hitchrail, PREFIX/libexec/hitchrail/hitchrail-*, PREFIX/lib/hitchrail/plugins,
//   PREFIX/share/hitchrail/profiles build tree  BUILD/bin/hitchrail, BUILD/bin/hitchrail-*, BUILD/plugins,
//   BUILD/profiles
//
// Refuses: installation-incomplete when a program is missing.

#include <string>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::launch {

struct ExtraDirs {
  std::vector<std::string> plugins;
  std::vector<std::string> profiles;
};

struct Installation {
  std::string program_dir;                // holds hitchrail-shim and the others
  std::string builtin_plugin_dir;         // digest list beside the libraries
  std::string builtin_profile_dir;        // harness/ and sandbox/ below
  std::string config_dir;                 // $HITCHRAIL_CONFIG, else XDG; may be absent
  std::vector<std::string> plugin_dirs;   // search order: extra, configuration, built in
  std::vector<std::string> profile_dirs;  // the same
};

Result<Installation> find_installation(const ExtraDirs& extra);
Result<Fd> open_program(const Installation& installation, const std::string& name);
std::string home_directory();  // $HOME when absolute, else ""

}  // namespace hitchrail::launch
