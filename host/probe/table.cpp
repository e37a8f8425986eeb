#include "probe/table.hpp"

#include <cstring>

namespace hitchrail::probe {
namespace {

// clang-format off
// Content outside is read
const Row group_0[] = {
    {"read_outside", "A file outside every granted root is opened for reading.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"list_outside", "A directory outside is listed.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"exec_outside", "A program outside is executed.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"map_outside", "A file outside is mapped into memory.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"symlink_outside", "A link made in the worktree points outside and is followed.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"directory_link_outside", "A link to a directory outside is followed on the way to a file.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"dotdot_outside", "The file outside is reached by `..` from the worktree.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"dotdot_descriptor", "The same, from a descriptor of the worktree.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"proc_root", "The file outside is reached through /proc/self/root.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"proc_cwd", "The file outside is reached through /proc/self/cwd.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"proc_descriptor", "The file outside is reached through /proc/self/fd of a directory.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"link_outside", "A hard link to a file outside is made in the worktree.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EXDEV", "NL"}, {}, 0},
    {"lease_outside", "A lease is taken on a file outside.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"exchange_race", "A directory is exchanged with a link to the outside again and again while a file in it is opened.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"control_token", "The token that controls the run is read.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"password_hashes", "The system's password hashes are read.", "filesystem.read", Kind::attack, Control::needs_root, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"fork_reads_outside", "A child does it.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"orphan_reads_outside", "A grandchild in a session of its own does it.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"thread_reads_outside", "A second thread does it.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"memory_program_reads_outside", "A program that exists only in memory does it.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"exit 1", "exit 1", "NL"}, {}, 0},
    {"inherited_descriptor", "A file that the launcher held open is still open.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"EBADF", "EBADF", "CNLS"}, {}, 0},
    {"inherited_directory", "A file is opened below a directory that the launcher held open.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"EBADF", "EBADF", "CNLS"}, {}, 0},
    {"inherited_socket", "A socket that the launcher held open is still open.", "filesystem.read", Kind::attack, Control::works, Setting::host_network, {"EBADF", "EBADF", "CNLS"}, {}, 0},
    {"file_handle", "A file is opened by its handle, past every path.", "filesystem.read", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"file_handle_outside", "The handle of a file outside is asked for.", "filesystem.read", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "NS"}, {}, 0},
};
// Content outside is changed
const Row group_1[] = {
    {"write_outside", "A file outside is opened for writing.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"append_outside", "A file outside is opened for appending.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"truncate_outside", "A file outside is cut to nothing without being opened.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"create_outside", "A new file is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"temporary_outside", "A file without a name is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"mkdir_outside", "A directory is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"rmdir_outside", "A directory outside is removed.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"unlink_outside", "A file outside is removed.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"rename_in", "A file outside is moved into the worktree.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"rename_out", "A file of the run is moved over one outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"exchange_outside", "A file of the run is exchanged with one outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"symlink_made_outside", "A link is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"link_made_outside", "A hard link to a file of the run is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"fifo_outside", "A FIFO is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"socket_made_outside", "A socket is made outside.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EAFNOSUPPORT", "NLS"}, {}, 0},
    {"write_read_only", "A file of a read-only root is opened for writing.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"create_read_only", "A file is made in a read-only root.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"unlink_read_only", "A file of a read-only root is removed.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"rename_read_only", "A file of a read-only root is moved into the worktree.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EACCES", "NL"}, {}, 0},
    {"link_read_only", "A hard link of a read-only file is made where it can be written.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EXDEV", "NL"}, {}, 0},
    {"link_by_descriptor", "The same by descriptor, so that no path of the read-only root is named.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EXDEV", "NL"}, {}, 0},
    {"link_empty_path", "The same with AT_EMPTY_PATH.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EXDEV", "NL"}, {}, 0},
    {"descriptor_reopened", "A file of a read-only root, open for reading, is opened again for writing through /proc.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"rename_worktree", "The worktree itself is moved away.", "filesystem.write", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"write_system", "A file of the system is opened for writing.", "filesystem.write", Kind::attack, Control::needs_root, Setting::host_network, {"EROFS", "EACCES", "NL"}, {"EACCES", "EACCES", "NL"}, 0},
    {"create_system", "A file without a name is made in a system folder.", "filesystem.write", Kind::attack, Control::needs_root, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"create_in_root", "A file without a name is made at the top of the file system.", "filesystem.write", Kind::attack, Control::needs_root, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
};
// Metadata outside is seen or changed
const Row group_2[] = {
    {"stat_outside", "The size and times of a file outside are looked at.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"statx_outside", "The same by statx.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"access_outside", "It is asked whether a file outside exists.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"chdir_outside", "A directory outside becomes the working directory.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"readlink_outside", "A link outside is read.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"path_descriptor_outside", "A descriptor that only names a file outside is made.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"chmod_outside", "The mode of a file outside is changed.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"chown_outside", "The owner of a file outside is set.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"utime_outside", "The times of a file outside are set.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"xattr_outside", "An extended attribute of a file outside is set.", "filesystem.metadata", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"inotify_outside", "A directory outside is watched.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"chmod_read_only", "The mode of a file of a read-only root is changed.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
    {"utime_read_only", "The times of a file of a read-only root are set.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
    {"xattr_read_only", "An extended attribute of a file of a read-only root is set.", "filesystem.metadata", Kind::attack, Control::machine, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
    {"protected_chmod", "The mode of a file below a protected name is changed.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
    {"protected_utime", "The times of a protected name are set.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
    {"denied_list", "A denied directory is listed.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EACCES", "through", "N"}, {}, 0},
    {"denied_chmod", "The mode of a denied directory is changed.", "filesystem.metadata", Kind::attack, Control::works, Setting::host_network, {"EROFS", "through", "N"}, {}, 0},
};
// Denied paths
const Row group_3[] = {
    {"denied_read", "A file below a denied path is read.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EACCES", "EACCES", "NL"}, {}, 0},
    {"denied_write", "A file below a denied path is written.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EACCES", "EACCES", "NL"}, {}, 0},
    {"denied_create", "A file is made below a denied path.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EACCES", "EACCES", "NL"}, {}, 0},
    {"denied_rename", "A denied directory is moved to where it can be read.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"denied_exchange", "A denied directory is exchanged with one of the run.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"denied_link", "A hard link of a denied file is made where it can be read.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EACCES", "EXDEV", "NL"}, {}, 0},
    {"denied_unlink", "A denied file is removed.", "filesystem.denied", Kind::attack, Control::works, Setting::host_network, {"EACCES", "EACCES", "NL"}, {}, 0},
};
// Protected names
const Row group_4[] = {
    {"protected_write", "An existing file below a protected name is opened for writing.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_truncate", "It is cut to nothing.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_unlink", "It is removed.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_create_inside", "A new file is made below an existing protected name.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_by_descriptor", "A protected name is made relative to a descriptor of the worktree.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_create", "A protected name that did not exist is made and filled.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_mkdir", "A protected name that did not exist is made as a directory.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EEXIST", "EACCES", "NL"}, {}, 0},
    {"protected_file", "A protected name that did not exist is made as a file.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EEXIST", "EACCES", "NL"}, {}, 0},
    {"protected_fifo", "A protected name that did not exist is made as a FIFO.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EEXIST", "EACCES", "NL"}, {}, 0},
    {"protected_symlink", "A protected name is made as a link to a directory of the run.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EEXIST", "EACCES", "NL"}, {}, 0},
    {"protected_socket", "A protected name that did not exist is made as a socket.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EADDRINUSE", "EAFNOSUPPORT", "NLS"}, {}, 0},
    {"protected_rename", "A directory made under another name becomes a protected name.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"protected_rename_file", "A file made under another name becomes a protected name.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EISDIR", "EACCES", "NL"}, {}, 0},
    {"protected_exchange", "A directory of the run is exchanged with the protected .git.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"protected_rename_away", "The protected .git is moved to another name.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EBUSY", "EACCES", "NL"}, {}, 0},
    {"protected_remove", "A protected name is removed, so that another can be made.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_rename_inside", "A file written elsewhere is moved into .git as a hook.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EACCES", "NL"}, {}, 0},
    {"protected_link", "A file of the run is linked into .git.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EROFS", "EACCES", "NL"}, {}, 0},
    {"protected_link_out", "A file of .git is linked to where it can be written.", "filesystem.protected-names", Kind::attack, Control::works, Setting::host_network, {"EXDEV", "EXDEV", "NL"}, {}, 0},
};
// Set-id files, file capabilities and devices
const Row group_5[] = {
    {"set_id_chmod", "A file of the run is made set-user-id by chmod.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_gid_chmod", "A file of the run is made set-group-id by chmod.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_high_bits", "The same with bits set that the kernel does not look at.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_fchmod", "A file of the run is made set-user-id by its descriptor.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_fchmodat", "A file of the run is made set-user-id relative to a directory.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_fchmodat2", "A file of the run is made set-user-id by the newest call.", "filesystem.set-id", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_open", "A file is made set-user-id when it is opened.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_openat", "The same relative to a directory.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_openat2", "A file is made set-user-id by openat2, whose mode no filter can see.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"ENOSYS", "ENOSYS", "S"}, {}, 0},
    {"set_id_creat", "The same by creat.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_temporary", "A file without a name is made set-user-id, to be linked later.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_mknod", "A set-user-id file is made by mknod.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"set_id_mknodat", "The same relative to a directory.", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"device_node", "A character device is made (0:0, which the kernel lets everybody make).", "filesystem.set-id", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "LS"}, {}, 0},
    {"device_by_rename", "A rename that leaves a character device behind (0:0, which the kernel lets everybody make).", "filesystem.set-id", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"character_device", "A copy of /dev/null is made.", "filesystem.set-id", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"block_device", "A block device is made.", "filesystem.set-id", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"file_capability", "A file of the run is given a capability.", "filesystem.set-id", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
};
// The host's /tmp
const Row group_6[] = {
    {"temporary_read", "A file in the host's /tmp is read.", "filesystem.private-tmp", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"temporary_removed", "A file in the host's /tmp is removed.", "filesystem.private-tmp", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
};
// Namespaces and mounts
const Row group_7[] = {
    {"user_namespace", "A new user namespace is made, which gives every capability in it.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"clone_namespace", "The same by clone.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"clone3_namespace", "The same by clone3, whose flags no filter can see.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"ENOSYS", "ENOSYS", "S"}, {}, 0},
    {"user_namespace_with_mounts", "A user namespace and a mount in it are made together.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "LS"}, {}, 0},
    {"mount_namespace", "A new mount namespace is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"network_namespace", "A new network namespace is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"time_namespace", "A new time namespace is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"enter_namespace", "The mount namespace of another process is entered.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EACCES", "EACCES", "CNLS"}, {}, 0},
    {"enter_by_process", "The namespaces of another process are entered by its descriptor.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_tmpfs", "Something is mounted over /tmp.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_bind", "A directory is bound over another.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_proc", "A /proc with everything in it is mounted.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_cgroup", "The control groups are mounted.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_overlay", "An overlay is mounted.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"remount_writable", "A read-only mount is made writable.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"unmount", "A mount is taken away, and with it what it covered.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"pivot_root", "The root is exchanged.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"chroot", "The root is moved.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"open_tree", "A detached copy of a mount is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"fsopen", "A file system is made by descriptor.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"fspick", "A mounted file system is picked to be changed.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"move_mount", "A mount is moved.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"mount_attributes", "The attributes of a mount are changed.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
};
// Doors past the filter, other entries, kernel settings
const Row group_8[] = {
    {"io_uring", "An io_uring is made, whose operations no filter sees.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"bpf", "A bpf map is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"perf_event", "A performance counter of the program itself is opened.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"userfaultfd", "Page faults are handled by the program itself.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"keyring", "A key is put into the process's keyring.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"keyring_join", "A session keyring is joined.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"key_request", "A key is asked for.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"fanotify", "File accesses of a mount are listened to.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"fanotify_permission", "File accesses are decided about.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"swapon", "A swap file is named (one that does not exist).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"reboot", "The machine is restarted (with a wrong magic number).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"kernel_log", "The kernel's log is read.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"host_name", "The host name is set (to one of a wrong length).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"domain_name", "The domain name is set (to one of a wrong length).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"accounting", "Process accounting is switched on (to a file that does not exist).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"clock_adjust", "The clock's rate is changed (with an impossible value).", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"clock", "The clock is set (to an impossible time).", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"disk_quota", "A disk quota is changed (on a device that does not exist).", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"port_access", "Access to the machine's ports is asked for.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"i386_entry", "A system call is made through the i386 entry, whose numbers mean other things.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"killed SYS", "killed SYS", "S"}, {}, 0},
    {"x32_number", "A system call is made by its x32 number.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"killed SYS", "killed SYS", "S"}, {}, 0},
    {"kernel_setting", "The kernel setting that names a program run as root is opened for writing.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"memory_setting", "A kernel setting of the memory is opened for writing.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"network_setting", "A kernel setting of the network is opened for writing.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"kernel_messages", "The kernel's messages are opened.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"ENOENT", "EPERM", "CNLS"}, {"ENOENT", "EACCES", "CNLS"}, 0},
    {"kernel_message_device", "The kernel's message device is opened.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {}, 0},
    {"network_device", "The device that makes network interfaces is opened.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"devices_of_the_kernel", "The kernel's device tree is listed.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"terminal_injection", "A character is pushed into the input of a terminal.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EACCES", "LS"}, {}, 0},
    {"terminal_injection_high_bit", "The same with a high bit set, which the kernel does not look at.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EACCES", "LS"}, {}, 0},
    {"terminal_selection", "The console's selection is pasted (the pseudo-terminal has none).", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EACCES", "LS"}, {}, 0},
    {"terminal_selection_high_bit", "The same with a high bit set.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EACCES", "LS"}, {}, 0},
    {"capability_held", "A capability is still there, or can be had back.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"become_another_user", "The program becomes another user.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EINVAL", "EPERM", "CNLS"}, {}, 0},
    {"ptrace_child", "A child of the program lets itself be traced.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
    {"process_memory", "The memory of a child is read by system call.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "S"}, {}, 0},
};
// Unusual socket families
const Row group_9[] = {
    {"netlink_generic", "A generic netlink socket is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"netlink_events", "A netlink socket for device events is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"netlink_audit", "A netlink socket for audit records is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"netlink_sockets", "A netlink socket that lists the sockets of others is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"netlink_filter", "A netlink socket for packet filters is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"machine_socket", "A socket to the machine's host is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"crypto_socket", "A socket to the kernel's ciphers is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"local_socket_family", "A socket of a family that is rarely looked at is made.", "kernel.surface", Kind::attack, Control::machine, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "S"}, {}, 0},
    {"packet_socket", "A socket that sees every packet is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EAFNOSUPPORT", "EAFNOSUPPORT", "CNLS"}, {}, 0},
    {"raw_socket", "A raw IP socket is made.", "kernel.surface", Kind::attack, Control::needs_root, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
};
// Other processes
const Row group_10[] = {
    {"ptrace_outsider", "A process outside is traced.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {"EPERM", "EPERM", "NLS"}, 0},
    {"process_memory_outsider", "The memory of a process outside is read by system call.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {"EPERM", "EPERM", "NLS"}, 0},
    {"outsider_memory", "The memory of a process outside is opened.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {"ENOENT", "EACCES", "NL"}, 0},
    {"outsider_environment", "The environment of a process outside is read.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {"ENOENT", "EACCES", "NL"}, 0},
    {"outsider_root", "The file system is seen through a process outside.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {"ENOENT", "EACCES", "NL"}, 0},
    {"outsider_directory", "The working directory of a process outside is opened.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {"ENOENT", "EACCES", "NL"}, 0},
    {"parent_memory", "The memory of the init that started the run is opened.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EACCES", "EACCES", "CNLS"}, {}, 0},
    {"parent_environment", "Its environment is read.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EACCES", "EACCES", "CNLS"}, {}, 0},
    {"parent_root", "The file system is seen through it.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EACCES", "EACCES", "CNLS"}, {}, 0},
    {"parent_traced", "It is traced.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {}, 0},
    {"signal_parent", "The init that started the run is killed.", "process.isolation", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EPERM", "NL"}, {}, 6},
    {"signal_outsider", "A process outside is sent a signal.", "process.isolation", Kind::attack, Control::works, Setting::host_network, {"ESRCH", "EPERM", "NL"}, {}, 0},
    {"signal_thread_outsider", "A thread of it is sent a signal.", "process.isolation", Kind::attack, Control::works, Setting::host_network, {"ESRCH", "EPERM", "NL"}, {}, 0},
    {"signal_queued_outsider", "It is sent a signal with a value.", "process.isolation", Kind::attack, Control::works, Setting::host_network, {"ESRCH", "EPERM", "NL"}, {}, 0},
    {"signal_by_descriptor", "It is sent a signal by its descriptor.", "process.isolation", Kind::attack, Control::works, Setting::host_network, {"ESRCH", "EPERM", "NL"}, {}, 0},
    {"descriptor_of_outsider", "A descriptor of a process outside is taken.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "EPERM", "CNLS"}, {"ESRCH", "EPERM", "NLS"}, 0},
    {"kcmp_outsider", "The descriptors of a process outside are compared with the program's own.", "process.isolation", Kind::attack, Control::machine, Setting::host_network, {"EPERM", "EPERM", "CNLS"}, {"EPERM", "EPERM", "NLS"}, 0},
};
// What other processes write to, and their settings
const Row group_11[] = {
    {"outsider_listed", "A process outside is seen in /proc.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"outsider_stream", "What a process outside writes to is opened.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "CNLS"}, {"ENOENT", "EACCES", "NL"}, 0},
    {"limits_of_outsider", "The limits of a process outside are set to what they are.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "through", "N"}, {}, 0},
    {"priority_of_outsider", "A process outside is made slower.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "EPERM", "CNLS"}, {"ESRCH", "through", "N"}, 0},
    {"affinity_of_outsider", "The processors of a process outside are chosen.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "EPERM", "CNLS"}, {"ESRCH", "through", "N"}, 0},
    {"scheduler_of_outsider", "The scheduling class of a process outside is chosen.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "EPERM", "CNLS"}, {"ESRCH", "through", "N"}, 0},
    {"input_priority_of_outsider", "The disk priority of a process outside is chosen.", "process.settings", Kind::attack, Control::machine, Setting::host_network, {"ESRCH", "EPERM", "CNLS"}, {"ESRCH", "through", "N"}, 0},
};
// The end of the run
const Row group_12[] = {
    {"daemon", "A process in a session of its own lives on when init is gone.", "process.tree", Kind::attack, Control::works, Setting::host_network, {"no effect", "no effect", "CNLS"}, {}, 0},
};
// Shared memory, semaphores, queues
const Row group_13[] = {
    {"shared_memory", "A System V shared memory segment of another process is attached.", "ipc.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"semaphores", "A System V semaphore of another process is used.", "ipc.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"message_queue", "A System V message queue of another process is used.", "ipc.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "through", "N"}, {}, 0},
    {"posix_shared_memory", "A POSIX shared memory object of another process is opened.", "ipc.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
    {"posix_message_queue", "A POSIX message queue of another process is opened.", "ipc.isolation", Kind::attack, Control::machine, Setting::host_network, {"ENOENT", "EACCES", "NL"}, {}, 0},
};
// Sockets outside
const Row group_14[] = {
    {"pathname_socket", "A listener outside with a path is connected to.", "sockets.outside", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EAFNOSUPPORT", "NS"}, {}, 0},
    {"pathname_datagram", "A datagram socket outside with a path is connected to.", "sockets.outside", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EAFNOSUPPORT", "NS"}, {}, 0},
    {"control_socket", "The socket that controls the run is connected to.", "sockets.outside", Kind::attack, Control::works, Setting::host_network, {"ENOENT", "EAFNOSUPPORT", "NS"}, {}, 0},
};
// Abstract sockets
const Row group_15[] = {
    {"abstract_socket", "A listener outside with an abstract name is connected to.", "sockets.abstract", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EAFNOSUPPORT", "LS"}, {}, 6},
    {"abstract_datagram", "A datagram socket outside with an abstract name is connected to.", "sockets.abstract", Kind::attack, Control::works, Setting::host_network, {"EPERM", "EAFNOSUPPORT", "LS"}, {}, 6},
    {"abstract_socket_own_network", "The same where the network is the run's own.", "sockets.abstract", Kind::attack, Control::works, Setting::no_network, {"ECONNREFUSED", "EAFNOSUPPORT", "NLS"}, {}, 0},
};
// The network, where the preset gives none
const Row group_16[] = {
    {"tcp_loopback", "A listener on the loopback address of the host is connected to.", "network.none", Kind::attack, Control::works, Setting::no_network, {"ECONNREFUSED", "EAFNOSUPPORT", "NS"}, {}, 0},
    {"udp_loopback", "A datagram is sent to the loopback address of the host, and received there.", "network.none", Kind::attack, Control::works, Setting::no_network, {"ECONNREFUSED", "EAFNOSUPPORT", "NS"}, {}, 0},
    {"tcp_loopback_mapped", "The same by an IPv6 socket and a mapped address.", "network.none", Kind::attack, Control::machine, Setting::no_network, {"ECONNREFUSED", "EAFNOSUPPORT", "NS"}, {}, 0},
    {"same_network", "A port that the host uses is taken: its network is the program's.", "network.none", Kind::attack, Control::machine, Setting::no_network, {"no effect", "EAFNOSUPPORT", "NS"}, {}, 0},
};
// What must work
const Row group_17[] = {
    {"work_files", "A file of the worktree is made, written, read back, renamed and removed.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_existing_file", "An existing file at the top of the worktree is written.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_new_name", "A new name is made at the top of the worktree.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "EACCES", ""}, {}, 0},
    {"work_replace", "A file at the top of the worktree is replaced, as editors do it.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "EACCES", ""}, {}, 0},
    {"work_directories", "A directory is made and removed.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_links", "A hard link and a symbolic link are made.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_attributes", "Mode and times of a file of the worktree are set.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_temporary_link", "A file without a name is made and linked into the worktree.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_locks", "A file of the worktree is locked, mapped and written through the mapping.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_watch", "The worktree is watched for changes.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_script", "A program written into the worktree is executed.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_read_only_root", "A file of a read-only root is read.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_home", "The run's home is written.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_temporary", "The run's temporary directory is written.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_tools", "Programs of PATH run in a pipeline.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"git_status", "git looks at the worktree.", "workspace.usable", Kind::must_work, Control::machine, Setting::no_network, {"through", "through", ""}, {}, 0},
    {"git_commit", "git adds, commits and shows the commit.", "workspace.usable", Kind::must_work, Control::machine, Setting::no_network, {"through", "through", ""}, {}, 0},
    {"work_fork", "A child is started and waited for.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_orphan", "A process in a session of its own is started and answers.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_threads", "Threads are started and joined.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_memory_program", "A program that exists only in memory is executed.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_signals", "A child of the program is stopped, continued and ended by signals.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_process_descriptor", "A child is waited for by its descriptor.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_own_process", "The program finds its own executable and descriptors in /proc.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_devices", "The devices that every program uses are there.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_terminal", "A pseudo-terminal is opened and used.", "workspace.usable", Kind::must_work, Control::machine, Setting::host_network, {"through", "EACCES", ""}, {}, 0},
    {"work_shared_memory", "A POSIX shared memory object of the run is made.", "workspace.usable", Kind::must_work, Control::machine, Setting::host_network, {"through", "ENOENT", ""}, {}, 0},
    {"work_socket_pair", "Two ends of a socket pair talk.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_unix_socket", "A socket of the run's own is listened on and connected to.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "EAFNOSUPPORT", ""}, {}, 0},
    {"work_loopback", "A loopback port of the run's own is listened on and connected to.", "workspace.usable", Kind::must_work, Control::works, Setting::no_network, {"through", "EAFNOSUPPORT", ""}, {}, 0},
    {"work_internet_socket", "Internet sockets and the routing table can be used.", "workspace.usable", Kind::must_work, Control::machine, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_events", "epoll, eventfd, timers and signals by descriptor work.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
    {"work_copy", "A file is copied by the kernel.", "workspace.usable", Kind::must_work, Control::works, Setting::host_network, {"through", "through", ""}, {}, 0},
};
// clang-format on

template <unsigned n>
constexpr Group group(const char* title, const Row (&rows)[n]) {
  return {title, rows, n};
}

}  // namespace

const Group groups[] = {
    group("Content outside is read", group_0),
    group("Content outside is changed", group_1),
    group("Metadata outside is seen or changed", group_2),
    group("Denied paths", group_3),
    group("Protected names", group_4),
    group("Set-id files, file capabilities and devices", group_5),
    group("The host's /tmp", group_6),
    group("Namespaces and mounts", group_7),
    group("Doors past the filter, other entries, kernel settings", group_8),
    group("Unusual socket families", group_9),
    group("Other processes", group_10),
    group("What other processes write to, and their settings", group_11),
    group("The end of the run", group_12),
    group("Shared memory, semaphores, queues", group_13),
    group("Sockets outside", group_14),
    group("Abstract sockets", group_15),
    group("The network, where the preset gives none", group_16),
    group("What must work", group_17),
};
const unsigned group_count = sizeof groups / sizeof groups[0];

const Row* find(const char* id) {
  for (const Group& each : groups) {
    for (unsigned i = 0; i < each.count; ++i) {
      if (std::strcmp(each.rows[i].id, id) == 0) {
        return &each.rows[i];
      }
    }
  }
  return nullptr;
}

}  // namespace hitchrail::probe
