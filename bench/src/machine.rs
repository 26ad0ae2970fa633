//! What a figure depends on and a reader has to know: the machine, and how busy it was.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Instructions that ciphers, hashes and copies are chosen by, as the kernel names them.
const FEATURES: &[&str] = &[
    "aes",
    "pclmulqdq",
    "vaes",
    "vpclmulqdq",
    "sse4_2",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "gfni",
    "sha_ni",
    "bmi2",
    "adx",
    "erms",
    "fsrm",
    "hypervisor", // x86-64
    "asimd",
    "pmull",
    "sha2",
    "sha3",
    "sve",
    "sve2", // AArch64
];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// As the kernel names it.
    pub cpu: String,
    pub architecture: String,
    /// Cores that this process may use.
    pub cores: u64,
    /// Instruction sets that matter here, as the kernel names them; `hypervisor` means a virtual machine.
    pub features: Vec<String>,
    pub kernel: String,
    pub memory_mebibytes: u64,
    /// Load averages of 1, 5 and 15 minutes when the run began.
    pub load_before: Vec<f64>,
    /// The same when it ended; the run itself is in it.
    pub load_after: Vec<f64>,
}

impl Machine {
    /// Looks at this machine. What cannot be found out stays empty.
    #[must_use]
    pub fn look() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: cpu(&cpuinfo),
            architecture: std::env::consts::ARCH.to_owned(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64),
            features: features(&cpuinfo),
            kernel: release.trim().to_owned(),
            memory_mebibytes: memory(&read("/proc/meminfo")),
            load_before: load(),
            load_after: Vec::new(),
        }
    }

    /// Notes how busy it is at the end.
    pub fn look_again(&mut self) {
        self.load_after = load();
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn value<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// Virtual machines often hide the model's name; family, model and stepping tell the generation.
fn cpu(cpuinfo: &str) -> String {
    let Some(name) = value(cpuinfo, "model name") else {
        return value(cpuinfo, "CPU implementer")
            .map(|code| format!("implementer {code}"))
            .unwrap_or_default();
    };
    let numbers = ["cpu family", "model", "stepping"].map(|field| value(cpuinfo, field).unwrap_or("?"));
    let [family, model, stepping] = numbers;
    format!("{name} (family {family}, model {model}, stepping {stepping})")
}

fn features(cpuinfo: &str) -> Vec<String> {
    let flags = value(cpuinfo, "flags").or_else(|| value(cpuinfo, "Features")).unwrap_or_default();
    let has = |feature: &&&str| flags.split_whitespace().any(|flag| flag == **feature);
    FEATURES.iter().filter(has).map(|feature| (*feature).to_owned()).collect()
}

fn memory(meminfo: &str) -> u64 {
    let kibibytes = value(meminfo, "MemTotal").and_then(|text| text.split_whitespace().next());
    kibibytes.and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn load() -> Vec<f64> {
    read("/proc/loadavg").split_whitespace().take(3).filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_kernels_words() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n\
                       flags\t\t: fpu aes avx2 vaes unknown hypervisor\n";
        assert_eq!(cpu(cpuinfo), "AMD EPYC (family 26, model 2, stepping 1)");
        assert_eq!(features(cpuinfo), ["aes", "vaes", "avx2", "hypervisor"]);
        assert_eq!(memory("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), 24_000);
        assert_eq!(cpu(""), "");
    }

    #[test]
    fn this_machine_has_a_core_and_a_kernel() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && !machine.kernel.is_empty());
        assert_eq!(machine.load_before.len(), 3);
    }
}
