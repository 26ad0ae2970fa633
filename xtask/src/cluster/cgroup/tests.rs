use super::*;

const V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/hugetlb rw,relatime - cgroup cgroup rw,hugetlb
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
90 23 0:32 / /mnt/elsewhere rw,relatime - cgroup cgroup rw,memory
";
const V2: &str = "\
23 1 0:20 / /sys rw shared:2 - sysfs sysfs rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

#[test]
fn version_1_keeps_each_hierarchy_with_its_own_options() {
    let layout = Layout::parse(V1).unwrap();
    assert_eq!(layout.version(), 1);
    let Layout::V1(hierarchies) = &layout else { panic!("{layout:?}") };
    let options: Vec<_> = hierarchies.iter().map(|h| h.options.as_str()).collect();
    assert_eq!(options, ["cpu,cpuacct", "cpuset", "memory", "none,name=systemd"]);
    assert_eq!(
        layout.join_list("group", "node1"),
        "/sys/fs/cgroup/cpu,cpuacct/group/node1/cgroup.procs\n\
         /sys/fs/cgroup/cpuset/group/node1/cgroup.procs\n\
         /sys/fs/cgroup/memory/group/node1/cgroup.procs\n\
         /sys/fs/cgroup/systemd/group/node1/cgroup.procs\n"
    );
}

#[test]
fn version_1_nodes_mount_the_same_hierarchies_again() {
    let script = Layout::parse(V1).unwrap().mount_script();
    for line in [
        "mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup",
        "mount -t cgroup -o cpu,cpuacct cgroup /sys/fs/cgroup/cpu,cpuacct",
        "[ -e /sys/fs/cgroup/cpuacct ] || ln -s /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup/cpuacct",
        "mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd",
    ] {
        assert!(script.lines().any(|l| l == line), "{line} is not in\n{script}");
    }
    assert!(!script.contains("hugetlb") && !script.contains("ln -s /sys/fs/cgroup/systemd"));
}

#[test]
fn version_2_has_one_folder_and_frees_the_root_of_the_node() {
    let layout = Layout::parse(V2).unwrap();
    assert_eq!(layout.version(), 2);
    assert_eq!(layout.folders("group"), [PathBuf::from("/sys/fs/cgroup/group")]);
    assert_eq!(layout.join_list("group", "control"), "/sys/fs/cgroup/group/control/cgroup.procs\n");
    let script = layout.mount_script();
    let lines: Vec<_> = script.lines().collect();
    assert_eq!(lines[0], "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
    let moved = script.find("init/cgroup.procs").unwrap();
    assert!(moved < script.find("subtree_control").unwrap(), "{script}");
}

#[test]
fn generated_scripts_are_valid_shell() {
    for mountinfo in [V1, V2] {
        let script = Layout::parse(mountinfo).unwrap().mount_script();
        let status = std::process::Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
        assert!(status.success(), "{script}");
    }
}

#[test]
fn a_machine_without_the_memory_controller_is_refused() {
    assert!(Layout::parse("").is_err());
    assert!(Layout::parse(V1.lines().last().unwrap()).is_err());
    assert!(Layout::parse("41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n").is_err());
}

#[test]
fn a_new_cpuset_takes_over_what_its_parent_has() {
    let root = tempfile::tempdir().unwrap();
    for (file, value) in [("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")] {
        fs::write(root.path().join(file), value).unwrap();
    }
    let group = root.path().join("group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cpuset.cpus"), "\n").unwrap();
    fs::write(group.join("cpuset.mems"), "1\n").unwrap();
    make(&group).unwrap();
    assert_eq!(fs::read_to_string(group.join("cpuset.cpus")).unwrap(), "0-1\n");
    assert_eq!(fs::read_to_string(group.join("cpuset.mems")).unwrap(), "1\n");
}
