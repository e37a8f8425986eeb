#include "kernel/table.hpp"

namespace hitchrail::test {

// clang-format off
const Attack attacks[] = {
    // files outside
    {"read_outside", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"write_outside", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"truncate_outside", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"create_outside", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"stat_outside", Control::works, false, {"refused ENOENT", "through", "N"}, {"refused ENOENT", "through", "N"}},
    {"chmod_outside", Control::works, false, {"refused ENOENT", "through", "N"}, {"refused ENOENT", "through", "N"}},
    {"proc_root", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"symlink_outside", Control::works, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"inherited_descriptor", Control::works, false, {"refused EBADF", "refused EBADF", "CNLS"}, {"refused EBADF", "refused EBADF", "CNLS"}},
    {"file_handle", Control::needs_root, false, {"refused EPERM", "refused EPERM", "CNLS"}, {"refused EPERM", "refused EPERM", "CNLS"}},
    // read-only roots and the worktree as a whole
    {"write_read_only", Control::works, false, {"refused EROFS", "refused EACCES", "NL"}, {"refused EROFS", "refused EACCES", "NL"}},
    {"chmod_read_only", Control::works, false, {"refused EROFS", "through", "N"}, {"refused EROFS", "through", "N"}},
    {"link_read_only", Control::works, false, {"refused EXDEV", "refused EXDEV", "NL"}, {"refused EXDEV", "refused EXDEV", "NL"}},
    {"link_by_descriptor", Control::works, false, {"refused EXDEV", "refused EXDEV", "NL"}, {"refused EXDEV", "refused EXDEV", "NL"}},
    {"rename_worktree", Control::works, false, {"refused EBUSY", "refused EACCES", "NL"}, {"refused EBUSY", "refused EACCES", "NL"}},
    // protected names
    {"protected_write", Control::works, false, {"refused EROFS", "refused EACCES", "NL"}, {"refused EROFS", "refused EACCES", "NL"}},
    {"protected_create", Control::works, false, {"refused EROFS", "refused EACCES", "NL"}, {"refused EROFS", "refused EACCES", "NL"}},
    {"protected_rename", Control::works, false, {"refused EBUSY", "refused EACCES", "NL"}, {"refused EBUSY", "refused EACCES", "NL"}},
    {"protected_exchange", Control::works, false, {"refused EBUSY", "refused EACCES", "NL"}, {"refused EBUSY", "refused EACCES", "NL"}},
    {"protected_rename_inside", Control::works, false, {"refused EXDEV", "refused EACCES", "NL"}, {"refused EXDEV", "refused EACCES", "NL"}},
    {"protected_link", Control::works, false, {"refused EROFS", "refused EACCES", "NL"}, {"refused EROFS", "refused EACCES", "NL"}},
    {"protected_symlink", Control::works, false, {"refused EEXIST", "refused EACCES", "NL"}, {"refused EEXIST", "refused EACCES", "NL"}},
    // set-id files and devices
    {"set_id_chmod", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"set_id_open", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"set_id_fchmodat2", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"set_id_openat2", Control::works, false, {"refused ENOSYS", "refused ENOSYS", "S"}, {"refused ENOSYS", "refused ENOSYS", "S"}},
    {"device_node", Control::works, false, {"refused EPERM", "refused EPERM", "NLS"}, {"refused EPERM", "refused EPERM", "NLS"}},
    // namespaces, mounts, kernel settings
    {"user_namespace", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"clone_namespace", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"clone3_namespace", Control::works, false, {"refused ENOSYS", "refused ENOSYS", "S"}, {"refused ENOSYS", "refused ENOSYS", "S"}},
    {"mount_tmpfs", Control::needs_root, false, {"refused EPERM", "refused EPERM", "CNLS"}, {"refused EPERM", "refused EPERM", "CNLS"}},
    {"open_tree", Control::needs_root, false, {"refused EPERM", "refused EPERM", "CNLS"}, {"refused EPERM", "refused EPERM", "CNLS"}},
    {"kernel_setting", Control::needs_root, false, {"refused ENOENT", "refused EACCES", "NL"}, {"refused ENOENT", "refused EACCES", "CNLS"}},
    // other processes
    {"ptrace_child", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"process_memory", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"outsider_memory", Control::works, false, {"refused ENOENT", "refused EACCES", "CNLS"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"outsider_environment", Control::works, false, {"refused ENOENT", "refused EACCES", "CNLS"}, {"refused ENOENT", "refused EACCES", "NL"}},
    {"signal_outsider", Control::works, false, {"refused ESRCH", "refused EPERM", "NL"}, {"refused ESRCH", "refused EPERM", "NL"}},
    {"signal_parent", Control::works, false, {"refused EPERM", "refused EPERM", "L"}, {"refused EPERM", "refused EPERM", "L"}},
    {"shared_memory", Control::works, false, {"refused ENOENT", "through", "N"}, {"refused ENOENT", "through", "N"}},
    // sockets
    {"abstract_socket", Control::works, false, {"refused EPERM", "refused EAFNOSUPPORT", "LS"}, {"refused EPERM", "refused EAFNOSUPPORT", "LS"}},
    {"pathname_socket", Control::works, false, {"refused ENOENT", "refused EAFNOSUPPORT", "NS"}, {"refused ENOENT", "refused EAFNOSUPPORT", "NS"}},
    {"tcp_loopback", Control::works, true, {"refused ECONNREFUSED", "refused EAFNOSUPPORT", "NS"}, {"refused ECONNREFUSED", "refused EAFNOSUPPORT", "NS"}},
    {"netlink_generic", Control::works, false, {"refused EAFNOSUPPORT", "refused EAFNOSUPPORT", "S"}, {"refused EAFNOSUPPORT", "refused EAFNOSUPPORT", "S"}},
    // doors past a filter, terminals, other entries
    {"io_uring", Control::works, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"keyring", Control::kernel_setting, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"bpf", Control::kernel_setting, false, {"refused EPERM", "refused EPERM", "CNLS"}, {"refused EPERM", "refused EPERM", "CNLS"}},
    {"perf_event", Control::kernel_setting, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"userfaultfd", Control::kernel_setting, false, {"refused EPERM", "refused EPERM", "S"}, {"refused EPERM", "refused EPERM", "S"}},
    {"terminal_injection", Control::kernel_setting, false, {"refused EPERM", "refused EACCES", "LS"}, {"refused EPERM", "refused EACCES", "LS"}},
    {"terminal_injection_high_bit", Control::kernel_setting, false, {"refused EPERM", "refused EACCES", "LS"}, {"refused EPERM", "refused EACCES", "LS"}},
    {"i386_entry", Control::works, false, {"killed SYS", "killed SYS", "S"}, {"killed SYS", "killed SYS", "S"}},
};
// clang-format on
const unsigned attack_count = sizeof attacks / sizeof attacks[0];

}  // namespace hitchrail::test
