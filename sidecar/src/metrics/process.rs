//! What the kernel says about this process, read when somebody looks.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sealane_types::UnixSeconds;

/// Ticks per second in `/proc`: `USER_HZ`, part of the kernel's ABI and 100 on every architecture that this is built
/// for.
const TICKS_PER_SECOND: f64 = 100.0;

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) started: UnixSeconds,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, unit: Option<Unit>, help: &str, value: u64| {
            let metric = ConstGauge::new(value as f64);
            let kind = prometheus_client::metrics::MetricType::Gauge;
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)
        };
        let started = self.started.0;
        let help = "When this process started, in seconds since 1970.";
        gauge("process_start_time", Some(Unit::Seconds), help, started)?;
        // A kernel that hides one of these leaves it out, as it would be for any process.
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_memory", Some(Unit::Bytes), "Resident memory of this process.", bytes)?;
        }
        if let Some(descriptors) = open_descriptors() {
            gauge("process_open_fds", None, "Open file descriptors of this process.", descriptors)?;
        }
        if let Some(most) = descriptors_max() {
            gauge("process_max_fds", None, "File descriptors that this process may open.", most)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let metric = ConstCounter::new(seconds);
            let help = "Processor time that this process used.";
            let kind = prometheus_client::metrics::MetricType::Counter;
            metric.encode(encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), kind)?)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn open_descriptors() -> Option<u64> {
    // One of them is this directory.
    fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1))
}

fn descriptors_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold spaces; it ends with the last parenthesis.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    // proc_pid_stat(5): state is the third field, utime the fourteenth and stime the fifteenth.
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}
